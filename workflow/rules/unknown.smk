"""A target that is no rule's name: Snakemake takes it for a file, and this refuses it."""


rule refuse_unknown_target:
    input:
        refuse_target,
    output:
        "{target}",
    log:
        f"{LOGS}/refuse_unknown_target/{{target}}.log",
    wildcard_constraints:
        target="[A-Za-z0-9_-]+",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "false 2> {log:q}"
