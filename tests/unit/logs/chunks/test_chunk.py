from pathlib import Path

import pytest
from tierscope.logs.chunks.chunk import USUAL_BYTES, batches
from tierscope.logs.grouping import LogGroup


def group(n_processes):
    return LogGroup("job", (Path("log"),), (0,), n_processes, "one log", "job")


@pytest.mark.parametrize(
    ("n_processes", "n_bytes", "sizes"),
    [
        ([1] * 4500, 1000, [2000, 2000, 500]),
        ([1] * 5, 7 << 20, [2, 2, 1]),
        ([4096] * 100, 1000, [48, 48, 4]),
        ([4096] * 5, 20 * USUAL_BYTES, [2, 2, 1]),  # of twenty epochs
        ([1, 65_536, 150_000, 1], 1000, [2, 2]),
        ([1 << 20, 1 << 20], 1000, [1, 1]),  # a job is joined whatever it needs
        ([], 1000, []),
    ],
)
def test_jobs_at_once_have_a_limit_of_number_bytes_and_processes(
    n_processes, n_bytes, sizes
):
    found = list(batches(list(map(group, n_processes)), lambda _: n_bytes))
    assert [len(some) for some in found] == sizes
    assert [one.n_processes for some in found for one in some] == n_processes
