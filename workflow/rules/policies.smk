"""Rules that compare policies and loaders: the time saved, and when saving begins.

If an experiment has several policies for the figures' dataset, OST count and loader, or
LMDB loaders, the figures are part of its report.
"""


rule compare_policies:
    input:
        io_time="<tables>/io_time.parquet",
        epochs="<tables>/epochs.parquet",
        background=RUNS.summed("background"),
        stage_in=RUNS.peer_tables()[:1],
        runs=RUNS.of_launches(RUNS.files("run.json")) if EXPERIMENT.runs_program else [],
        observations=RUNS.observations(),
        library=OPENING.library("compare_policies"),
    output:
        epochs="<experiment>/policies/policy_epochs.parquet",
        totals=table(
            "<experiment>/policies/policy_totals.parquet", "Time of each policy"
        ),
        summary=table(
            "<experiment>/policies/policy_summary.parquet", "Time saved by each policy"
        ),
        text="<experiment>/policies/summary.txt",
    log:
        "<logs>/compare_policies.log",
    params:
        provenance=FIGURES.provenance,
    message:
        "Comparing policies and loaders."
    script:
        "../scripts/compare_policies.py"


rule score_policy_claims:
    input:
        claims=POLICY_CLAIMS,
        epochs="<experiment>/policies/policy_epochs.parquet",
        totals="<experiment>/policies/policy_totals.parquet",
        node_epochs=COMPARISONS.node_table("policy_epochs"),
        node_totals=COMPARISONS.node_table("policy_totals"),
        node_switches=COMPARISONS.node_table("node_switches"),
        accuracy=COMPARISONS.accuracy_tests(),
        observations=RUNS.observations(),
        library=OPENING.library("score_policy_claims"),
    output:
        claims="<experiment>/policies/policy_claims.parquet",
        markdown="<experiment>/policies/claims.md",
        lines="<experiment>/policies/claims.txt",
    log:
        "<logs>/score_policy_claims.log",
    params:
        scene=COMPARISONS.files_and_databases,
        loader=COMPARISONS.scene["loader"],
        provenance=FIGURES.provenance,
    message:
        "Comparing the results with the claims of other papers."
    script:
        "../scripts/score_policy_claims.py"


rule policies:
    input:
        figures=refusing(
            figure_files(*COMPARISONS.possible), COMPARISONS.refuse_impossible
        ),
        text=refusing(COMPARISONS.texts, COMPARISONS.refuse_impossible),
    log:
        "<logs>/policies.log",
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
