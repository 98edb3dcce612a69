"""Rules that show an experiment on one page; figures.smk lists its figures."""

REPORT_TABLES = ["breakdown", "spread", "goals", "combinations"]
REPORT_TABLES += (
    ["statements", "certificate"] if EXPERIMENT.runs_program else ["claims"]
)


rule build_report:
    input:
        **{table: f"<tables>/{table}.parquet" for table in REPORT_TABLES},
        estimates=MODELS.estimates_by_model,
        calibration=MODELS.of_estimates("calibration.parquet"),
        policy_claims=["<experiment>/policies/policy_claims.parquet"]
        * COMPARISONS.scores_claims,
        policy_summary=["<experiment>/policies/policy_summary.parquet"]
        * ("policies" in COMPARISONS.possible),
        background=RUNS.summed("background"),
        storage_time=STORAGE_TIME,
        class_stalls=MODELS.stalls_of_training,
        limits="<tables>/limits.parquet",
        runs=RUNS.of_launches(RUNS.if_measured(RUNS.files("run.json"))),
        audits=RUNS.if_measured(RUNS.files("audit.json")),
        simulations=RUNS.simulated,
        run_facts=RUNS.if_measured("<tables>/run_facts.parquet"),
        figures=expand("<experiment>/figures/{name}.svg", name=TITLES),
        captions=[
            caption(FIGURES.caption(one))
            for one in REPORTED
            for _ in FIGURES.titles(one)
        ],
        explorer="<experiment>/explorer.html",
        explorer_caption=caption("explorer"),
        scorecard_caption=caption("scorecard"),
        paper=PAPER,
        templates=OPENING.templates("report"),
        observations=RUNS.observations(),
        library=OPENING.library("build_report"),
    output:
        report=page("report", "Report"),
        answer="<experiment>/answer.txt",
    log:
        "<logs>/build_report.log",
    params:
        experiment=EXPERIMENT.name,
        description=SYSTEM.description,
        provenance=FIGURES.provenance,
        epoch=SETTINGS["figures"]["epoch"],
        scene=COMPARISONS.scene,
        goal_origin=GOAL_ORIGIN,
        dataset_titles=FIGURES.dataset_titles,
        figures=TITLES,
        anonymous=SETTINGS["report"]["anonymous"],
    message:
        "Building the report."
    script:
        "../scripts/build_report.py"


rule report:
    input:
        rules.build_report.output,
