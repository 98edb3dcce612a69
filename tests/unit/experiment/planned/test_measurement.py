"""What the start says of a measurement before it begins."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.core.scenario import Dataset, UserDataset
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.planned import measurement
from tierscope.experiment.planned.measurement import (
    Room,
    check_ideal_memory,
    check_places,
    plan_lines,
    read_room,
)
from tierscope.experiment.system import JobSettings
from tierscope.storage.own_folder import FolderError
from tierscope.storage.room import FileSystem, memory_bytes

ROOT = Path(__file__).parents[4]
MIB, GIB = 1 << 20, 1 << 30
DISK = FileSystem("ext4", "/dev/sda", 100 * GIB, 10**6)
SERVER = FileSystem("nfs4", "server:/home", 100 * GIB, 10**6)
MEMORY = FileSystem("tmpfs", "memory", 8 * GIB, 10**6)


def experiment(n_files=400, batch_size=10, rates=(0, 50), system="laptop", **system_to):
    """Return an experiment of files of 1 MiB on four processes."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    n_osts = 1 if system == "scale-model" else 0
    one = {"n_files": n_files, "file_size_bytes": MIB, "batch_size": batch_size}
    config["system"] = system
    config["datasets"] = {"small": one}
    config["sweep"] |= {"datasets": ["small"], "n_osts": [n_osts]}
    config["sweep"] |= {"cache_rates_percent": list(rates), "repetitions": 1}
    config["figures"]["scenario"]["n_osts"] = n_osts
    found = read_experiment(config, ROOT / "resources")
    return replace(found, system=replace(found.system, **system_to))


def lines(planned, memory=4 * GIB, lfs=8 * GIB, gfs_at=SERVER, lfs_at=DISK, cold=False):
    return plan_lines(planned, Room(memory, lfs, gfs_at, lfs_at), cold=cold)


def test_there_is_a_line_for_each_rule():
    memory, steps, lfs = lines(experiment())
    assert memory == (
        "Dataset small, 400 MiB: fits into the memory of the node (4 GiB); MLPerf "
        "Storage expects at least 5 times the memory. Without cold reads "
        "(training.cold), all reads can come from the page cache."
    )
    assert steps == (
        "Dataset small: 10 steps an epoch for each process; MLPerf Storage expects at "
        "least 500. The start of an epoch and single late calls weigh more than in a "
        "long epoch."
    )
    assert lfs == "LFS: needs 220 MiB at cache rate 50 %, has 8 GiB."


@pytest.mark.parametrize(
    ("memory_mib", "words"),
    [
        (400, "fits into the memory"),
        (399, "has 1.0 times the memory of the node (399 MiB)"),
        (81, "has 4.9 times the memory of the node (81 MiB)"),
    ],
)
def test_dataset_below_five_times_the_memory_is_named(memory_mib, words):
    line = lines(experiment(), memory_mib * MIB)[0]
    assert words in line
    assert ". Without cold reads (training.cold), " in line
    assert ("a part of the reads" in line) == (memory_mib < 400)


def test_five_times_the_memory_and_500_steps_are_enough():
    memory, steps, _ = lines(experiment(n_files=2000, batch_size=1), 400 * MIB)
    assert memory == (
        "Dataset small, 1.953 GiB: has 5.0 times the memory of the node (400 MiB); "
        "MLPerf Storage expects at least 5 times the memory."
    )
    assert steps.endswith(
        ": 500 steps an epoch for each process; MLPerf Storage expects at least 500."
    )


def test_global_shuffle_over_nodes_reads_few_files_twice_on_a_node():
    nodes = {"n_nodes": 4, "processes_per_node": 1, "virtual_nodes": False}
    planned = experiment(**nodes)
    assert lines(planned)[0].endswith(
        "into the memory of 4 nodes (4 GiB); MLPerf Storage expects at least 5 times "
        "the memory. Without cold reads (training.cold), about 1 of 4 reads from the "
        "GFS in the second epoch, and all reads from the LFS, can come from the page "
        "cache."
    )
    assert "a part of the reads from the LFS" in lines(planned, 800 * MIB)[0]
    local = {**planned.settings["training"], "shuffle": "local"}
    settings = {**planned.settings, "training": local}
    line = lines(replace(planned, settings=settings))[0]
    assert line.endswith(
        "all reads after the first epoch can come from the page cache."
    )


def test_cold_reads_are_said():
    line = lines(experiment(), cold=True)[0]
    assert line.endswith(
        "times the memory. Epochs are read cold (training.cold); otherwise all reads "
        "can come from the page cache."
    )


def test_virtual_nodes_share_memory_and_room():
    planned = experiment(n_nodes=4, processes_per_node=1, virtual_nodes=True)
    memory, _, lfs = lines(planned)
    assert "the memory of the node (4 GiB)" in memory
    assert lfs == "LFS: needs 880 MiB at cache rate 50 %, has 8 GiB."


