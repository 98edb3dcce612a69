"""The LMDB loaders under MPI: four processes on two virtual nodes, real files."""

import json
import shutil

import pytest
import yaml
from integration.conftest import Project, busy_machine
from integration.test_virtual_time import assert_equals_simulation
from tierscope.core.tables import read_table
from tierscope.model.simulator.database_run import simulate_database

pytest.importorskip("lmdb")

LOADERS = ("posix", "lmdb", "lmdbio-lmm-dm", "lmdbio-lmm-dio-prov", "lmdbio")
N_FILES, SIZE, N_EPOCHS = 32, 4096, 2


def on_plain_directories(folder, loaders, cache_rates_percent):
    """Return a project whose tiers are directories as they are."""
    folder.mkdir(exist_ok=True)
    project = Project(folder)
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": list(loaders),
                "cache_rates_percent": list(cache_rates_percent),
            },
            "figures": {
                "scenario": {"dataset": "tiny", "n_osts": 0, "loader": loaders[0]}
            },
        },
    )
    path = folder / "resources" / "systems" / "tiny.yaml"
    system = yaml.safe_load(path.read_text())
    del system["emulation"]
    for tier in ("gfs", "lfs"):
        system[tier]["kind"] = "directory"
    path.write_text(yaml.safe_dump(system))
    return project


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return a project in which every kind of loader has read, with its audits."""
    project = on_plain_directories(tmp_path_factory.mktemp("lmdb"), LOADERS, (0, 50))
    project.snakemake("audits")
    return project


def run_of(project, loader, cache_rate_percent):
    name = f"tiny-0ost-pinning-{loader}"
    return project.path("runs", name, f"cache-{cache_rate_percent:03d}", "rep-0")


def sums_of(run, table="io_time"):
    """Return operations and bytes by epoch and class, over all processes."""
    sums = read_table(run / "io_time.parquet", table)
    return sums.groupby(["epoch", "io_class"])[["operations", "bytes"]].sum()


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("cache_rate_percent", [0, 50])
def test_every_run_passes_its_audit_and_leaves_nothing(
    read, loader, cache_rate_percent
):
    audit = json.loads(
        (run_of(read, loader, cache_rate_percent) / "audit.json").read_text()
    )
    assert audit["passed"]
    assert not (read.folder / "scratch" / "lfs").exists()


def test_run_that_lost_a_table_is_measured_again_and_outlasts_snakemakes_memory(read):
    run = run_of(read, "lmdb", 50)
    others = (
        run_of(read, "lmdb", 0) / "run.json",
        run_of(read, "posix", 50) / "run.json",
    )
    before = [path.stat().st_mtime_ns for path in others]
    (run / "faults.parquet").unlink()
    assert "point 1 of 1: cache rate 50 %" in read.snakemake("audits")
    assert (run / "faults.parquet").exists()
    assert [path.stat().st_mtime_ns for path in others] == before
    shutil.rmtree(read.folder / ".snakemake")
    assert "Nothing to be done" in read.snakemake("audits", "--dry-run")


@pytest.mark.parametrize("loader", LOADERS[1:])
@pytest.mark.parametrize("cache_rate_percent", [0, 50])
def test_records_are_the_samples_of_the_files(read, loader, cache_rate_percent):
    files = read_table(
        run_of(read, "posix", cache_rate_percent) / "epochs.parquet", "run_epochs"
    )
    run = run_of(read, loader, cache_rate_percent)
    records = read_table(run / "epochs.parquet", "run_epochs")
    read_bytes = records["bytes"].sum() + 16 * N_FILES * N_EPOCHS  # their frames
    assert read_bytes == files["bytes"].sum() == N_FILES * SIZE * N_EPOCHS
    assert records["lfs_files"].sum() == N_EPOCHS * N_FILES * cache_rate_percent // 100
    reads = read_table(run / "record_reads.parquet", "record_reads")
    for _, part in reads.groupby("epoch"):
        assert sorted(part["file_id"]) == list(range(N_FILES))


def test_file_is_opened_once_by_each_reader(read):
    opens = {
        loader: sums_of(run_of(read, loader, 0)).loc[(1, "gfs_meta"), "operations"]
        for loader in LOADERS
    }
    assert opens == {
        "posix": N_FILES,
        "lmdb": 4,  # processes
        "lmdbio-lmm-dm": 2,  # nodes
        "lmdbio-lmm-dio-prov": 2,
        "lmdbio": 2,
    }


def test_coalescing_halves_the_reads_and_leaves_the_bytes(read):
    one, two = (
        sums_of(run_of(read, loader, 0)).loc[(1, "gfs_read")]
        for loader in ("lmdbio-lmm-dio-prov", "lmdbio")
    )
    description = json.loads((run_of(read, "lmdbio", 0) / "run.json").read_text())
    assert description["lmdb"]["steps_per_fetch"] == 2
    assert (one["operations"], two["operations"]) == (4, 2)
    # Values of 4080 bytes, one a page: a read has their headers in between.
    assert one["bytes"] == 4 * (8 * SIZE - 16)
    assert two["bytes"] == 2 * (16 * SIZE - 16)


def test_page_faults_are_read_time_where_the_file_is_mapped(read):
    for loader in ("lmdb", "lmdbio-lmm-dm"):
        run = run_of(read, loader, 0)
        calls = read_table(run / "read_calls.parquet", "read_calls")
        mapped, called = calls[calls["mapped"]], calls[~calls["mapped"]]
        io_time = read_table(run / "io_time.parquet", "io_time")
        of_reads = io_time[io_time["io_class"] == "gfs_read"]
        assert of_reads["operations"].sum() == mapped["faults"].sum() + len(called)
        assert mapped["faults"].sum() > 0
        assert of_reads["time_s"].sum() > mapped["time_s"].sum() > 0
        faults = read_table(run / "faults.parquet", "faults")
        assert len(faults) == 4 * N_EPOCHS
    run = run_of(read, "lmdbio", 0)
    assert not read_table(run / "read_calls.parquet", "read_calls")["mapped"].any()


def test_only_readers_read_and_all_get_records(read):
    run = run_of(read, "lmdbio", 50)
    reads = read_table(run / "record_reads.parquet", "record_reads")
    assert set(reads["rank"]) == {0, 1, 2, 3}
    assert (reads["reader"] == reads["rank"] // 2 * 2).all()
    calls = read_table(run / "read_calls.parquet", "read_calls")
    assert set(calls["rank"]) == {0, 2}


# ---- emulated devices, in virtual time -----------------------------------------------


def in_virtual_time(folder, loaders, cache_rates_percent, n_files=N_FILES):
    """Return a project on emulated devices; steps take longer than some reads."""
    folder.mkdir()
    project = Project(folder)
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60],
                "loaders": list(loaders),
                "cache_rates_percent": list(cache_rates_percent),
            },
            "datasets": {"tiny": {"n_files": n_files}},
            "training": {"epochs": N_EPOCHS, "compute_time_s": 0.013},
            "figures": {"scenario": {"dataset": "tiny", "loader": loaders[0]}},
        },
    )
    return project


def runs_in_virtual_time(project):
    """Return the folders of all runs, by loader and cache rate."""
    return {
        (run.parts[-3].removeprefix("tiny-60ost-pinning-"), run.parts[-2]): run
        for run in project.path("runs").glob("tiny-60ost-pinning-*/cache-*/rep-*")
    }


@pytest.fixture(scope="module")
def emulated_runs(tmp_path_factory):
    """Return a project in which batches are on both tiers, and the last ones short."""
    folder = tmp_path_factory.mktemp("emulated") / "project"
    project = in_virtual_time(folder, LOADERS[1:], (0, 30, 100), n_files=66)
    project.snakemake("audits")
    return project


def test_emulated_times_equal_simulated_ones_to_the_nanosecond(emulated_runs):
    runs = runs_in_virtual_time(emulated_runs)
    assert len(runs) == 3 * len(LOADERS[1:])
    for run in runs.values():
        assert_equals_simulation(run, simulate_database)


def test_emulated_readers_open_and_read_as_often_as_they_should(emulated_runs):
    calls = {
        loader: [
            int(sums_of(run).loc[(1, f"gfs_{kind}"), "operations"])
            for kind in ("meta", "read")
        ]
        for (loader, cache), run in runs_in_virtual_time(emulated_runs).items()
        if cache == "cache-000"
    }
    # 66 records of a page each, a node reads 8 in a step, 4 steps are coalesced. LMDB
    # reads 2 pages of metadata as it opens the file. The tree has one page.
    assert calls == {
        "lmdb": [4, 66 + 4 * 2 + 2],  # the first process of each node pays for the tree
        "lmdbio-lmm-dm": [2, 66 + 2 * 2 + 1],  # one reader does
        "lmdbio-lmm-dio-prov": [2, 4 + 4 + 2],  # the last two records are apart
        "lmdbio": [2, 1 + 1 + 2],
    }


def test_emulated_page_faults_are_charged_and_those_of_this_machine_unknown(
    emulated_runs,
):
    for (loader, _), run in runs_in_virtual_time(emulated_runs).items():
        calls = read_table(run / "read_calls.parquet", "read_calls")
        assert calls["faults"].equals((calls["kind"] == "fault").astype(int))
        assert not calls.loc[calls["kind"] == "fault", "mapped"].any()
        n_faults = (calls["kind"] == "fault").sum()
        is_mapped = loader in ("lmdb", "lmdbio-lmm-dm")
        assert n_faults >= N_EPOCHS * 66 if is_mapped else n_faults == 0
        assert (calls.loc[calls["mapped"], "time_s"] == 0).all()
        assert (calls.loc[~calls["mapped"], "time_s"] > 0).all()
        assert read_table(run / "faults.parquet", "faults").empty
        io_time = read_table(run / "io_time.parquet", "io_time")
        reads = io_time[io_time["io_class"].str.endswith("read")]
        assert reads["operations"].sum() == (~calls["mapped"]).sum()


def test_tables_of_another_run_are_equal_byte_for_byte(emulated_runs, tmp_path):
    again = emulated_runs.copied_to(tmp_path / "again")
    with busy_machine():
        for loader in ("lmdbio-lmm-dm", "lmdbio"):
            scenario = f"tiny-60ost-pinning-{loader}"
            for run in again.path("runs", scenario).glob("cache-*"):
                shutil.rmtree(run)
            launch = again.launch(scenario, "cache-030/rep-0", "cache-100/rep-0")
            launch.finish()
            tables = launch.tables()
            assert len(tables) == 2 * 4
            for name, content in tables.items():
                first = emulated_runs.path("runs", scenario, name)
                assert first.read_bytes() == content, (loader, name)
