"""Refuse a target that is not a rule's name, which Snakemake treats as a file."""


rule refuse_unknown_target:
    input:
        refuse_target,
    output:
        "{target}",
    log:
        "<logs>/refuse_unknown_target/{target}.log",
    wildcard_constraints:
        target="[A-Za-z0-9_-]+",
    shell:
        "false 2> {log:q}"