def test_unknown_is_said():
    memory, _, lfs = lines(experiment(), None, None, None, None)
    assert "the memory of the nodes is unknown (job.memory_gib_per_node" in memory
    assert "Its room is unknown (job.lfs_gib_per_node of system laptop)" in lfs


def test_lfs_without_enough_room_is_named():
    line = lines(experiment(), lfs=200 * MIB)[2]
    assert line.startswith("LFS: needs 220 MiB at cache rate 50 %, has 200 MiB. Launch")


def test_devices_that_tell_nothing_are_named():
    planned = experiment()
    assert lines(planned, gfs_at=DISK)[3:] == [
        "GFS and LFS: both are on the same device, /dev/sda. The figures compare two "
        "directories, not two devices."
    ]
    in_memory = "is in memory (tmpfs). Its times are those of memory, not of a device."
    assert lines(planned, lfs_at=MEMORY)[3:] == [f"LFS: {in_memory}"]
    both = lines(planned, gfs_at=MEMORY, lfs_at=MEMORY)[3:]
    assert both == [f"GFS: {in_memory}", f"LFS: {in_memory}"]


def test_only_real_storage_has_rules():
    assert lines(experiment(n_files=8, system="scale-model")) == []


def test_room_is_that_of_this_machine_or_of_the_file(tmp_path):
    planned = experiment()
    system = replace(
        planned.system,
        gfs=replace(planned.system.gfs, root=str(tmp_path / "gfs")),
        lfs=replace(planned.system.lfs, root=str(tmp_path / "lfs")),
    )
    here = read_room(system)
    assert here.memory_bytes == memory_bytes()
    assert here.gfs.device == here.lfs.device
    assert here.lfs_bytes == here.lfs.free_bytes > 0
    job = JobSettings(scheduler="slurm", memory_gib_per_node=2, lfs_gib_per_node=1)
    nodes = {"n_nodes": 3, "virtual_nodes": False}
    assert read_room(replace(system, job=job, **nodes)) == Room(6 * GIB, GIB)
    job = JobSettings(scheduler="slurm")
    assert read_room(replace(system, job=job)) == Room(None, None)


@pytest.mark.parametrize("name", ["gfs", "lfs"])
def test_root_that_all_users_may_change_is_refused(tmp_path, name):
    system = experiment().system
    tiers = {
        tier: replace(of, root=f"{tmp_path}/{tier}/root")
        for tier, of in system.tiers.items()
    }
    system = replace(system, **tiers)
    check_places(system)
    (tmp_path / name).mkdir()
    (tmp_path / name).chmod(0o777)
    with pytest.raises(FolderError, match=f"chmod o-w {tmp_path / name}$"):
        check_places(system)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_data_of_another_user_in_a_gfs_of_all_users_are_refused(tmp_path):
    system = experiment().system
    tmp_path.chmod(0o1777)
    system = replace(system, gfs=replace(system.gfs, root=str(tmp_path)))
    data = system.gfs.data_root()
    data.mkdir()
    os.chown(data, 4321, 4321)
    with pytest.raises(FolderError, match=f"{data}: belongs to user 4321, who can"):
        check_places(system)


@pytest.mark.parametrize("job", [{"scheduler": "slurm"}, {"setup": ("mount it",)}])
def test_lfs_that_this_machine_does_not_have_yet_is_not_looked_for(tmp_path, job):
    system = experiment().system
    gfs = replace(system.gfs, root=str(tmp_path))
    lfs = replace(system.lfs, root="$SET_ON_THE_NODES_ONLY/lfs")
    check_places(replace(system, gfs=gfs, lfs=lfs, job=JobSettings(**job)))


@pytest.mark.parametrize(
    ("n_nodes", "left", "listed", "expected"),
    [(1, False, 0, 800), (3, False, 0, 2400), (3, True, 0, 0), (3, False, 70, 210)],
)
def test_memory_of_ideal_runs_must_hold_the_dataset_of_each_virtual_node(
    monkeypatch, tmp_path, n_nodes, left, listed, expected
):
    asked = []
    monkeypatch.setattr(measurement, "check_memory", lambda *words: asked.append(words))
    if left:  # by a killed launch; the next one removes it and looks again
        (tmp_path / "data").mkdir()
    system = replace(
        experiment().system,
        n_nodes=n_nodes,
        virtual_nodes=True,
        ideal_root=str(tmp_path),
    )
    dataset = Dataset("tiny", 8, 100, 2)
    check_ideal_memory(
        system, UserDataset("mine", "/mine") if listed else dataset, listed
    )
    assert asked == [(tmp_path, expected)]
    there = replace(system, job=JobSettings(scheduler="slurm"))
    check_ideal_memory(there, dataset)
    assert len(asked) == 1
