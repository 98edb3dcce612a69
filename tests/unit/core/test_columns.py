"""Every column has a meaning, and a unit that its name tells."""

import math
import re

import pytest
from tierscope.core import verdict
from tierscope.core.columns import (
    COLUMNS,
    FLAG,
    INTEGER,
    NUMBER,
    TABLES,
    TEXT,
    WIDER,
    Column,
    allowed_values,
)
from tierscope.core.columns.column import ends

ALL = [
    (table, name, column)
    for table, columns in COLUMNS.items()
    for name, column in columns.items()
]
MOST_LETTERS = 180  # of a meaning
UNITS = {  # by what names end with or begin with
    r".*_s": "s",
    r".*_percent": "%",
    r"(?!n_).*_points": "points",
    r".*_hours": "h",
    r"(.*_)?bytes(_.*)?": "bytes",
    r"n_.*": "",
}


def fault_of(meaning, name="time_s"):
    """Return what is wrong with the meaning of a column; empty if nothing is."""
    if not meaning:
        return "none"
    if meaning.rstrip(".").lower() == name.replace("_", " "):
        return "only the name"
    if not re.match(r"[A-Z`]|p value", meaning):
        return "no capital letter"
    if not meaning.endswith(".") or re.search(r"[.!?] [A-Z]", meaning):
        return "not one sentence"
    return "" if len(meaning) <= MOST_LETTERS else "too long"


@pytest.mark.parametrize(
    ("meaning", "fault"),
    [
        ("", "none"),
        ("Time s.", "only the name"),
        ("time of the call.", "no capital letter"),
        ("Time of the call", "not one sentence"),
        ("Time of the call. It may be 0.", "not one sentence"),
        (f"Time of the {'l' * MOST_LETTERS}ong call.", "too long"),
        ("Time of the call; 0 if none.", ""),
    ],
)
def test_meaning_is_a_sentence_that_says_more_than_the_name(meaning, fault):
    assert fault_of(meaning) == fault


def test_every_column_has_a_meaning():
    faults = {
        f"{table}.{name}": fault_of(column.meaning, name) for table, name, column in ALL
    }
    assert {column: fault for column, fault in faults.items() if fault} == {}


def test_unit_of_a_column_is_that_of_its_name():
    faults = []
    for table, name, column in ALL:
        units = {unit for form, unit in UNITS.items() if re.fullmatch(form, name)}
        is_told = column.unit in {"s", "%", "points", "h"}
        if not units <= {column.unit} or (is_told and column.unit not in units):
            faults.append(f"{table}.{name}: {column.unit}")
    assert faults == []


def test_range_of_a_column_is_one_of_its_type():
    for _, _, column in ALL:
        assert column.kind in {INTEGER, NUMBER, TEXT, FLAG}
        assert not column.may_be_missing or column.kind == NUMBER
        assert not column.words or column.kind == TEXT
        assert column.least == 0 or column.kind in {INTEGER, NUMBER}


def test_column_that_means_the_same_in_many_tables_is_declared_once():
    declared: dict[tuple[str, str], set[int]] = {}
    for columns in COLUMNS.values():
        for name, column in columns.items():
            declared.setdefault((name, column.meaning), set()).add(id(column))
    assert [key for key, ids in declared.items() if len(ids) > 1] == []


def test_types_of_tables_are_those_of_their_columns():
    assert list(TABLES) == list(COLUMNS)
    assert TABLES["manifest"] == {
        "file_id": INTEGER,
        "path": TEXT,
        "size_bytes": INTEGER,
        "ost": INTEGER,
    }


def test_wider_table_has_all_columns_of_the_one_as_which_it_is_read():
    for name, wider in WIDER.items():
        assert TABLES[name].items() < TABLES[wider].items()


def test_allowed_values_are_a_vocabulary_or_a_range():
    assert allowed_values("spread", "quantity") == ["I/O time", "execution time"]
    assert allowed_values("spread", "flagged") == []
    assert allowed_values("spread", "mean_s") == ["at least 0"]
    assert allowed_values("spread", "low_s") == ["any number", "may be missing"]
    assert allowed_values("manifest", "ost") == ["at least -1"]


def test_column_has_neither_bounds_nor_words_unless_it_says_so():
    column = Column(NUMBER, "A number.")
    assert column == (NUMBER, "A number.", "", 0, False, set(), "")
    assert COLUMNS["logs"]["job_id"].least == -math.inf


@pytest.mark.parametrize("table", ["claims", "policy_claims"])
def test_status_of_a_claim_is_one_of_the_verdicts(table):
    verdicts = {verdict.HOLDS, verdict.FAILS, verdict.UNDECIDED, verdict.UNMEASURABLE}
    assert COLUMNS[table]["status"].words == verdicts


def test_ends_of_an_interval_have_the_unit_of_their_name():
    low, high = ends("{}_s", "the mean").items()
    assert (low[0], high[0]) == ("low_s", "high_s")
    assert low[1].meaning == (
        "Lower end of the 95 % confidence interval of the mean; missing if there is "
        "one repetition."
    )
    assert (low[1].least, high[1].least) == (-math.inf, 0)
    assert low[1].may_be_missing
    assert high[1].may_be_missing
    found = ends("cut_{}_points", "the cut")
    assert {(name, one.unit, one.least) for name, one in found.items()} == {
        ("cut_low_points", "points", -math.inf),
        ("cut_high_points", "points", -math.inf),
    }
