"""What each function of libc that takes a path reaches in a virtual dataset."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tierscope.benchmark.programs.table import OPENED_LFS

SOURCE = Path(__file__).with_name("calls.c")
N_OPENS = 18  # of train/2.png, in the client


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return the compiled client."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("client") / "calls"
    subprocess.run([compiler, "-w", "-o", program, SOURCE], check=True)
    return program


def test_every_function_finds_files_on_their_tier_and_the_rest_on_the_gfs(node, client):
    lines = node.execute([str(client), node.data]).stdout.splitlines()
    copy = node.folder / "lfs" / "train" / "2.png"
    opens = [one for one in lines if "/" in one.rpartition(" ")[2]]
    reads = [one for one in opens if one.endswith(f" {copy}")]
    looks = [one for one in lines if one.endswith(f" ok {copy.stat().st_ino}")]
    writes = [one for one in opens if f" {node.folder}/set/train/" in one]
    works = [one for one in lines if one.endswith(" ok")]
    assert sorted([*reads, *looks, *writes, *works]) == sorted(lines)
    assert [len(reads), len(looks), len(writes)] == [N_OPENS, 14, 12]
    assert node.events() == [(OPENED_LFS, "train/2.png", 0)] * N_OPENS
    counts = node.table.counts()
    assert (counts["undirected"], counts["spawned"]) == (0, 1)
