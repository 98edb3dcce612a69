"""Rules of the study of nodes: the same processes on one node and on several.

The study is part of an experiment whose configuration lists numbers of nodes.
"""


rule compare_nodes:
    input:
        io_time="<experiment>/nodes/io_time.parquet",
        epochs="<experiment>/nodes/epochs.parquet",
        background="<experiment>/nodes/background.parquet",
        faults=RUNS.of_launches(RUNS.of_table("faults.parquet", "faults", "nodes")),
        runs=RUNS.of_launches(RUNS.of_table("run.json", "faults", "nodes")),
        library=OPENING.library("compare_nodes"),
    output:
        **{name: f"<experiment>/nodes/{name}.parquet" for name in NODE_TABLES},
    log:
        "<logs>/compare_nodes.log",
    message:
        "Comparing the same processes on several numbers of nodes."
    script:
        "../scripts/compare_nodes.py"


rule nodes:
    input:
        figure=refusing(figure_files("nodes"), COMPARISONS.refuse_without_nodes),
        text=refusing(
            "<experiment>/nodes/summary.txt", COMPARISONS.refuse_without_nodes
        ),
    log:
        "<logs>/nodes.log",
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
