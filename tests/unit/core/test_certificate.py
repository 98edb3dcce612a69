"""What a certificate states of foreign libraries and of calls that drop pages."""

import pandas as pd
import pytest
from tierscope.core.certificate import (
    ADVICE,
    BYTES,
    GFS_BYTES,
    LIBRARIES,
    NO,
    NOT_MEASURED,
    YES,
    Interference,
    Statement,
    certificate_line,
    doubted,
    interference_statements,
)


def stated(preloaded=None, **seen):
    """Return answer and words of both statements, by their names."""
    seen = Interference(4, preloaded or {}, **seen)
    return {
        one.statement: (one.answer, one.words)
        for one in interference_statements(seen, "")
    }


def test_process_without_others_is_undisturbed():
    found = stated(made=2)
    assert found[LIBRARIES] == (
        YES,
        "4 processes had no preload library but tierscope's.",
    )
    assert found[ADVICE] == (
        YES,
        "2 calls to drop pages of a traced file, which libc made.",
    )
    assert stated()[ADVICE] == (YES, "No call was to drop pages of a traced file.")


def test_foreign_libraries_are_named_and_many_are_counted():
    found = {"liba.so": 1, "libb.so": 4}
    assert stated(found)[LIBRARIES] == (
        NO,
        "Preload libraries of others: libb.so in 4 of 4, liba.so in 1 of 4 processes.",
    )
    many = {f"lib{i}.so": 4 for i in range(5)}
    _, words = stated(many, n_unnamed=2)[LIBRARIES]
    assert words.endswith("lib2.so in 4 of 4, 4 more processes.")
    assert stated(n_unnamed=2)[LIBRARIES][0] == NO


@pytest.mark.parametrize("what", ["failed", "swallowed"])
def test_call_without_an_effect_is_said(what):
    answer, words = stated(made=1, behind={"liba.so": 3}, **{what: 1})[ADVICE]
    assert answer == NO
    assert f"1 {what}" in words
    assert ("liba.so in 3 of 4 processes" in words) == (what == "swallowed")


def test_library_that_passes_calls_on_is_not_accused():
    assert stated(made=1, behind={"liba.so": 4})[ADVICE][0] == YES


def test_calls_that_another_library_may_keep_are_not_measured():
    answer, words = stated(before={"liba.so": 4})[ADVICE]
    assert answer == NOT_MEASURED
    assert "liba.so in 4 of 4 processes" in words
    assert stated(before={"liba.so": 4}, failed=1)[ADVICE][0] == NO


@pytest.mark.parametrize("seen", [None, Interference(0, {})])
def test_without_a_process_that_tells_the_reason_is_said(seen):
    found = interference_statements(seen, "Darshan does not tell.")
    assert [one.answer for one in found] == [NOT_MEASURED] * 2
    assert {one.words for one in found} == {"Darshan does not tell."}


def test_yes_of_a_part_of_the_calls_is_doubted():
    known = Statement(ADVICE, YES, "No call.")
    assert doubted(known) == Statement(
        ADVICE, NOT_MEASURED, "No call. Not all processes and calls are known."
    )
    assert doubted(known._replace(answer=NO)) == known._replace(answer=NO)


def certificate_of(*said):
    """Return table `certificate` of runs at 0, 1, 2 ... %, from their statements."""
    rows = [
        one._asdict() | {"policy": "lru", "cache_rate_percent": rate, "repetition": 0}
        for rate, statements in enumerate(said)
        for one in statements
    ]
    return pd.DataFrame(rows)


def test_answers_that_are_not_yes_share_a_line():
    none = Statement(LIBRARIES, YES, "None.")
    device = Statement(GFS_BYTES, YES, "Device.")
    memory = Statement(GFS_BYTES, NO, "Page cache.")
    libraries = [Statement(LIBRARIES, NO, f"lib{letter}.so in 1.") for letter in "abcd"]
    unknown = Statement(LIBRARIES, NOT_MEASURED, "No log tells.")
    runs = [[none, device], [unknown], [none, memory], *([one] for one in libraries)]
    assert certificate_line(certificate_of(*runs)) == (
        "certificate: bytes of the GFS came from devices: no in 1 of 2 runs that read "
        "there; no foreign preload library: no in 4 of 7 runs; no foreign preload "
        "library: not measured in 1 of 7 runs; all else is yes"
    )


def test_certificate_that_is_yes_says_so_and_one_without_a_yes_claims_none():
    device = Statement(BYTES, YES, "Device.")
    line = "certificate: all statements are yes"
    assert certificate_line(certificate_of([device], [device])) == line
    none = certificate_line(certificate_of([Statement(ADVICE, NO, "One failed.")]))
    assert none == "certificate: every fadvise took effect: no in 1 of 1 run"
