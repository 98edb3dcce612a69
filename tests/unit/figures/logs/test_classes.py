import itertools

import pandas as pd
import pytest
from tierscope.core.columns import OPERATIONS
from tierscope.core.io_class import IOClass
from tierscope.figures.logs.classes import (
    Palette,
    bound_notes,
    classes_of,
    counted,
    in_class_order,
    label,
    mpi_io_note,
    tier_order,
    visible,
)

TIERS = ["gfs", "lfs", "home", "scratch", "burst", "other", "unnamed"]


def test_tiers_of_the_paper_come_first_and_unknown_ones_last():
    given = ["unnamed", "scratch", "lfs", "other", "home", "gfs", "home"]
    ordered = ["gfs", "lfs", "home", "scratch", "other", "unnamed"]
    assert tier_order(given) == ordered


@pytest.mark.parametrize("io_class", IOClass)
def test_the_papers_classes_keep_their_colours(io_class):
    operation = "read" if io_class.is_read else "meta"
    assert Palette([]).colour(io_class.tier, operation) == io_class.colour


def test_no_two_classes_have_the_same_colour():
    palette = Palette(TIERS)
    pairs = itertools.product(TIERS, OPERATIONS)
    colours = [palette.colour(*pair) for pair in pairs]
    assert len(set(colours)) == len(colours) == 35


def test_a_tier_has_one_colour_whatever_tiers_a_job_has_used():
    """The palette is made from all tiers of the analysis."""
    assert Palette(TIERS).colour("scratch", "read") != Palette(["scratch"]).colour(
        "scratch", "read"
    )
    shuffled = Palette(TIERS[::-1])
    assert shuffled.colour("scratch", "read") == Palette(TIERS).colour(
        "scratch", "read"
    )


def test_stdio_is_hatched_and_posix_is_not():
    palette = Palette(["gfs"])
    assert "hatch" in palette.look("gfs", "STDIO", "read")
    assert "hatch" not in palette.look("gfs", "POSIX", "read")


def test_classes_are_ordered_by_tier_interface_and_operation():
    first, second = ("gfs", "POSIX", "read"), ("gfs", "POSIX", "meta")
    third, last = ("gfs", "STDIO", "read"), ("scratch", "POSIX", "read")
    assert in_class_order([last, third, second, first, last]) == [
        first,
        second,
        third,
        last,
    ]


def rows_of(*rows):
    names = ["tier", "interface", "operation", "least_s", "most_s"]
    return pd.DataFrame(rows, columns=names)


def test_mpi_io_is_left_out_and_named():
    rows = rows_of(("gfs", "MPI-IO", "read", 1, 1), ("gfs", "POSIX", "read", 1, 1))
    assert counted(rows)["interface"].tolist() == ["POSIX"]
    assert "MPI-IO is not drawn" in mpi_io_note(rows)[0]
    assert mpi_io_note(counted(rows)) == []


def test_classes_without_time_have_no_place_in_the_legend():
    rows = rows_of(
        ("gfs", "POSIX", "read", 0, 0),
        ("gfs", "POSIX", "meta", 0, 2),
        ("gfs", "POSIX", "write", 1, float("nan")),
    )
    assert [one[2] for one in classes_of(rows)] == ["meta", "write"]


def test_a_hostile_tier_is_labelled_with_what_is_seen():
    assert label("\u202ex\n", "POSIX", "read") == "\\u202ex\\n READ"
    assert len(label("t" * 500, "STDIO", "meta")) < 60


def test_notes_say_what_bounds_are_once():
    notes = bound_notes(["exact", "bounds", "bounds"], "Darshan logs")
    assert notes[0] == "Source: Darshan logs."
    assert [note.partition(":")[0] for note in notes[1:]] == ["Bounds"]


def test_classes_that_cannot_be_seen_are_not_in_the_legend():
    widest = {"a": 10.0, "b": 0.02, "c": 0.04}  # of 10; the limit is 0.03
    assert visible(widest, 10.0) == ["a", "c"]
    many = {n: 1.0 + n for n in range(20)}
    assert visible(many, 20.0) == list(range(6, 20))
