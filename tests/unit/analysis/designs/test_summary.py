"""The summary of a study of designs, of hand-made tables."""

import pandas as pd
from design_tables import COST, designs, inputs, row, servers
from tierscope.analysis.designs.answer import Answer
from tierscope.analysis.designs.summary import (
    gib_words,
    null_words,
    statements,
    summary_text,
)
from tierscope.core.columns.designs import TABLES
from tierscope.data.costs import Cost, Unit

SOURCES = {"net": "made up."}


def summary(table, *changes, cost=COST, fit=None):
    answer = Answer(table, inputs(*changes), cost, {})
    return summary_text(answer, fit, SOURCES, "made up")


def test_the_answer_is_first_and_whose_numbers_it_has_follows():
    lines = summary(servers(80, 95, limit="gfs_read")).splitlines()
    assert lines[0].startswith("Buy 2 object servers: this feeds 8 accelerators")
    assert lines[3:6] == ["", "Source: made up.", lines[5]]
    assert lines[5].startswith("Simulated: a model of the whole system, no process")
    assert "net on pencil: 0.500 s of computation a step, goal: an AU of 90 %" in lines
    assert lines[-1] == "  Workload: made up."


def test_the_front_has_costs_values_and_verdicts():
    text = summary(servers(80, 95))
    assert "Price (declared) and goal (simulated): the " in text
    assert "  1 object server: 130 EUR, 10.0 W; 8 acc" in text
    assert "8 accelerators at an AU of 80.0 %: misses" in text
    assert "1 object server: 50 % of the hardware;" in summary(
        servers(80, 95), cost=Cost()
    )


def test_a_price_without_a_unit_is_followed_by_nothing():
    cost = Cost(units={"object_server": Unit(price=7, watts=3)})
    assert "  1 object server: 7.00, 3.00 W; 8 acc" in summary(
        servers(80, 95), cost=cost
    )


def test_it_says_what_was_simulated_once():
    assert "What has no interval was simulated once." in summary(servers(80, 95))
    assert "simulated once" not in summary(designs(row(95, 94, 96)))
    calibrated = inputs(("gfs.open_s", 1, 1, 1)).assign(origin="calibrated")
    words = "What has no interval was simulated once, without the calibration's unc"
    assert words in statements(Answer(servers(80, 95), calibrated, COST, {}))


def test_bounds_are_counted():
    table = servers(80, 95)
    table.loc[0, "known_by"] = "bound"
    assert "1 design misses the goal even at best (not simulated)." in summary(table)


def test_inputs_that_change_the_choice_are_named_with_what_it_would_be():
    text = summary(servers(80, 95), ("gfs.read_latency_s", 1, 0, -1))
    assert (
        "gfs.read_latency_s of net is assumed (0.00200 s). The choice would be: with "
        "0.00100 s 1 object server; with 0.00400 s none."
    ) in text


def test_room_after_which_more_does_not_help():
    table = designs(*(row(au, lfs_gib=au * 10.0) for au in (70, 95, 95.5)))
    assert gib_words(Answer(table, inputs(), COST, {})) == (
        "More than 950 GiB a device helps by less than 1 point (of 700, 950, 955 GiB)."
    )
    assert gib_words(Answer(servers(80, 95), inputs(), COST, {})) == ""
    times = table.assign(goal="epoch_time_s", goal_value=5.0, epoch_time_s=[9, 3, 3])
    assert "by less than 1 % (of 700" in gib_words(Answer(times, inputs(), COST, {}))


def test_beyond_the_largest_room_nothing_is_claimed():
    words = "Whether more than 950 GiB a device helps is unknown."
    table = designs(*(row(au, lfs_gib=au * 10.0) for au in (70, 95)))
    assert gib_words(Answer(table, inputs(), COST, {})) == words
    table.loc[0, "known_by"] = "bound"
    assert gib_words(Answer(table, inputs(), COST, {})) == words


def test_simple_models_choose_the_same_or_otherwise():
    table = servers(80, 95).assign(linear=[80.0, 95], demand=[95.0, 99])
    assert null_words(Answer(table, inputs(), COST, {})) == (
        "Simple models choose: linear scaling from the smallest design: the same; "
        "bandwidth over demand: 1 object server (misses)."
    )


def test_predictions_of_a_fit_have_their_bands():
    fit = dict.fromkeys(TABLES["designs_fit"], 1.0)
    fit |= {"parameter": "gfs.read_latency_s", "unit": "s", "value": 0.002}
    fit |= {"value_low": 0.003, "value_high": 0.001, "n_accelerators": 1}
    fit |= {"utilisation_percent": 54.0, "deviation_points": 4.0}
    table = designs(row(54, 50, 58, samples_per_second_low=20.0))
    text = summary(table.assign(samples_per_second_high=24.0), fit=pd.DataFrame([fit]))
    assert "gfs.read_latency_s = 0.002 s (0.001 to 0.003), which gives 1 acc" in text
    assert text.endswith(
        "  8 accelerators at an AU of 54.0 % (50.0 to 58.0); 54.00 (20.00 to 24.00) "
        "samples a second"
    )
