import pytest
from tierscope.core.provenance import (
    RULE_NOTE,
    Origin,
    method_notes,
    model_note,
    model_words,
    source_note,
)


@pytest.mark.parametrize("source", ["emulated", "simulated"])
def test_devices_that_are_not_real_are_said_to_be_fitted(source):
    note = source_note(source)
    assert note.startswith(source.capitalize())
    assert note.endswith(
        "fitted to statements of the paper, not measured on the machine."
    )


def test_measured_numbers_are_not_said_to_be_fitted():
    assert source_note("measured", "any") == "Measured: real processes read real files."


def test_the_model_is_named_where_it_is_known():
    assert "each took. Model: Fugaku in small. The" in source_note(
        "emulated", "Fugaku in small"
    )


def test_the_model_of_an_estimate_is_described():
    words = model_words("simulation", "all-osts")
    assert words.endswith("of calibration all-osts, simulated event by event")
    assert "of the system's file" in model_words("order-statistics", None)


def test_each_method_has_its_own_note():
    assert method_notes(["rule"], "") == [RULE_NOTE]
    both = method_notes(["rule", "model"], "a network")
    assert both == [RULE_NOTE, model_note("a network")]
    assert "waiting moves on to the next busy device" in both[1]


def test_program_has_cache_rates_of_bytes_and_maybe_one_phase():
    assert "bytes" in Origin("", is_program=True).cache_rate_label
    assert "bytes" not in Origin("").cache_rate_label
    assert Origin("", is_program=True).epoch_words(1) == Origin("").epoch_words(1)
    assert Origin("", is_whole_run=True).epoch_words(0) == "whole run"
