"""Programs in which a library must not assume much."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tierscope.benchmark.programs.table import CLOSED, OPENED_LFS


def test_every_open_is_told_of_in_handlers_small_stacks_and_children_of_vfork(
    make_node,
):
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    node = make_node(wants_closes=True)
    program = node.folder / "hostile"
    source = Path(__file__).with_name("hostile.c")
    subprocess.run([compiler, "-O2", "-pthread", "-o", program, source], check=True)
    n_opened = int(node.execute([str(program), node.data]).stdout)
    assert n_opened > 8 * 400 + 20
    events = node.events()
    assert events.count((OPENED_LFS, "train/2.png", 0)) == n_opened
    # All but that of the child of vfork, which must not touch its parent's memory.
    assert events.count((CLOSED, "train/2.png", 0)) == n_opened - 1
    (process,) = node.table.processes()
    assert process["end_ns"] > 0
