"""Rules of the study of nodes: the same processes on one node and on several.

The study is part of an experiment whose configuration lists numbers of nodes.
"""

NODES = f"{RESULTS}/nodes"
NODE_WORDS = ", ".join(map(str, SETTINGS["studies"]["nodes"]["n_nodes"]))
NODES_PROVENANCE = (
    f"{EXPERIMENT.provenance}, system {SYSTEM.name} ({SYSTEM.description}), "
    f"{SYSTEM.n_processes} processes on {NODE_WORDS} nodes"
)


rule compare_nodes:
    input:
        io_time=f"{NODES}/io_time.parquet",
        epochs=f"{NODES}/epochs.parquet",
        background=f"{NODES}/background.parquet",
        faults=when_launched(run_files("faults.parquet", "nodes", leaves("faults"))),
        runs=when_launched(run_files("run.json", "nodes", leaves("faults"))),
        library=library("compare_nodes"),
    output:
        **{name: f"{NODES}/{name}.parquet" for name in NODE_TABLES},
    log:
        f"{LOGS}/compare_nodes.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Comparing the same processes on several numbers of nodes."
    script:
        "../scripts/compare_nodes.py"


rule nodes:
    input:
        figure=if_nodes_vary(figure_files("nodes")),
        text=if_nodes_vary(f"{NODES}/summary.txt"),
    log:
        f"{LOGS}/nodes.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
