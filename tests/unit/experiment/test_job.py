"""What a benchmark job asks of a scheduler."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tierscope.core.description import LoaderSettings, Training
from tierscope.core.machine import Tier
from tierscope.core.scenario import Dataset, Point
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.tfrecord import FRAMING_BYTES
from tierscope.experiment.config import read_experiment
from tierscope.experiment.job import (
    BenchmarkJob,
    JobError,
    ProgramJob,
    ProgramNeeds,
    fill,
    generation_minutes,
    launcher,
    site_resources,
)
from tierscope.experiment.system import Estimates, JobSettings, System, read_system
from tierscope.policies import Pinning, file_owners

ROOT = Path(__file__).parents[3]
RESOURCES = ROOT / "resources"
GIB = 1 << 30
SMALL = Dataset("small", 589824, 131072, 12)  # the paper's, 72 GiB
SYSTEM = System(
    name="s",
    description="",
    n_nodes=768,
    processes_per_node=4,
    virtual_nodes=False,
    points_per_launch=1,
    gfs=Tier("gfs", "directory", "/g"),
    lfs=Tier("lfs", "directory", "/l"),
)


@pytest.fixture
def config():
    return read_yaml(ROOT / "config" / "config.yaml")


def job(
    *cache_rates_percent,
    dataset=SMALL,
    training=None,
    policy="pinning",
    lmdb=None,
    repetition=0,
    loader=None,
    **settings,
):
    """Return a job of the paper's small dataset."""
    return BenchmarkJob(
        dataset,
        replace(SYSTEM, job=JobSettings(**settings)),
        replace(Training(3, "global", 1, 0), **(training or {})),
        loader or LoaderSettings(1, 2, 0),
        [Point(rate, repetition) for rate in cache_rates_percent],
        policy,
        lmdb,
    )


def test_local_storage_holds_the_pinned_files_and_a_reserve():
    assert job(100, lfs_reserve_percent=0).lfs_bytes == 72 * GIB
    assert job(50, lfs_reserve_percent=0).lfs_bytes == 36 * GIB
    assert job(50, lfs_reserve_percent=10).lfs_mib == 40551  # 39.6 GiB, rounded up
    assert job(0).lfs_mib == 1


def test_files_take_whole_blocks_of_local_storage():
    tiny = Dataset("tiny", 1000, 5000, 1)
    assert job(100, dataset=tiny, lfs_reserve_percent=0).lfs_bytes == 1000 * 8192


FEW = Dataset("few", 20000, 131072, 12)


def test_adhoc_needs_the_local_storage_of_the_largest_owner():
    needed = job(50, dataset=FEW, policy="adhoc", lfs_reserve_percent=0)
    owners = file_owners(20000, 768)
    shares = np.bincount(owners[Pinning(20000, 50, 1).on_lfs()], minlength=768)
    assert needed.lfs_bytes == shares.max() * 131072
    another = job(50, dataset=FEW, policy="adhoc", repetition=1, lfs_reserve_percent=0)
    shares = np.bincount(owners[Pinning(20000, 50, 1, 1).on_lfs()], minlength=768)
    assert another.lfs_bytes == shares.max() * 131072 != needed.lfs_bytes
    assert 10000 / 768 < shares.max() < 50
    assert job(0, dataset=FEW, policy="adhoc").lfs_bytes == 0


@pytest.mark.parametrize("policy", ["lru", "monarch", "clairvoyant", ""])
def test_policies_that_copy_while_they_run_need_the_cache_rate(policy):
    assert job(50, dataset=FEW, policy=policy).lfs_bytes == (
        job(50, dataset=FEW).lfs_bytes
    )


@pytest.mark.parametrize("size", [1000, 131072])
def test_database_needs_the_pages_of_its_sparse_copy(size):
    dataset, lmdb = Dataset("few", 2000, size, 12), {"records_per_commit": 16}
    needed = job(50, dataset=dataset, lmdb=lmdb, lfs_reserve_percent=0).lfs_bytes
    written = Provenance(2000, size - FRAMING_BYTES, 16, 4096)
    if size == 1000:  # the records lie in the tree, which is copied whole
        assert needed >= 2000 * size
    else:  # a page header makes each record take one page more
        assert 1000 * 32 * 4096 < needed < 1000 * 33 * 4096 + 100 * 4096
    assert needed <= written.file_bytes
    assert job(0, dataset=dataset, lmdb=lmdb).lfs_bytes == 0


