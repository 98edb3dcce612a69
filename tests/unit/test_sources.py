import pytest
from tierscope.sources import source_note


@pytest.mark.parametrize("source", ["emulated", "simulated"])
def test_devices_that_are_not_real_are_said_to_be_fitted(source):
    note = source_note(source)
    assert note.startswith(source.capitalize())
    assert note.endswith(
        "fitted to statements of the paper, not measured on the machine."
    )


def test_measured_numbers_are_not_said_to_be_fitted():
    assert source_note("measured", "any") == "Measured on real storage devices."


def test_the_model_is_named_where_it_is_known():
    assert "pace. Model: Fugaku in small. The" in source_note(
        "emulated", "Fugaku in small"
    )
