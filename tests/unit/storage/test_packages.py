"""A package that a later step imports is tried before what it follows."""

import sys
from pathlib import Path

import pytest
from tierscope.core.validation import ConfigError
from tierscope.storage.packages import refuse_missing

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"


@pytest.fixture(autouse=True)
def _path(tmp_path, monkeypatch):
    """Let another Python find our modules, and those of a test."""
    monkeypatch.setenv("PYTHONPATH", f"{SCRIPTS}:{tmp_path}")


def test_modules_and_names_in_them_can_be_imported_or_are_loaded(tmp_path):
    (tmp_path / "made_up.py").write_text("found = 1\n")
    refuse_missing(["json", "json.loads", "pytest", "made_up", "made_up.found"])
    assert "made_up" not in sys.modules


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (None, "made_up", "ModuleNotFoundError: No module named 'made_up'"),
        ("", "made_up.lacking", "ImportError: made_up has no lacking"),
        ("import lacking", "made_up.one", "ModuleNotFoundError: No module named 'lac"),
        ("raise OSError('libz.so: no\\nfile')", "made_up", "OSError: libz.so: no"),
        ("import os\nos.abort()", "made_up", "the process ended with status -6"),
    ],
)
def test_what_cannot_be_imported_is_named_in_a_line_with_the_reason(
    tmp_path, text, name, why
):
    if text is not None:
        (tmp_path / "made_up.py").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        refuse_missing(["json", name])
    line = str(refusal.value)
    assert line.startswith(f"{name}: cannot be imported by {sys.executable}, expected")
    assert f"later steps need: {why}" in line
    assert "\n" not in line
