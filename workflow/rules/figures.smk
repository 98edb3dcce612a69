"""Rules that draw the figures of an experiment; fig1 ... fig6 ask for one."""


wildcard_constraints:
    pair="|".join(FIGURES.pairs),


include: "draw.smk"


for one in DECLARED:

    if one.target:

        rule:
            name:
                one.target
            input:
                refusing(figure_files(*FIGURES.titles(one)), FIGURES.refuse(one)),
