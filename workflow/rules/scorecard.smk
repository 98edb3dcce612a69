"""Rules that check the paper's claims against the tables."""

MODELLED_SYSTEM = (
    SYSTEM.emulation["model_of"]
    if SYSTEM.source == "emulated"
    else SYSTEM.devices_of or SYSTEM.name
)
SCORECARD = Declared(
    file="scorecard",
    title="Scorecard: which claims of the paper hold",
    path=Path("scorecard.py"),
)


rule score_claims:
    input:
        paper=of_our_loaders(
            "scorecard", from_here(WORKFLOW.parent / "resources/paper/claims.yaml")
        ),
        io_time=f"{TABLES}/io_time.parquet",
        breakdown=f"{TABLES}/breakdown.parquet",
        epochs=f"{TABLES}/epochs.parquet",
        observations=observations(),
        templates=templates("scorecard"),
        library=library("score_claims"),
    output:
        **figure(SCORECARD),
        claims=table(f"{TABLES}/claims.parquet", "Claims of the paper"),
        markdown=f"{RESULTS}/scorecard.md",
        html=page("scorecard", "Scorecard"),
    log:
        f"{LOGS}/score_claims.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        policy=SETTINGS["figures"]["scenario"]["policy"],
        loader=SETTINGS["figures"]["scenario"]["loader"],
        model=MODELLED_SYSTEM,
        computes=EXPERIMENT.computes,
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Checking the paper's claims."
    script:
        "../scripts/score_claims.py"


rule scorecard:
    input:
        rules.score_claims.output,
