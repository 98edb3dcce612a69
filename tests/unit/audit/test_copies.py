import numpy as np
import pandas as pd
import pytest
from tierscope.audit.copies import copies_in_time, copies_made
from tierscope.core.columns import AFTER_TRAINING


def decisions_of(*rows):
    """Return table `decisions` of rows: time, event, epoch, file, detail."""
    columns = ["time_s", "event", "epoch", "file_id", "detail"]
    return pd.DataFrame(rows, columns=columns).assign(node=0)


NEXT = (10.0, "begin", 1, 9, "")


def copied(file, read_s, placed_s, detail=""):
    """Return the rows of a file that is read in epoch 0 and copied."""
    return [
        (0.0, "begin", 0, file, ""),
        (read_s, "end", 0, file, detail),
        (read_s, "copy", 0, file, ""),
        (placed_s, "placed", 0, file, "read again"),
    ]


@pytest.mark.parametrize(
    ("rows", "answer", "words"),
    [
        (copied(0, 1, 9), "yes", "Each copy had ended"),
        (copied(0, 1, 11), "no", "GFS: 1 were ordered in time but took longer."),
        (
            copied(0, 1, 11, "unseen"),
            "no",
            "GFS: 1 were ordered in time but took longer.",
        ),
        (copied(0, 11, 12, "unseen"), "no", "GFS: 1 had to wait for a close that nob"),
        (copied(0, 11, 12), "no", "GFS: 1 had to wait until the program closed the"),
        ([], "not measured", "No epoch that opened files followed one with copies."),
    ],
)
def test_copies_that_are_late_have_a_cause(rows, answer, words):
    found = copies_in_time(decisions_of(*rows, NEXT))
    assert found[0] == answer
    assert words in found[1]


def test_first_read_of_a_file_orders_its_copy():
    rows = [*copied(0, 1, 11), (12.0, "end", 0, 0, "unseen"), *copied(1, 12, 13)]
    _, words = copies_in_time(decisions_of(*rows, NEXT))
    assert "1 were ordered in time but took longer, 1 had to wait until" in words


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (["full", "full"], "2 copies failed: 2 as the LFS was full."),
        (["changed"], "1 copy failed: 1 as their files had changed since the dataset"),
        (["error", "full"], "1 as the LFS was full, 1 as the log of the launch says."),
    ],
)
def test_copies_that_fail_have_a_cause(failed, words):
    rows = [(1.0, "failed", 0, file, detail) for file, detail in enumerate(failed)]
    answer, found = copies_made(decisions_of(*rows), np.full(5, 10))
    assert answer == "no"
    assert words in found


def test_copies_after_training_are_of_no_epoch_that_another_one_follows():
    after = [
        (20.0, "begin", AFTER_TRAINING, 3, ""),
        (21.0, "end", AFTER_TRAINING, 3, ""),
        (22.0, "placed", AFTER_TRAINING, 3, "read again"),
    ]
    answer, words = copies_in_time(decisions_of(*copied(0, 1, 9), NEXT, *after))
    assert answer == "yes", words
