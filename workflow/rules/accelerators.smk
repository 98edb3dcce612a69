"""A study of accelerators: how many of them a storage feeds, by the simulator.

Nothing is measured, and nothing of an experiment is needed. Each workload is simulated at
each cache rate by a job of its own.
"""


include: "accelerators_common.smk"
include: "unknown.smk"


wildcard_constraints:
    workload="|".join(WORKLOADS),
    rate="|".join(f"{rate:03d}" for rate in STUDY.cache_rates_percent),


rule simulate_accelerators:
    input:
        library=library("simulate_accelerators"),
    output:
        **({"fit": f"{FED}/{{workload}}/fit-{{rate}}.parquet"} if STUDY.fit else {}),
        table=f"{FED}/{{workload}}/cache-{{rate}}.parquet",
    log:
        f"{LOGS}/simulate_accelerators/{{workload}}-{{rate}}.log",
    localrule: True
    conda:
        "../../environment.yml"
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
        accelerators=fed_tables("cache"),
        library=library("collect_tables"),
    output:
        accelerators=table(f"{TABLES}/accelerators.parquet", "Accelerators"),
    log:
        f"{LOGS}/collect_accelerators.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Collecting what was simulated."
    script:
        "../scripts/collect_tables.py"


include: "draw.smk"


rule accelerators:
    input:
        figure_files("accelerators"),
        f"{RESULTS}/summary.txt",


rule all:
    input:
        rules.accelerators.input,


onstart:
    refuse_or(start_alone, SNAKEMAKE, Path(RESULTS), f"study {NAME}", logger.info)


onsuccess:
    if (summary := Path(RESULTS, "summary.txt")).is_file():
        logger.info(summary.read_text().rstrip())
    logger.info(f"Figure: {RESULTS}/figures  Table: {TABLES}/accelerators.parquet")


# A workflow that imports this one may call it, whatever the configuration is about.
onerror:
    pass
