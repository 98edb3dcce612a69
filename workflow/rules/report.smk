"""Rules that show an experiment on one page; figures.smk lists its figures."""

REPORT_TABLES = ["breakdown", "spread", "goals", "combinations"]
REPORT_TABLES += (
    ["statements", "certificate"] if EXPERIMENT.runs_program else ["claims"]
)
# A run of each simulated scenario: all runs of a scenario have the same settings.
SIMULATIONS = [
    f"{RESULTS}/runs/{scenario.name}/{points[0].path}/run.json"
    for scenario, points in (EXPERIMENT.sweep.items() if EXPERIMENT.simulated else ())
]


rule build_report:
    input:
        **{table: f"{TABLES}/{table}.parquet" for table in REPORT_TABLES},
        estimates=ESTIMATES[MODEL] if MODEL in METHODS else [],
        calibration=(
            f"{RESULTS}/model/{CALIBRATED}/calibration.parquet" if CALIBRATED else []
        ),
        policy_claims=f"{COMPARISON}/policy_claims.parquet" if SCORES_CLAIMS else [],
        policy_summary=(
            f"{COMPARISON}/policy_summary.parquet" if "policies" in COMPARED else []
        ),
        background=background_table(),
        storage_time=STORAGE_TIME,
        stalls=STALLS_OF_TRAINING,
        limits=LIMITS,
        runs=when_launched(if_measured(run_files("run.json"))),
        audits=if_measured(run_files("audit.json")),
        simulations=SIMULATIONS,
        run_facts=if_measured(f"{TABLES}/run_facts.parquet"),
        figures=expand(f"{RESULTS}/figures/{{name}}.svg", name=REPORT_FIGURES),
        captions=[caption(one.name) for one in REPORTED for _ in one.titles(PAIRS)],
        explorer=f"{RESULTS}/explorer.html",
        explorer_caption=caption("explorer"),
        scorecard_caption=caption("scorecard"),
        paper=from_here(WORKFLOW.parent / "resources/paper/claims.yaml"),
        templates=templates("report"),
        observations=observations(),
        library=library("build_report"),
    output:
        report=page("report", "Report"),
    log:
        f"{LOGS}/build_report.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        experiment=EXPERIMENT.name,
        description=SYSTEM.description,
        provenance=PROVENANCE,
        epoch=SETTINGS["figures"]["epoch"],
        scene=SCENE,
        dataset_titles=DATASET_TITLES,
        figures=REPORT_FIGURES,
        anonymous=SETTINGS["report"]["anonymous"],
    message:
        "Building the report."
    script:
        "../scripts/build_report.py"


rule report:
    input:
        rules.build_report.output,
