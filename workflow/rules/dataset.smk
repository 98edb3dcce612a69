"""Rules that generate the datasets on the global file system, or list those of users."""


rule generate_dataset:
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost.parquet",
    log:
        f"{LOGS}/generate_dataset/{{dataset}}-{{n_osts}}ost.log",
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
    input:
        what_to_list,
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost-files.parquet",
    log:
        f"{LOGS}/list_dataset/{{dataset}}-{{n_osts}}ost.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        **ideal_memory(),
        terminal="progress",
    params:
        path=listed_folder,
        rates=sorted({point.cache_rate_percent for point in POINTS}),
        seed=SETTINGS["training"]["seed"],
        repetitions=1 + max(point.repetition for point in POINTS),
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
