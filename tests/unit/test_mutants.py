"""Mutants: no tests that ran are no tests that found a change."""

import signal
from pathlib import Path

import pytest
from mutants import TESTS, fate_of, files_of

FOLDER = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (0, "survived"),
        (1, "killed"),  # a test failed
        (2, "killed"),  # a file of tests could not be loaded
        (-signal.SIGSEGV, "killed"),
        (-signal.SIGALRM, "killed by time"),
        (4, "not tested"),  # a file of tests is missing
        (5, "not tested"),  # nothing was chosen
        (99, "not tested"),  # pytest did not start
    ],
)
def test_mutant_is_killed_only_if_tests_ran(code, fate):
    assert fate_of(code) == fate


@pytest.mark.parametrize("module", TESTS)
def test_each_mutated_module_has_its_tests(module):
    assert files_of(module, FOLDER)


def test_tests_that_are_gone_are_named(monkeypatch):
    monkeypatch.setitem(TESTS, "core/x", ["core/gone"])
    with pytest.raises(FileNotFoundError, match="core/x: got no tests core/gone"):
        files_of("core/x", FOLDER)
