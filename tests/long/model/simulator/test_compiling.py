"""What is kept of the compiled loops, in a package of two small ones."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[4] / "workflow" / "scripts" / "tierscope"
COMPILED = "from tierscope.model.simulator.compiling import compiled\n\n\n"
CALLED = COMPILED + "@compiled\ndef number():\n    return {number}\n"
CALLING = (
    COMPILED
    + "from tierscope.model.simulator.called import number\n\n\n"
    + "@compiled\ndef answer():\n    return number()\n"
)


@pytest.fixture
def loops(tmp_path):
    """Return the folder of the modules with loops, in a package of this test's own."""
    folder = tmp_path / "tierscope" / "model" / "simulator"
    folder.mkdir(parents=True)
    shutil.copytree(PACKAGE / "core", tmp_path / "tierscope" / "core")
    for part in ("", "model", "model/simulator"):
        shutil.copy(PACKAGE / part / "__init__.py", tmp_path / "tierscope" / part)
    shutil.copy(PACKAGE / "model" / "simulator" / "compiling.py", folder)
    (folder / "called.py").write_text(CALLED.format(number=1))
    (folder / "calling.py").write_text(CALLING)
    return folder


def answer(folder, **environment):
    """Return what a new process computes."""
    code = "from tierscope.model.simulator.calling import answer; print(answer())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder.parents[2],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_loop_is_compiled_again_if_a_function_that_it_calls_has_changed(loops):
    assert answer(loops) == "1\n"
    assert len(list(loops.rglob("calling.*.nbc"))) == 1
    (loops / "called.py").write_text(CALLED.format(number=2))
    assert answer(loops) == "2\n"


def test_loops_run_where_nothing_can_be_kept(loops):
    (loops / "__pycache__").write_text("no folder\n")
    assert answer(loops, XDG_CACHE_HOME="/dev/null", HOME="/dev/null") == "1\n"
    assert answer(loops, NUMBA_DISABLE_JIT="1") == "1\n"
