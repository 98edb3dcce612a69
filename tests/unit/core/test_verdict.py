import math

import pytest
from tierscope.core.verdict import FAILS, HOLDS, LOOKS, UNDECIDED, ends_words, judge


@pytest.mark.parametrize(
    ("accept", "value", "ends", "status"),
    [
        ({"at_least": 60, "at_most": 70}, 65, None, HOLDS),
        ({"at_least": 60, "at_most": 70}, 75, None, FAILS),
        ({"at_least": 60, "at_most": 70}, 65, (60, 70), HOLDS),
        ({"at_least": 60, "at_most": 70}, 65, (59, 66), UNDECIDED),
        ({"at_least": 60, "at_most": 70}, 75, (69, 81), UNDECIDED),
        ({"at_least": 60, "at_most": 70}, 75, (71, 79), FAILS),
        ({"at_least": 60, "at_most": 70}, 50, (45, 55), FAILS),
        ({"at_least": 60, "at_most": 70}, 65, (50, 80), UNDECIDED),
        ({"more_than": 0}, 5, (0, 10), UNDECIDED),
        ({"more_than": 0}, 5, (0.1, 10), HOLDS),
        ({"more_than": 0}, -5, (-10, 0), FAILS),
        ({"more_than": 0}, 0, (0, 0), FAILS),
        ({"at_least": 100}, 100, (100, 100), HOLDS),
        # The number itself counts, too, where the interval does not hold it.
        ({"at_most": 5}, 6, (3, 4), UNDECIDED),
        ({"at_most": 5}, None, None, FAILS),
        ({"at_most": 5}, None, (-math.inf, math.inf), UNDECIDED),
        ({"at_most": 5}, 4, (-math.inf, math.inf), UNDECIDED),
    ],
)
def test_a_claim_holds_does_not_hold_or_is_undecided(accept, value, ends, status):
    assert judge(accept, value, ends) == status
    assert status in LOOKS


def test_ends_of_an_interval_in_words():
    assert ends_words((9.14, 15.02), "%") == "9.14 to 15 %"
    assert ends_words((-0.5, 1), "points") == "\N{MINUS SIGN}0.5 to 1 point"
    assert ends_words((2, 2), "points") == "2 points"
    assert ends_words(None, "%") == ends_words((-math.inf, math.inf), "%") == ""
