"""What a loop waits for besides its dataset, in words."""

import pandas as pd
import pytest
from tierscope.analysis.training.other_io import (
    MOUNT_NAMES,
    other_words,
    slowest_rows,
)

COLUMNS = ["rank", "epoch", "mount", "fs_type", "holds", "call", "in_loop", "time_s"]


def table(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def on(mount, call, time_s, fs_type="ext4", holds="none", rank=0, in_loop=True):
    return rank, 0, mount, fs_type, holds, call, in_loop, time_s


def test_the_slowest_process_is_the_rank_with_most_time_of_that_kind():
    rows = table(
        on("/", "write", 1.0),
        on("/", "fsync", 1.0),
        on("/", "write", 1.5, rank=1),
        on("/", "read", 9.0, rank=1, in_loop=False),
    )
    assert slowest_rows(rows, in_loop=True)["rank"].tolist() == [0, 0]
    assert slowest_rows(rows, in_loop=False)["time_s"].tolist() == [9]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([on("/a", "fsync", 2.0)], "fsync 2.00 s on /a (ext4)"),
        (
            [on("/a", "fsync", 2.0), on("/a", "other", 0.5), on("/a", "write", 1.0)],
            "write 1.00 s, fsync 2.00 s and metadata 0.500 s on /a (ext4)",
        ),
        (
            [on("/a", "read", 1.0, holds="gfs"), on("/b", "write", 3.0, "nfs4")],
            "write 3.00 s on /b (nfs4); read 1.00 s on /a (ext4; holds the GFS)",
        ),
        ([on("/a", "read", 1.0), on("/b", "write", 0.009)], "read 1.00 s on /a (ext4)"),
        ([], ""),
    ],
)
def test_words_name_calls_and_file_systems_that_take_time(rows, words):
    assert other_words(table(*rows)) == words


def test_times_are_means_over_the_repetitions():
    rows = table(on("/a", "fsync", 2.0), on("/a", "fsync", 3.0))
    assert other_words(rows, 2) == "fsync 2.50 s on /a (ext4)"


def test_names_of_mounts_can_be_left_out():
    rows = table(on("/home/me x", "read", 2.0, holds="lfs"), on("/a", "fsync", 1.0))
    assert MOUNT_NAMES.sub("", other_words(rows)) == (
        "read 2.00 s (ext4; holds the LFS); fsync 1.00 s (ext4)"
    )
