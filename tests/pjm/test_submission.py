"""What profile fugaku submits for a benchmark of the paper's sweep."""

import re
from pathlib import Path

from show_submission import ROOT, submission

GOLDEN = Path(__file__).parent / "data" / "fugaku-submission.txt"
# Snakemake's own options change with its version and, being sets, their order.
CHANGING = re.compile(r"--cores 'all'.*?(?=--wait-for-files)")
RANDOM = re.compile(r"(?<=run_benchmark\.)[0-9a-f]{8}")
PYTHON = re.compile(r"/\S+/bin/python3?(?= )")
SCRIPTS = re.compile(r"/\S+/bin(?=:\"\$PATH\")")


def settled(text: str) -> str:
    """Return a submission without what differs from call to call."""
    for pattern, replacement in (
        (CHANGING, "... "),
        (RANDOM, "XXXXXXXX"),
        (PYTHON, "/PYTHON/python"),
        (SCRIPTS, "/PYTHON"),
    ):
        text = pattern.sub(replacement, text)
    return text


def test_submission_of_the_papers_sweep_is_as_checked(monkeypatch):
    monkeypatch.setenv("TIERSCOPE_GFS_ROOT", "/2ndfs/GROUP/tierscope")
    text = settled(submission(ROOT / "config" / "paper.yaml"))
    assert text == GOLDEN.read_text(), f"is it right? Then put it into {GOLDEN}"


def test_checked_submission_holds_what_the_paper_ran():
    text = GOLDEN.read_text()
    (pjsub,) = re.findall(r"^pjsub .*", text, re.MULTILINE)
    for words in (
        "node=8x6x16:torus:strict-io",
        "rscgrp=large",
        "proc=3072,max-proc-per-node=4",
        "-x PLE_MPI_STD_EMPTYFILE=off",
    ):
        assert words in pjsub
    # 72 GiB of files on every node at a cache rate of 100 %, and 10 % more.
    assert "localtmp-size=81101Mi" in pjsub
    assert "spack load darshan-runtime" in text
    assert "exec /PYTHON/python /PROJECT/workflow/scripts/launch.py --log" in text
    assert "--tasks 3072 --staging" in text
    assert "-- run_benchmark results/paper/runs/" in text
