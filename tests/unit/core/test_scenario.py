import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.scenario import Point, Scenario


@given(rate=st.integers(0, 100), repetition=st.integers(0, 10_000))
def test_point_is_read_from_the_folder_that_it_names(rate, repetition):
    point = Point(rate, repetition)
    assert Point.parse(point.path) == point


@pytest.mark.parametrize(
    "text", ["", "5/0", "cache-5/rep-0", "cache-005/rep-0/x", "cache-005/rep-", "a\n"]
)
def test_other_texts_are_no_points(text):
    with pytest.raises(ValueError, match="expected one like cache-065/rep-0"):
        Point.parse(text)


def test_ideal_runs_have_a_folder_of_their_own_and_the_keys_of_the_others():
    scenario = Scenario("tiny", 1, "pinning", "posix")
    ideal = Scenario("tiny", 1, "pinning", "posix", is_ideal=True)
    assert ideal.name == "tiny-1ost-pinning-posix+ideal"
    assert ideal.keys == scenario.keys
