"""A rule for each declared figure, which `FIGURES` knows.

Who includes this makes both.
"""

for one in DECLARED:

    rule:
        name:
            one.rule
        input:
            **FIGURES.inputs(one),
            library=OPENING.library("plot") + OPENING.code(one.path),
        output:
            **figure(one.file, FIGURES.titles(one), FIGURES.caption(one), one.source),
            **figure_text(one),
        log:
            f"<logs>/{one.log}.log",
        params:
            **FIGURES.settings(one),
            module=one.module,
            title=title_of(one.file, FIGURES.titles(one)),
        message:
            'Drawing "{params.title}".'
        script:
            "../scripts/plot.py"
