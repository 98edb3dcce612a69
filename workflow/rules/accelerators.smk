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


rule plot_accelerators:
    input:
        tables=fed_tables("cache"),
        fit=fed_tables("fit") if STUDY.fit else [],
        library=library("plot_accelerators"),
    output:
        **figure("accelerators", {"accelerators": "How many accelerators"}),
        table=table(f"{TABLES}/accelerators.parquet", "Accelerators"),
        text=f"{RESULTS}/summary.txt",
    log:
        f"{LOGS}/plot_accelerators.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=STUDY.provenance,
        sources={workload.name: workload.source for workload in STUDY.workloads},
    message:
        "Drawing how many accelerators the storage feeds."
    script:
        "../scripts/plot_accelerators.py"


rule accelerators:
    input:
        rules.plot_accelerators.output,


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
