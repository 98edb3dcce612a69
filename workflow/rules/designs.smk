"""A study of accelerators: how many of them a storage feeds, by the simulator.

Nothing is measured, and nothing of an experiment is needed. Each workload is simulated at
each cache rate by a job of its own.
"""

from tierscope.core.output.declared import PlainFigures
from tierscope.experiment.designs.settings import read_study
from tierscope.experiment.start import start_alone

with one_line():
    config.update(OPENING.as_schema_says(config, "accelerators"))
    STUDY = read_study(config, OPENING.defaults(), *OPENING.resources)
    RESULTS = OPENING.begin(config["experiment"], "simulated")
WORKLOADS = {workload.name: workload.source for workload in STUDY.workloads}
RATES = [f"{rate:03d}" for rate in sorted(STUDY.cache_rates_percent)]
FED = "<experiment>/accelerators/{workload}"
FITS = expand(f"{FED}/fit-{{rate}}.parquet", workload=WORKLOADS, rate=RATES)
DECLARED = declared_figures("accelerators")
FIGURES = PlainFigures(
    "<tables>/{}.parquet".format,
    {"provenance": STUDY.provenance, "sources": WORKLOADS},
    {"fit": FITS if STUDY.fit else []},
)


pathvars:
    **OPENING.pathvars,


include: "unknown.smk"


wildcard_constraints:
    workload="|".join(WORKLOADS),
    rate="|".join(RATES),


rule simulate_accelerators:
    input:
        library=OPENING.library("simulate_accelerators"),
    output:
        **({"fit": f"{FED}/fit-{{rate}}.parquet"} if STUDY.fit else {}),
        table=f"{FED}/cache-{{rate}}.parquet",
    log:
        "<logs>/simulate_accelerators/{workload}-{rate}.log",
    resources:
        terminal="progress",
    params:
        plan=lambda wildcards: STUDY.plan(wildcards.workload).as_json(),
        rate=lambda wildcards: int(wildcards.rate),
        most=STUDY.most,
        goal_percent=lambda wildcards: STUDY.goal_of(wildcards.workload),
        repetitions=STUDY.repetitions,
        fit=STUDY.fit,
    message:
        "Simulating accelerators of {wildcards.workload}, cache rate {wildcards.rate} %."
    script:
        "../scripts/simulate_accelerators.py"


rule collect_accelerators:
    input:
        accelerators=expand(
            f"{FED}/cache-{{rate}}.parquet", workload=WORKLOADS, rate=RATES
        ),
        library=OPENING.library("collect_tables"),
    output:
        accelerators=table("<tables>/accelerators.parquet", "Accelerators"),
    log:
        "<logs>/collect_accelerators.log",
    message:
        "Collecting what was simulated."
    script:
        "../scripts/collect_tables.py"


include: "draw.smk"


rule accelerators:
    input:
        figure_files("accelerators"),
        "<experiment>/summary.txt",


rule all:
    input:
        rules.accelerators.input,


onstart:
    with one_line():
        start_alone(SNAKEMAKE, Path(RESULTS), f"study {OPENING.name}", logger.info)


onsuccess:
    if (summary := Path(RESULTS, "summary.txt")).is_file():
        logger.info(summary.read_text().rstrip())
    table_path = f"{RESULTS}/{MAIN_SWEEP}/accelerators.parquet"
    logger.info(f"Figure: {RESULTS}/figures  Table: {table_path}")


# A workflow that imports this one may call it, whatever the configuration is about.
onerror:
    pass
