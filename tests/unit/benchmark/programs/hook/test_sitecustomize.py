import ast
import os
import subprocess
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[5] / "workflow/scripts/tierscope/benchmark/programs/hook"
SHOW = (
    "import sys; print('epoch_hook' in (m := sys.modules), m['sitecustomize'].__file__)"
)


# Debian's Python has a module of its own, which is loaded in place of ours.
OWN = PathFinder.find_spec("sitecustomize", [sysconfig.get_path("stdlib")])
LOADED = OWN.origin if OWN else str(HOOK / "sitecustomize.py")


def run(program, *folders, **variables):
    """Return what a new Python prints that has the hook first in its path."""
    paths = os.pathsep.join(map(str, [HOOK, *folders]))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": paths} | variables
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True
    )
    return done.stdout.split(), done.stderr


@pytest.fixture
def own(tmp_path):
    """Return a folder with a site's own module."""
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['OWN'] = '1'\n")
    return tmp_path


@pytest.mark.parametrize("path", [*HOOK.rglob("*.py")], ids=lambda path: path.name)
def test_hook_can_be_read_by_the_pythons_of_users(path):
    """From 3.7 on: the one that reads annotations which it does not evaluate."""
    text = path.read_text()
    assert ast.parse(text, feature_version=(3, 7))
    annotated = " -> " in text
    assert ("from __future__ import annotations" in text) is annotated


def test_hook_is_loaded_only_where_opens_are_redirected(tmp_path):
    assert run(SHOW) == (["False", LOADED], "")
    off = run(SHOW, TIERSCOPE_REDIRECT="/no/table", TIERSCOPE_HOOK="off")
    assert off[0][0] == "False"
    found = run(SHOW, TIERSCOPE_REDIRECT="/no/table")
    assert found == (["True", LOADED], "")


def test_sites_own_module_is_loaded_in_its_place(own):
    show = f"{SHOW}; import os; print(os.environ['OWN'])"
    found = run(show, own, TIERSCOPE_REDIRECT="/no/table")
    assert found == (["True", str(own / "sitecustomize.py"), "1"], "")


def test_error_of_the_sites_own_module_is_told_as_without_us(own):
    (own / "sitecustomize.py").write_text("raise KeyError('of the site')\n")
    output, errors = run("import sys; print('epoch_hook' in sys.modules)", own, X="1")
    assert output == ["False"]
    assert errors.splitlines()[-1] == "KeyError: 'of the site'"
