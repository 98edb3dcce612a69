"""Rules that generate the datasets on the global file system, or list the user's own."""

# Patterns of the names of datasets; the second one is of those that lie at a path of the
# user. A pattern without names matches nothing.
USERS = {name for name, one in EXPERIMENT.datasets.items() if getattr(one, "path", "")}
GENERATED_NAMES, USERS_NAMES = (
    "|".join(sorted(names)) or "(?!)"
    for names in (EXPERIMENT.datasets.keys() - USERS, USERS)
)


rule generate_dataset:
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost.parquet",
    log:
        f"{LOGS}/generate_dataset/{{dataset}}-{{n_osts}}ost.log",
    wildcard_constraints:
        dataset=GENERATED_NAMES,
    priority: BEFORE_AUDITS
    conda:
        "../../environment.yml"
    threads: 4
    resources:
        **generation_resources(),
        terminal="progress",
    params:
        dataset=lambda wildcards: asdict(EXPERIMENT.datasets[wildcards.dataset]),
        tier=asdict(SYSTEM.gfs),
        n_osts=lambda wildcards: int(wildcards.n_osts),
        n_object_servers=n_object_servers,
    message:
        "Generating dataset {wildcards.dataset} on the GFS, n_osts {wildcards.n_osts}."
    script:
        "../scripts/generate_dataset.py"


rule list_dataset:
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost.parquet",
    log:
        f"{LOGS}/list_dataset/{{dataset}}-{{n_osts}}ost.log",
    wildcard_constraints:
        dataset=USERS_NAMES,
    priority: BEFORE_AUDITS
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        gfs=1,
        terminal="progress",
    params:
        path=lambda wildcards: EXPERIMENT.datasets[wildcards.dataset].path,
    message:
        "Listing the files of dataset {wildcards.dataset}."
    script:
        "../scripts/list_dataset.py"


rule generate_database:
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost-lmdb.parquet",
    log:
        f"{LOGS}/generate_database/{{dataset}}-{{n_osts}}ost.log",
    priority: BEFORE_AUDITS
    conda:
        "../../environment.yml"
    resources:
        **generation_resources(),
        terminal="progress",
    params:
        dataset=lambda wildcards: asdict(EXPERIMENT.datasets[wildcards.dataset]),
        tier=asdict(SYSTEM.gfs),
        n_osts=lambda wildcards: int(wildcards.n_osts),
        records_per_commit=SETTINGS["lmdb"]["records_per_commit"],
    message:
        "Writing dataset {wildcards.dataset} as LMDB on the GFS, n_osts {wildcards.n_osts}."
    script:
        "../scripts/generate_database.py"
