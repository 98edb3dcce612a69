"""A study of designs: which storage meets a goal, and what it costs, by the simulator.

Nothing is measured, and nothing of an experiment is needed. One job simulates all
designs, as what is simulated next depends on what was found.
"""

from tierscope.core.output.declared import PlainFigures
from tierscope.experiment.designs.settings import read_study
from tierscope.experiment.start import start_alone

with one_line():
    config.update(OPENING.as_schema_says(config, "designs"))
    STUDY = read_study(config, OPENING.defaults(), *OPENING.resources)
    RESULTS = OPENING.begin(config["experiment"], "simulated")
FIT = {"fit": "<tables>/designs_fit.parquet"} if STUDY.study.fit else {}
ASKED = {
    "provenance": STUDY.provenance,
    "sources": {one.name: one.source for one in STUDY.workloads},
    "cost": STUDY.study.as_json()["cost"],
    "limits": STUDY.study.limits,
}
DECLARED = declared_figures("designs")
FIGURES = PlainFigures("<tables>/{}.parquet".format, ASKED, {"fit": FIT.get("fit", [])})


pathvars:
    **OPENING.pathvars,


include: "unknown.smk"


rule simulate_designs:
    input:
        library=OPENING.library("simulate_designs"),
    output:
        **FIT,
        designs=table("<tables>/designs.parquet", "Designs"),
        inputs=table("<tables>/designs_inputs.parquet", "What to measure next"),
    log:
        "<logs>/simulate_designs.log",
    threads: 16
    resources:
        mem_mb=lambda wildcards, threads: 700 * threads,
        terminal="progress",
    params:
        study=STUDY.study.as_json(),
    message:
        "Simulating designs."
    script:
        "../scripts/simulate_designs.py"


include: "draw.smk"


rule build_designs:
    input:
        designs="<tables>/designs.parquet",
        inputs="<tables>/designs_inputs.parquet",
        templates=OPENING.templates("designs"),
        library=OPENING.library("build_designs"),
    output:
        page=page("designs", "What to buy"),
    log:
        "<logs>/build_designs.log",
    params:
        **ASKED,
        experiment=OPENING.name,
    message:
        "Building the page of designs."
    script:
        "../scripts/build_designs.py"


rule designs:
    input:
        figure_files("fig7_designs"),
        "<experiment>/summary.txt",
        rules.build_designs.output,


rule all:
    input:
        rules.designs.input,


onstart:
    with one_line():
        start_alone(SNAKEMAKE, Path(RESULTS), f"study {OPENING.name}", logger.info)
    WATCH.wait_while_jobs_run()


onsuccess:
    if (summary := Path(RESULTS, "summary.txt")).is_file():
        logger.info(summary.read_text().rstrip())
    table_path = f"{RESULTS}/{MAIN_SWEEP}/designs.parquet"
    logger.info(f"Page: {RESULTS}/designs.html  Table: {table_path}")


# A workflow that imports this one may call it, whatever the configuration is about.
onerror:
    pass
