"""Words for numbers, counts, times, sizes, names and classes."""

import math
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.columns import OPERATIONS
from tierscope.core.words import (
    UNKNOWN,
    as_bytes,
    as_text,
    as_utf8,
    bounds_words,
    changes_words,
    class_label,
    count_words,
    error_words,
    iso_time_words,
    number_words,
    printable,
    ranges_of,
    seconds_words,
    short_number,
    shortened,
    size_words,
    time_words,
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


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (10.0, "10"),
        (12.84, "12.8"),
        (999.7, "1000"),
        (1234.5, "1234"),
        (-0.5, "\N{MINUS SIGN}0.5"),
    ],
)
def test_short_numbers_have_no_zeros_at_their_end(number, words):
    assert short_number(number) == words


@pytest.mark.parametrize(
    ("time_s", "words"),
    [(10.0, "10.0"), (0.0, "0.00"), (1234.4, "1234"), (math.nan, UNKNOWN)],
)
def test_seconds_of_a_column_have_three_digits_or_are_whole(time_s, words):
    assert seconds_words(time_s) == words


def test_counts_are_of_one_thing_or_of_several():
    assert count_words(1, "run") == "1 run"
    assert count_words(0, "run") == "0 runs"
    assert count_words(3072, "process", "processes") == "3,072 processes"
    assert count_words(3072, "process", "processes", separator="") == "3072 processes"


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 B"), (1023, "1023 B"), (131072, "128 KiB"), (2**50 * 5, "5120 TiB")],
)
def test_sizes_have_the_largest_unit_that_fits(n_bytes, words):
    assert size_words(n_bytes) == words


def test_times_are_in_utc():
    assert time_words(1_790_000_000.5) == "2026-09-21 14:13:20 UTC"
    assert time_words(1e20) == "100000000000000000000 s after 1970"
    assert iso_time_words("2026-11-21T10:09:16+00:00") == "2026-11-21 10:09:16"


@pytest.mark.parametrize(
    ("tier", "interface", "operation", "label"),
    [
        ("gfs", "POSIX", "read", "gfs READ"),
        ("gfs", "POSIX", "meta", "gfs META"),
        ("lfs", "POSIX", "write", "lfs WRITE"),
        ("gfs", "POSIX", "write meta", "gfs META of written files"),
        ("gfs", "POSIX", "read-write meta", "gfs META of files read and written"),
        ("gfs", "STDIO", "read", "gfs STDIO READ"),
        ("scratch", "MPI-IO", "write", "scratch MPI-IO WRITE"),
    ],
)
def test_a_class_is_named_by_tier_interface_and_operation(
    tier, interface, operation, label
):
    assert class_label(tier, interface, operation) == label


def test_each_operation_has_a_label_of_its_own():
    labels = {class_label("gfs", "POSIX", operation) for operation in OPERATIONS}
    assert len(labels) == len(OPERATIONS)


def test_changes_are_listed_in_their_order():
    changes = [("gfs READ", 50), ("gfs META", 25)]
    assert changes_words(changes) == "gfs READ +50 %, gfs META +25 %"
    assert changes_words([]) == "no improvement"


@given(data=st.binary())
def test_bytes_that_become_a_text_come_back(data):
    assert as_bytes(as_text(data)) == data


def test_text_for_tables_has_escapes_for_bytes_that_are_no_utf8():
    assert as_utf8(as_text(b"\xe3\x83\x87 \xff")) == "\u30c7 \\xff"
    assert as_utf8(Path(os.fsdecode(b"\xe3\x83\x87 \xff"))) == "\u30c7 \\xff"


def test_error_of_a_call_is_its_file_and_its_reason():
    assert error_words(FileNotFoundError(2, "No such file", "/a\nb")) == (
        r"/a\nb: No such file"
    )
    assert error_words(OSError(28, "No space")) == "[Errno 28] No space"
    assert error_words(ValueError("got 1, expected 2")) == "got 1, expected 2"


def test_rising_numbers_are_put_together_as_ranges():
    assert ranges_of([]) == []
    assert ranges_of([0, 1, 2, 5, 7, 8]) == [[0, 2], [5, 5], [7, 8]]
