"""Programs by others, launched as a sweep does: what the audit and statements say."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from integration.programs import Programs
from programs.client_table import CLIENTS, POLICIES, row_of, write_page
from tierscope.audit.program import YES


@pytest.fixture(scope="session")
def samples(tmp_path_factory, python):
    """Return a folder with a folder for each kind of files."""
    folder = tmp_path_factory.mktemp("samples")
    maker = Path(__file__).with_name("clients") / "make_samples.py"
    subprocess.run([python, maker, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def rows():
    """Return a dictionary for the rows of the table; write it if asked to."""
    found = {}
    yield found
    if os.environ.get("TIERSCOPE_WRITE_CLIENTS"):
        write_page(found)


def check_sums(run):
    """Check that a program which adds up its samples gets the same from all tiers."""
    sums = re.findall(r"^epoch \d: (\S+)$", run.programs.log.read_text(), re.M)
    if "formats_client" in run.programs.last[1]:
        assert len(sums) == 3
        assert [float(one) for one in sums] == pytest.approx([float(sums[0])] * 3)


def check_law(run, row):
    """Check that each epoch after the first has the copies, where statements say so."""
    answers = [run.said()["in time"][0], row.answers["cover"], row.answers["once"]]
    if answers == [YES] * 3:
        n_copies = (run.evidence.decisions["event"] == "placed").sum()
        assert row.n_lfs == [0, *[n_copies] * (len(row.n_lfs) - 1)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.title)
def test_client(client, policy, samples, has_dlio, rows, tmp_path):
    if client.title.startswith("DLIO") and not has_dlio:
        pytest.skip("needs pydftracer 1.0.2, which PyPI has for x86-64")
    if not client.is_possible:
        pytest.skip(f"needs {client.needs}")
    shutil.copytree(samples / client.samples, tmp_path / "my data")
    run = Programs(tmp_path, policy=policy).run(list(client.command), minutes=20)
    assert run.failed == []
    row = row_of(run)
    assert row.tier == YES
    assert row.answers | dict(client.known) == row.answers
    opens = run.evidence.opens
    least, most = client.opens
    assert least <= opens.loc[opens["epoch"] == 0, "opens"].sum() <= most
    check_sums(run)
    if policy == "monarch":
        check_law(run, row)
    rows[client.title, policy] = row
