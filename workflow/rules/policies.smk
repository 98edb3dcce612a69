"""Rules that compare policies and loaders: the time saved, and when saving begins.

If an experiment has several policies for the figures' dataset, OST count and loader, or
LMDB loaders, the figures are part of its report.
"""

COMPARISON = f"{RESULTS}/policies"
# Other papers' claims are about loaders of ours, which read each sample once an epoch.
SCORES_CLAIMS = bool(COMPARED) and not EXPERIMENT.runs_program


rule compare_policies:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        epochs=f"{TABLES}/epochs.parquet",
        background=background_table(),
        stage_in=peer_tables()[:1],
        runs=when_launched(run_files("run.json")) if EXPERIMENT.runs_program else [],
        observations=observations(),
        library=library("compare_policies"),
    output:
        epochs=f"{COMPARISON}/policy_epochs.parquet",
        totals=table(f"{COMPARISON}/policy_totals.parquet", "Time of each policy"),
        summary=table(
            f"{COMPARISON}/policy_summary.parquet", "Time saved by each policy"
        ),
        text=f"{COMPARISON}/summary.txt",
    log:
        f"{LOGS}/compare_policies.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE,
    message:
        "Comparing policies and loaders."
    script:
        "../scripts/compare_policies.py"


rule score_policy_claims:
    input:
        claims=POLICY_CLAIMS,
        epochs=f"{COMPARISON}/policy_epochs.parquet",
        totals=f"{COMPARISON}/policy_totals.parquet",
        node_epochs=node_table("policy_epochs"),
        node_totals=node_table("policy_totals"),
        node_switches=node_table("node_switches"),
        accuracy=accuracy_tests(),
        observations=observations(),
        library=library("score_policy_claims"),
    output:
        claims=f"{COMPARISON}/policy_claims.parquet",
        markdown=f"{COMPARISON}/claims.md",
        lines=f"{COMPARISON}/claims.txt",
    log:
        f"{LOGS}/score_policy_claims.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        scene=FILES_AND_DATABASES,
        loader=SCENE["loader"],
        provenance=PROVENANCE,
    message:
        "Comparing the results with the claims of other papers."
    script:
        "../scripts/score_policy_claims.py"


COMPARISON_TEXTS = [f"{COMPARISON}/summary.txt"]
COMPARISON_TEXTS += [f"{COMPARISON}/claims.txt"] * SCORES_CLAIMS


rule policies:
    input:
        figures=if_compared(figure_files(*COMPARED), COMPARED, LACKING),
        text=if_compared(COMPARISON_TEXTS, COMPARED, LACKING),
    log:
        f"{LOGS}/policies.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
