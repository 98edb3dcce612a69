"""Which logs of one process may be of one job."""

import pandas as pd
import pytest
from tierscope.logs.chunks.across import related_logs


def related(*rows, group="auto"):
    """Return the sets of positions of related logs.

    Rows are the user, the job id, start, end and the group of a traced command.
    """
    names = ["uid", "job_id", "started_s", "ended_s", "group"]
    logs = pd.DataFrame(rows, columns=names, index=range(5, 5 + len(rows)))
    logs["log"] = [
        f"/logs/{number % 2}/{number}".encode() for number in range(len(rows))
    ]
    numbers = related_logs(logs, group)
    sets = pd.Series(range(len(rows))).groupby(numbers).agg(set)
    return sorted(map(sorted, sets))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Of one user: they overlap, and one begins as the other ends.
        ([(1, 1, 0, 10, ""), (1, 2, 5, 20, ""), (1, 3, 20, 30, "")], [[0, 1, 2]]),
        ([(1, 1, 0, 10, ""), (1, 2, 11, 20, "")], [[0], [1]]),
        ([(1, 1, 0, 10, ""), (2, 2, 5, 20, "")], [[0], [1]]),
        # A long log covers those after a short one.
        ([(1, 1, 0, 99, ""), (1, 2, 1, 2, ""), (1, 3, 50, 60, "")], [[0, 1, 2]]),
        # One job id, at any time.
        ([(1, 1, 0, 10, ""), (1, 1, 500, 510, ""), (2, 1, 0, 10, "")], [[0, 1], [2]]),
        # Traced commands: their group alone counts.
        ([(1, 1, 0, 10, "a"), (2, 2, 90, 95, "a"), (1, 1, 0, 10, "")], [[0, 1], [2]]),
        # By way of a third.
        ([(1, 1, 0, 1, ""), (1, 2, 8, 9, ""), (1, 2, 0, 1, "")], [[0, 1, 2]]),
        ([], []),
    ],
)
def test_logs_are_related_by_user_and_time_job_id_or_group(rows, expected):
    assert related(*rows) == expected


def test_a_pattern_relates_logs_of_one_name_and_one_relates_none():
    rows = [(1, 1, 0, 10, "")] * 4
    assert related(*rows, group={"job": "/([0-9])/"}) == [[0, 2], [1, 3]]
    assert related(*rows, group={"job": "/([0])/"}) == [[0, 2], [1], [3]]
    assert related(*rows, group="one") == [[0], [1], [2], [3]]
