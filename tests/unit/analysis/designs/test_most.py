"""How many accelerators a storage feeds, of hand-made rows."""

from design_tables import designs, inputs, row, servers
from tierscope.analysis.designs.answer import Answer
from tierscope.analysis.designs.summary import (
    most_lines,
    most_words,
    row_words,
    steps_words,
)
from tierscope.data.costs import Cost


def rows(*used, numbers=(1, 2, 4, 8), limit_at=None, **keys):
    """Return rows of some utilisations; `limit_at` is the number with a limit."""
    of_each = [
        row(au, n_accelerators=n, limit="gfs_read" if n == limit_at else "not asked")
        for au, n in zip(used, numbers, strict=False)
    ]
    return designs(*of_each, **keys)


def test_the_most_that_reach_the_goal_and_what_limits_the_next():
    assert most_words(rows(100, 95, 60, 30, limit_at=4)) == (
        "2 accelerators at an AU of 95.0 %, 95.0 samples and 95 KiB a second. "
        "GFS-READ limits 4: an AU of 60.0 %."
    )


def test_if_none_reaches_it_what_limits_one():
    words = most_words(rows(60, 30, limit_at=1))
    assert words == "none; 1 reach an AU of 60.0 %. GFS-READ limits 1: an AU of 60.0 %."


def test_if_all_reach_it_the_number_is_where_the_simulation_ends():
    assert most_words(rows(100, 99)).endswith(
        "a second, the largest number that was simulated (an epoch has 500 steps)."
    )


def test_undecided_numbers_are_named_and_do_not_count():
    table = designs(row(95), row(91, 89, 93, n_accelerators=16))
    words = most_words(table)
    assert words.startswith("8 accelerators")
    assert words.endswith("Undecided: 16.")


def test_smaller_numbers_that_miss_the_goal_are_named():
    words = most_words(rows(100, 80, 95, 30, limit_at=8))
    assert words.startswith("4 accelerators")
    assert words.endswith("Fewer miss the goal: 2.")


def test_of_lists_only_what_is_known_is_said():
    table = rows(100, 80, 95)
    table.loc[:1, ["known_by", "verdict"]] = ["bound", "undecided"]
    words = most_words(table)
    assert words.startswith("4 accelerators")
    assert words.endswith("Not simulated: 1, 2.")
    assert most_words(table[:2]) == "Not simulated: 1, 2."


def test_of_a_bound_no_samples_are_said():
    table = rows(95, known_by="bound", utilisation_high_percent=88.6, verdict="misses")
    table = table.assign(utilisation_percent=float("nan"))
    assert row_words(table.iloc[0]) == "  1 accelerator at an AU of at most 88.6 %"


def test_room_of_the_lfs_is_named_where_it_is_missing():
    table = rows(100, 99, lfs_rate_percent=40.0, fits_lfs=False)
    assert "no room for it: 40 % at most" in most_words(table)
    table.loc[0, "fits_lfs"] = True
    assert "simulated numbers, the LFS has room for it up to 1" in most_words(table)
    assert "room" not in most_words(rows(100, 99))


def test_a_line_a_storage_and_of_many_those_on_the_front():
    table = servers(80, 95)
    answer = Answer(table, inputs(), Cost(), {})
    assert [line.split(":")[0] for line in most_lines(answer, table)] == [
        "1 object server",
        "2 object servers",
    ]
    table = servers(*(95 - one for one in range(20)))
    *_, last = most_lines(Answer(table, inputs(), Cost(), {}), table)
    assert last == "(19 more in table designs)"


def test_how_many_steps_were_simulated():
    assert steps_words(rows(100)).startswith("50 of 500 steps of an epoch")
    whole = rows(100, n_simulated_steps=500)
    assert steps_words(whole) == "All steps of each epoch were simulated."
    mixed = steps_words(rows(100, 99, n_steps=[500, 50]))
    assert "At most 50 of 50 to 500 steps" in mixed
