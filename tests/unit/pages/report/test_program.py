"""What the report says of a user's program."""

import pandas as pd
import pytest
from tierscope.pages.report.program import (
    certificate_table,
    program_facts,
    statements_table,
)

POINT = {
    "source": "measured",
    "system": "one-process",
    "dataset": "mine",
    "n_osts": 0,
    "policy": "pinning",
    "loader": "program",
    "cache_rate_percent": 50,
    "repetition": 0,
}


def said(statement, answer, words, epoch=-1, **point):
    """Return a row of table `statements`."""
    row = {"epoch": epoch, "statement": statement, "answer": answer, "words": words}
    return POINT | point | row


def test_epochs_and_runs_with_one_answer_share_a_row():
    rows = [said("cover", "yes", "All 4 files.", epoch) for epoch in range(3)]
    rows += [said("cover", "yes", "All 4 files.", 0, repetition=1)]
    rows += [said("cover", "no", "3 of 4 files.", 3), said("tier", "yes", "All.")]
    table = statements_table(pd.DataFrame(rows))
    assert table["Statement"].tolist() == [
        "opens on the decided tier",
        "every file opened",
        "every file opened",
    ]
    assert table["Epochs"].tolist() == ["whole run", "1 to 3", "4"]
    assert table["Runs"].tolist() == ["1", "2", "1"]


def test_words_that_differ_by_a_number_are_those_of_the_first_run():
    rows = [
        said("whole", "no", f"{times} times.", 0, cache_rate_percent=rate)
        for rate, times in ((0, 1.5), (50, 1.6))
    ]
    (row,) = statements_table(pd.DataFrame(rows)).to_dict("records")
    assert row["In words"].startswith("1.5 times. (other runs or epochs: other numbers")
    assert row["Cache rates (%)"] == "0, 50"


@pytest.mark.parametrize(
    ("statement", "words", "left"),
    [
        ("read only", "It wrote to 1 file (a (b).x): so.", "It wrote to 1 file: so."),
        ("unchanged", "1 file changed (a, b).", "1 file changed."),
        ("seen", "What cannot be redirected: curl, a.b.", "What cannot be redirected."),
        ("rate", "Each LFS held 3 % (of 4).", "Each LFS held 3 % (of 4)."),
        ("other io", "fsync 1 s on /my home (ext4).", "fsync 1 s (ext4)."),
    ],
)
def test_anonymous_words_name_no_file_and_no_program(statement, words, left):
    rows = pd.DataFrame([said(statement, "no", words)])
    assert statements_table(rows)["In words"].tolist() == [words]
    assert statements_table(rows, anonymous=True)["In words"].tolist() == [left]


def test_certificate_has_no_epochs_and_anonymous_names_no_library():
    words = {
        "libraries": "Preload libraries of others: a b.so in 1 of 1 processes.",
        "advice": "1 call: 0 made, 1 swallowed (a b.so in 1 of 1 processes).",
        "gfs bytes": "Page cache in 1 epoch (tmpfs keeps its files in memory).",
    }
    rows = [said(name, "no", text) for name, text in words.items()]
    rows = pd.DataFrame(rows).drop(columns="epoch")
    table = certificate_table(rows, anonymous=False)
    assert table["Statement"].tolist() == [
        "bytes of the GFS came from devices",
        "no foreign preload library",
        "every fadvise took effect",
    ]
    assert "Epochs" not in table
    assert set(table["In words"]) == set(words.values())
    assert certificate_table(rows, anonymous=True)["In words"].tolist() == [
        words["gfs bytes"],
        "Preload libraries of others.",
        "1 call: 0 made, 1 swallowed.",
    ]


def test_program_without_epochs_has_one_phase_and_no_first_epoch():
    rows = [said("epochs", "no", "One phase."), said("cover", "yes", "All.", 0)]
    table = statements_table(pd.DataFrame(rows))
    assert set(table["Epochs"]) == {"whole run"}


@pytest.mark.parametrize(
    ("by", "words"), [("hook", "3, marked by the loops"), ("nobody", "3, not marked")]
)
def test_facts_say_who_marks_epochs(by, words):
    observed = {"epochs_by": by, "n_epochs": 3, "frameworks": {}, "loaders": []}
    observed |= {"n_evaluations": 2 * (by == "hook")}
    command = ["python", "train.py", "--token", "mine"]
    program = {"command": command, "in_place": False}
    content = {"program": program, "observed": observed | {"n_processes": 3}}
    facts = program_facts([content])
    assert facts["epochs"].startswith(words)
    assert facts["command"] == "python train.py --token HIDDEN"
    assert facts["evaluations"].startswith("2, which" if by == "hook" else "")
