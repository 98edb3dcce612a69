"""A library that takes the marks of a hook under test."""

import pytest
from epoch_hook.loops import Loops


@pytest.fixture
def known():
    """Return what the library says when it is asked, by its functions."""
    return {"tierscope_first_epoch": 0, "tierscope_epoch_under_way": 0}


@pytest.fixture
def marks():
    """Return the list of marks of the loops below."""
    return []


@pytest.fixture
def made_loops(known, marks):
    """Return the loops of a process that marks into a list."""

    def call(name, *epochs):
        if name == "tierscope_loops_ended":
            marks.append("end")
            return 0
        marks.extend(epochs)
        return 0 if epochs else known[name]

    return Loops(call)
