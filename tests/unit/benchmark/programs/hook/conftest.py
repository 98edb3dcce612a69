"""A library that takes the marks of a hook under test, and a folder for its notes."""

import json
import os

import pytest
from epoch_hook.loops import Loops


@pytest.fixture
def known():
    """Return what the library says when it is asked, by its functions."""
    return {"tierscope_first_epoch": 0, "tierscope_epoch_under_way": 0}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Return a function that gives the notes of this process so far."""
    monkeypatch.setenv("TIERSCOPE_HOOK_NOTES", str(tmp_path))
    path = tmp_path / f"{os.getpid()}.jsonl"
    return lambda: list(
        map(json.loads, path.read_text().splitlines() if path.exists() else ())
    )


@pytest.fixture
def marks():
    """Return the list of marks of the loops below."""
    return []


@pytest.fixture
def made_loops(known, marks):
    """Return the loops of a process that marks into a list."""

    def call(name, *epochs):
        marks.extend(epochs)
        return 0 if epochs else known[name]

    return Loops(call)
