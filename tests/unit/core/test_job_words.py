import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.job_words import (
    bounds_words,
    number_words,
    printable,
    shortened,
)


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (12.1, 14.3, "12.1 to 14.3 s"),
        (12.1, 12.1, "12.1 s"),
        (12.0, math.nan, "at least 12.0 s"),
        (12.0, math.inf, "at least 12.0 s"),
        (0, 0, "0 s"),
        (0, 0.5, "0 to 0.500 s"),
        (1234.4, 1234.4, "1,234 s"),
        (1.00001, 1.00002, "1.00 s"),
    ],
)
def test_bounds_are_two_numbers_unless_they_are_one(least, most, words):
    assert bounds_words(least, most) == words


def test_a_unit_can_be_another_one_or_none():
    assert bounds_words(1, 2, "%") == "1.00 to 2.00 %"
    assert bounds_words(1, 2, "") == "1.00 to 2.00"


@pytest.mark.parametrize(
    ("number", "words"),
    [(0.0123, "0.0123"), (999.4, "999"), (999.6, "1,000"), (0.00001234, "1.2e-05")],
)
def test_numbers_have_three_digits_or_are_whole(number, words):
    assert number_words(number) == words


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("data.h5", "data.h5"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("bad \udcff byte", "bad \\udcff byte"),
        (
            "\u05e9\u05dc\u05d5\u05dd \u65e5\u672c",
            "\u05e9\u05dc\u05d5\u05dd \u65e5\u672c",
        ),
        ("\u2028", "\\u2028"),
    ],
)
def test_each_character_of_a_name_is_seen(text, seen):
    assert printable(text) == seen


@given(st.text(st.characters()))
def test_no_text_keeps_a_character_that_is_not_seen(text):
    found = printable(text)
    assert {unicodedata.category(sign) for sign in found}.isdisjoint({"Cc", "Cf", "Cs"})
    found.encode("utf-8")
    assert printable(found) == found


@given(st.text(max_size=30), st.integers(3, 40))
def test_a_shortened_text_keeps_its_ends(text, most):
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text or (short[0] == text[0] and "\N{HORIZONTAL ELLIPSIS}" in short)
