"""Rules that check the paper's claims against the tables."""

SCORECARD = "Scorecard: which claims of the paper hold"


rule score_claims:
    input:
        paper=refusing(PAPER, COMPARISONS.refuse_programs("scorecard")),
        io_time="<tables>/io_time.parquet",
        breakdown="<tables>/breakdown.parquet",
        epochs="<tables>/epochs.parquet",
        observations=RUNS.observations(),
        templates=OPENING.templates("scorecard"),
        library=OPENING.library("score_claims"),
    output:
        **figure("scorecard", {"scorecard": SCORECARD}, "scorecard"),
        claims=table("<tables>/claims.parquet", "Claims of the paper"),
        markdown="<experiment>/scorecard.md",
        html=page("scorecard", "Scorecard"),
    log:
        "<logs>/score_claims.log",
    params:
        epoch=SETTINGS["figures"]["epoch"],
        policy=SETTINGS["figures"]["scenario"]["policy"],
        loader=SETTINGS["figures"]["scenario"]["loader"],
        model=SYSTEM.modelled,
        computes=EXPERIMENT.computes,
        provenance=FIGURES.provenance,
        dataset_titles=FIGURES.dataset_titles,
    message:
        "Checking the paper's claims."
    script:
        "../scripts/score_claims.py"


rule scorecard:
    input:
        rules.score_claims.output,
