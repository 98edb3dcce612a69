"""How large an experiment on two directories becomes."""

from dataclasses import replace
from pathlib import Path

import pytest
from snakemake.utils import update_config
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.two_directories import (
    BATCH_SIZE,
    BUDGET_S,
    FILE_BYTES,
    LEAST_STEPS,
    REPETITIONS,
    Directory,
    Size,
    choose_size,
    sized_config,
)
from tierscope.storage.room import FileSystem

ROOT = Path(__file__).parents[3]
GIB = 1 << 30
STEP = 4 * BATCH_SIZE
LEAST = LEAST_STEPS * STEP
GFS = Directory("GFS", "/g", FileSystem("nfs4", "s:/x", 900 * GIB, 10**9), 500, 2000)
LFS = Directory("LFS", "/l", FileSystem("ext4", "/dev/a", 90 * GIB, 10**9), 2000, 9000)


def with_room(directory, **changes):
    return replace(directory, system=replace(directory.system, **changes))


def at_rates(directory, rate):
    return replace(directory, write_files_per_s=rate, read_files_per_s=rate)


def size(gfs=GFS, lfs=LFS, memory=8 * GIB):
    return choose_size(gfs, lfs, 4, memory)


def test_time_limits_the_dataset_where_there_is_room():
    chosen = size()
    assert chosen.limit == "the time"
    assert BUDGET_S - 2 < chosen.measuring_s <= BUDGET_S
    assert chosen.n_files % STEP == 0


def test_slower_directories_get_fewer_files():
    sizes = [size(at_rates(GFS, rate)).n_files for rate in (200, 400, 800)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_slowest_directories_get_the_smallest_dataset_and_the_time_that_it_takes():
    chosen = size(at_rates(GFS, 1), at_rates(LFS, 1))
    assert chosen.n_files == LEAST
    assert chosen.limit.startswith("the time; it is the smallest")
    # Written once to the GFS; each of five repetitions fills the LFS once, and reads
    # all files twice at each of five rates.
    assert chosen.measuring_s == pytest.approx(
        LEAST * (1 + REPETITIONS * (1 + 5 * 2)), rel=0.02
    )


@pytest.mark.parametrize(
    ("gfs", "lfs", "n_fitting", "limit"),
    [
        ({"free_bytes": GIB}, {}, GIB // 2 // FILE_BYTES, "the room on the GFS"),
        ({}, {"free_bytes": GIB}, GIB // 2 // FILE_BYTES, "the room on the LFS"),
        ({}, {"free_files": 2000}, 1000, "the room on the LFS"),
        (
            {"device": "/dev/a", "free_bytes": GIB},
            {"free_bytes": GIB},
            GIB // 4 // FILE_BYTES,
            "the room on the GFS",
        ),
        # In memory: a quarter of the memory.
        (
            {},
            {"kind": "tmpfs", "device": "memory"},
            GIB // 2 // FILE_BYTES,
            "the room on the LFS",
        ),
    ],
)
def test_room_limits_the_dataset(gfs, lfs, n_fitting, limit):
    fast = [at_rates(one, 1e6) for one in (GFS, LFS)]
    chosen = size(with_room(fast[0], **gfs), with_room(fast[1], **lfs), 2 * GIB)
    assert chosen.limit == limit
    assert n_fitting - STEP < chosen.n_files <= n_fitting


def test_five_times_the_memory_is_enough():
    chosen = size(at_rates(GFS, 1e6), at_rates(LFS, 1e6), memory=GIB // 4)
    assert chosen.limit == "5 times the memory"
    n_bytes = chosen.n_files * FILE_BYTES
    assert 0 <= n_bytes - 5 * GIB // 4 < STEP * FILE_BYTES


@pytest.mark.parametrize(
    ("gfs", "lfs", "words"),
    [
        (
            {"free_bytes": 95 << 20},
            {},
            r"^GFS: got /g with 95 MiB and \d+ files free, expected at least 96 MiB ",
        ),
        (
            {},
            {"free_files": 2 * LEAST - 1},
            r"^LFS: got /l with 90 GiB and 767 files f",
        ),
        (
            {"device": "/dev/a", "free_bytes": 150 << 20},
            {"free_bytes": 150 << 20},
            r"^GFS: .* at least 192 MiB and 1536 files, twice .* of both directories$",
        ),
    ],
)
def test_directory_without_room_for_the_smallest_dataset_is_refused(gfs, lfs, words):
    with pytest.raises(ConfigError, match=words):
        size(with_room(GFS, **gfs), with_room(LFS, **lfs))


def test_room_for_the_smallest_dataset_is_enough():
    room = {"free_bytes": 2 * LEAST * FILE_BYTES}
    assert size(with_room(GFS, **room), with_room(LFS, **room)).n_files == LEAST


def test_configuration_is_an_experiment_of_its_own():
    config = read_yaml(ROOT / "config" / "config.yaml")
    roots = {"gfs": "/g/tierscope", "lfs": "/l/tierscope"}
    update_config(config, sized_config("mine", roots, Size(480, "the time", 1)))
    found = read_experiment(config, ROOT / "resources")
    assert found.name == "mine"
    assert found.source == "measured"
    assert found.methods == ("rule",)
    assert (found.system.gfs.root, found.system.lfs.root) == tuple(roots.values())
    assert {one.n_files for one in found.datasets.values()} == {480}
    (points,) = found.sweep.values()
    assert len(points) == 5 * REPETITIONS
    assert found.training.epochs > found.settings["figures"]["epoch"]
