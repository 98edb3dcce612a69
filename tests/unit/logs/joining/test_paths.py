from types import SimpleNamespace

import pytest
from tierscope.logs.joining.paths import file_columns, size_columns
from tierscope.logs.summary import SIZES

COUNTS = ("opens", "reads", "writes", "bytes_read", "bytes_written")


def log_of(**times_s):
    """Return a log with the time of each path of tier gfs, the largest first."""
    paths = sorted(times_s, key=lambda path: -times_s[path])
    table = {"path": paths, "tier": ["gfs"] * len(paths)}
    table["time_s"] = [times_s[path] for path in paths]
    table |= {name: [1] * len(paths) for name in COUNTS}
    none = {name: [] for name in table}
    sizes = [("gfs", "read", [len(paths)] * len(SIZES))]
    return SimpleNamespace(files=table, folders=none, sizes=sizes)


def rows_of(*jobs, most_files=2):
    """Return (job, position, path, seconds, opens) of each row."""
    columns = file_columns(jobs, most_files)
    assert set(columns["kind"].series()) <= {"file"}
    names = ("job", "position", "path", "time_s", "opens")
    return list(zip(*(list(columns[name]) for name in names), strict=True))


def test_the_paths_with_the_most_time_of_each_job_come_first():
    jobs = [log_of(a=1, b=3, c=2)], [], [log_of(d=5)]
    assert rows_of(*jobs) == [(0, 0, "b", 3, 1), (0, 1, "c", 2, 1), (2, 0, "d", 5, 1)]


def test_paths_of_several_logs_are_added():
    job = [log_of(a=1, b=3), log_of(a=2.5)]
    assert rows_of(job) == [(0, 0, "a", 3.5, 2), (0, 1, "b", 3, 1)]


@pytest.mark.parametrize("logs", [[log_of(c=1, b=1, a=1)], [log_of(c=1), log_of(b=1)]])
def test_of_equal_paths_the_first_by_name_is_kept(logs):
    (row,) = rows_of(logs, most_files=1)
    assert row[2] == ("a" if len(logs) == 1 else "b")


def test_sizes_are_added_by_job():
    columns = size_columns([[log_of(a=1)], [log_of(a=1), log_of(a=1, b=1)]])
    calls = columns["calls"].reshape(2, len(SIZES))
    assert columns["job"].tolist() == [0] * len(SIZES) + [1] * len(SIZES)
    assert calls[:, 0].tolist() == [1, 3]
    assert columns["size"].series().tolist() == [*SIZES, *SIZES]