def test_experiment_tells_its_jobs_policy_and_database(config):
    experiment = read_experiment(config, RESOURCES)
    scenario = replace(next(iter(experiment.sweep)), policy="adhoc")
    asked = experiment.job(scenario, [Point(50, 0)])
    assert asked.policy == "adhoc"
    assert asked.lmdb is None
    scenario = replace(scenario, policy="pinning", loader="lmdb")
    assert experiment.job(scenario, [Point(50, 0)]).lmdb["records_per_commit"] == 16


def test_a_launch_of_several_points_needs_the_largest_local_storage():
    assert job(20, 80, 50).lfs_bytes == job(80).lfs_bytes


def test_more_local_storage_than_a_node_has_is_refused():
    job(100, lfs_gib_per_node=87).check()
    with pytest.raises(JobError, match=r"needs 79\.2 GiB .* at most 79 GiB"):
        job(100, lfs_gib_per_node=79).check()


def test_time_limit_grows_with_cache_rate_epochs_and_points():
    rates = Estimates(
        start_s=60,
        lfs_fill_bytes_per_s=72 * GIB / 60,
        lfs_fill_files_per_s=589824 / 60,
        read_bytes_per_s=72 * GIB / 60,
        read_files_per_s=589824 / 60,
    )
    # A minute to start, two for each epoch, two to fill all of the LFS.
    assert job(0, estimates=rates).minutes == 1 + 3 * 2
    assert job(50, estimates=rates).minutes == 1 + 1 + 3 * 2
    assert job(100, estimates=rates).minutes == 1 + 2 + 3 * 2
    assert job(0, 50, 100, estimates=rates).minutes == 1 + 3 + 3 * 3 * 2
    one_epoch = {"epochs": 1}
    assert job(0, estimates=rates, training=one_epoch).minutes == 1 + 2


def test_time_limit_holds_the_pauses_of_the_training():
    pause = {"compute_time_s": 60}  # after each of 16 steps, three times
    assert job(0, training=pause).minutes - job(0).minutes in (47, 48)


def test_memory_is_a_nodes_and_holds_batches_and_records():
    base = job(0).memory_mib
    assert 4 * 1024 <= base <= 4 * 1600
    large = Dataset("large", 6144, 12582912, 2)
    # (2 + 2) batches of 2 samples of 12 MiB and one file being read, 4 processes.
    assert job(0, dataset=large).memory_mib - base == pytest.approx(
        1.25 * 4 * (9 * 12 - 4 * 12 * 0.125), rel=0.05
    )


def test_workers_are_processes_that_hold_batches():
    alone = LoaderSettings(workers=0, prefetch_factor=2)
    large = Dataset("large", 6144, 1 << 20, 8)
    with_workers = job(0, dataset=large, loader=replace(alone, workers=3))
    more = with_workers.memory_mib - job(0, dataset=large, loader=alone).memory_mib
    # 3 workers of 512 MiB, their 6 batches of 8 MiB, 2 more files being read.
    assert more == pytest.approx(1.25 * 4 * (3 * 512 + 6 * 8 + 2), abs=1)
    assert (with_workers.threads, job(0, loader=alone).threads) == (3, 1)


def test_a_tmpfs_takes_the_jobs_memory():
    in_memory = job(100, lfs_in_memory=True)
    assert in_memory.memory_mib == job(100).memory_mib + in_memory.lfs_mib


def test_generation_gets_time_by_bytes_and_files():
    rates = Estimates(
        start_s=60, generate_bytes_per_s=72 * GIB / 600, generate_files_per_s=589824
    )
    assert generation_minutes(SMALL, rates) == 12


def test_launcher_and_resources_know_the_machine():
    settings = JobSettings(
        launcher="srun -N{nodes} --ntasks-per-node={processes_per_node} -o {log}",
        resources={"run_benchmark": {"tmp": "{lfs_mib}", "extra": "--x {processes}"}},
    )
    system = replace(SYSTEM, job=settings)
    assert launcher(system, "a/b") == "srun -N768 --ntasks-per-node=4 -o a/b"
    wanted = {"tmp": 5, "extra": "--x 3072"}
    assert site_resources(system, "run_benchmark", lfs_mib=5) == wanted
    assert site_resources(system, "generate_dataset") == {}


