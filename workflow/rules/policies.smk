"""Rules that compare policies and loaders: the time saved, and when saving begins.

If an experiment has several policies for the figures' dataset, OST count and loader, or
LMDB loaders, the figures are part of its report.
"""

COMPARISON = f"{RESULTS}/policies"
SCENE = {
    key: SETTINGS["figures"]["scenario"][key] for key in ("dataset", "n_osts", "loader")
}
FILES_AND_DATABASES = {key: SCENE[key] for key in ("dataset", "n_osts")}
if EXPERIMENT.runs_program:
    CAPTIONS["policies"] = "policies_of_program"
LACKING = without_reference(EXPERIMENT.sweep)
CAN_COMPARE = {
    "policies": has_policies(EXPERIMENT.sweep, SCENE),
    "loaders": has_databases(FILES_AND_DATABASES),
    "nodes": bool(EXPERIMENT.sweeps["nodes"]),
}
COMPARED = [name for name in CAN_COMPARE if CAN_COMPARE[name] and not LACKING]
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


rule plot_policies:
    input:
        epochs=f"{COMPARISON}/policy_epochs.parquet",
        totals=f"{COMPARISON}/policy_totals.parquet",
        summary=f"{COMPARISON}/policy_summary.parquet",
        observations=observations(),
        library=library("plot_policies"),
    output:
        **figure("policies", FIGURES),
    log:
        f"{LOGS}/plot_policies.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        scene=SCENE,
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing the comparison of policies."
    script:
        "../scripts/plot_policies.py"


rule plot_loaders:
    input:
        epochs=f"{COMPARISON}/policy_epochs.parquet",
        observations=observations(),
        library=library("plot_loaders"),
    output:
        **figure("loaders", FIGURES),
    log:
        f"{LOGS}/plot_loaders.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        scene=FILES_AND_DATABASES,
        policy=SETTINGS["figures"]["scenario"]["policy"],
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing the comparison of files and LMDB."
    script:
        "../scripts/plot_loaders.py"


rule score_policy_claims:
    input:
        claims=from_here(WORKFLOW.parent / "resources/paper/policy_claims.yaml"),
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
COMPARISON_FIGURES = expand(
    f"{RESULTS}/figures/{{name}}.{{kind}}", name=COMPARED, kind=("svg", "png", "pdf")
)


rule policies:
    input:
        figures=if_compared(COMPARISON_FIGURES, COMPARED, LACKING),
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
