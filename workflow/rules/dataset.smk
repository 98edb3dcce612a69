"""Rules that generate the datasets on the global file system, or list those of users."""


rule generate_dataset:
    output:
        manifest="<experiment>/datasets/{dataset}-{n_osts}ost.parquet",
    log:
        "<logs>/generate_dataset/{dataset}-{n_osts}ost.log",
    priority: JOBS.before_audits
    threads: 4
    resources:
        **JOBS.generation_resources(),
        terminal="progress",
    params:
        dataset=lambda wildcards: asdict(EXPERIMENT.datasets[wildcards.dataset]),
        tier=asdict(SYSTEM.gfs),
        n_osts=lambda wildcards: int(wildcards.n_osts),
        n_object_servers=RUNS.n_object_servers,
    message:
        "Generating dataset {wildcards.dataset} on the GFS, n_osts {wildcards.n_osts}."
    script:
        "../scripts/generate_dataset.py"


rule list_dataset:
    input:
        JOBS.what_to_list,
    output:
        manifest="<experiment>/datasets/{dataset}-{n_osts}ost-files.parquet",
    log:
        "<logs>/list_dataset/{dataset}-{n_osts}ost.log",
    resources:
        **JOBS.ideal_memory(),
        terminal="progress",
    params:
        path=JOBS.listed_folder,
        rates=sorted({point.cache_rate_percent for point in RUNS.points}),
        seed=SETTINGS["training"]["seed"],
        repetitions=1 + max(point.repetition for point in RUNS.points),
    message:
        "Listing the files of dataset {wildcards.dataset}."
    script:
        "../scripts/list_dataset.py"


rule generate_database:
    output:
        manifest="<experiment>/datasets/{dataset}-{n_osts}ost-lmdb.parquet",
    log:
        "<logs>/generate_database/{dataset}-{n_osts}ost.log",
    priority: JOBS.before_audits
    resources:
        **JOBS.generation_resources(),
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