def test_text_that_is_a_number_with_zeros_before_it_stays_a_text():
    resources = {"a": "007", "b": "7", "c": "0", "d": "{nodes}"}
    settings = JobSettings(resources={"run_benchmark": resources})
    found = site_resources(replace(SYSTEM, job=settings), "run_benchmark")
    assert found == {"a": "007", "b": 7, "c": 0, "d": 768}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("srun\n--mpi=pmi2", "a line break"),
        ("srun # site", "a comment"),
        ("srun 'a", "no closing quotation"),
        ("srun \\", "no escaped character"),
        ("srun &&", "an operator at its end"),
        ("  ", "no word"),
    ],
)
def test_launcher_that_would_lose_its_arguments_is_refused(text, fault):
    system = replace(SYSTEM, job=JobSettings(launcher=text))
    with pytest.raises(
        JobError, match=f"launcher: got .* with {fault}.*, expected one"
    ):
        launcher(system, "log")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"virtual_nodes": True}, "env -u HYDRA_HOST_FILE HYDRA_RMK=user HYDRA_LA"),
        ({"n_nodes": 1}, "env -u HYDRA_HOST_FILE HYDRA_RMK=user HYDRA_LAUNCHER=fork"),
        ({}, "mpiexec"),
        ({"virtual_nodes": True, "job": JobSettings("slurm")}, "mpiexec"),
        ({"n_nodes": 1, "job": JobSettings(launcher="mpirun")}, "mpirun"),
    ],
)
def test_default_launcher_takes_no_nodes_of_an_allocation(change, words):
    given = {"job": JobSettings(), "virtual_nodes": False} | change
    assert launcher(replace(SYSTEM, **given), "log").startswith(words)


def test_line_break_at_the_end_of_a_launcher_is_left_out():
    system = replace(SYSTEM, job=JobSettings(launcher="srun --mpi=pmi2\n"))
    assert launcher(system, "log") == "srun --mpi=pmi2"


def test_job_of_more_than_a_year_is_refused():
    estimates = Estimates(read_bytes_per_s=0.001)
    job(0, estimates=estimates).check()  # this machine has no limit
    with pytest.raises(JobError, match=r"needs \d+ minutes, expected at most 527040"):
        job(0, estimates=estimates, scheduler="pjm").check()


@pytest.mark.parametrize("text", ["{nods}", "{", "{0}", "{nodes.x}", "a } b"])
def test_stray_braces_are_refused(text):
    with pytest.raises(JobError, match=r"expected no braces except \{nodes\}"):
        fill(text, nodes=2)


def test_paper_fits_fugaku():
    fugaku = read_system("fugaku", RESOURCES / "systems")
    whole = replace(job(100), system=fugaku)
    whole.check()
    resources = whole.resources()
    assert resources["pjm_node"] == "8x6x16:torus:strict-io"
    assert resources["pjm_localtmp_mib"] == pytest.approx(72 * 1024 * 1.1, abs=1)


def test_too_much_local_storage_stops_before_anything_is_submitted(config, tmp_path):
    folder = tmp_path / "systems"
    folder.mkdir()
    for path in (RESOURCES / "systems").glob("*.yaml"):
        text = path.read_text().replace("lfs_gib_per_node: 87", "lfs_gib_per_node: 40")
        (folder / path.name).write_text(text)
    (tmp_path / "datasets.yaml").write_text((RESOURCES / "datasets.yaml").read_text())
    config["system"] = "fugaku"
    for name, value in read_yaml(ROOT / "config" / "paper.yaml")["datasets"].items():
        config["datasets"][name] = value
    with pytest.raises(ConfigError, match=r"got 100, but small-60ost.*needs 79.2 GiB"):
        read_experiment(config, tmp_path)


def test_job_settings_change_no_run(config):
    experiment = read_experiment(config, RESOURCES)
    scenario = next(iter(experiment.sweep))
    assert "job" not in experiment.description(scenario).as_json()["system"]
    assert experiment.job(scenario, [Point(50, 0)]).minutes > 0


def program_job(*rates, dataset_bytes=8 * GIB, minutes=30):
    """Return the job of a program at cache rates."""
    return ProgramJob(
        SMALL,
        replace(SYSTEM, job=replace(SYSTEM.job, lfs_in_memory=False)),
        Training(0, "", 1, 0),
        LoaderSettings(1, 0, 0),
        tuple(Point(rate, 0) for rate in rates),
        program=ProgramNeeds(minutes, memory_gib_per_process=2),
        dataset_bytes=dataset_bytes,
    )


def test_job_of_a_program_asks_for_what_its_user_says():
    assert program_job(0).memory_mib == 4 * 2 * 1024
    slowest = SYSTEM.job.estimates
    start_s = slowest.start_s + 2 * 8 * GIB / slowest.lfs_fill_bytes_per_s
    assert program_job(0, 50).minutes == math.ceil(start_s / 60) + 2 * 30


def test_lfs_of_a_program_is_a_part_of_the_listed_bytes():
    reserve = 1 + SYSTEM.job.lfs_reserve_percent / 100
    assert program_job(0, 25, 50).lfs_bytes == math.ceil(4 * GIB * reserve)
    assert program_job(50, dataset_bytes=None).lfs_bytes == 0
    assert program_job(50, dataset_bytes=None).minutes < 60
