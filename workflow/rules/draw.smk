"""A rule for each declared figure.

Who includes this says which are `DECLARED`, and gives their inputs and settings.
"""

for one in DECLARED:

    rule:
        name:
            one.rule
        input:
            **figure_inputs(one),
            library=library("plot") + code(one.path),
        output:
            **figure(one),
            **figure_text(one),
        log:
            f"{LOGS}/{one.log}.log",
        localrule: True
        conda:
            "../../environment.yml"
        params:
            **figure_settings(one),
            module=one.module,
        message:
            one.message
        script:
            "../scripts/plot.py"
