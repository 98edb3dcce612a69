"""Reads over MPI windows: real MPI processes, then whole runs on plain directories."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from integration.conftest import ROOT
from integration.test_adhoc import RATES, read_run, run_folder, sweep
from integration.test_policies import EPOCHS, N_FILES, SIZE, make_project
from tierscope.policies import node_policy
from tierscope.tables import read_table

POLICIES = ["none", "adhoc"]
RMA = {"adhoc": {"mount": None, "server_threads": 1, "transport": "rma"}}
# All on one machine: as it is, windows are shared memory; without it MPI has to send.
NETWORKS = {
    "shared": {},
    "sent": {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"},
}


def read_over_windows(case, network, expect=0):
    """Return what each process of `windows_under_mpi.py` found."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    script = Path(__file__).with_name("windows_under_mpi.py")
    result = subprocess.run(
        [mpiexec, "-n", "4", sys.executable, script, case],
        env=os.environ
        | {"PYTHONPATH": str(ROOT / "workflow" / "scripts")}
        | NETWORKS[network],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == expect, result.stderr
    return json.loads(result.stdout.splitlines()[0])


@pytest.mark.parametrize("network", NETWORKS)
def test_bytes_are_those_of_the_files(network):
    for found in read_over_windows("bytes", network):
        assert found["error"] is None
        assert found["n_right"] == found["n_wanted"] > 0
        assert found["needs_thread"] == (network == "sent")


@pytest.mark.parametrize("network", NETWORKS)
def test_read_does_not_wait_for_an_owner_that_is_asleep(network):
    found = read_over_windows("asleep", network)[1]
    assert found["time_s"] < 0.5  # it sleeps for 0.9 s more


def test_window_that_does_not_answer_is_given_up_after_a_time():
    found = read_over_windows("timeout", "sent")[1]
    assert found["error"].startswith("PeerError: node 0, which has 0000")
    assert "no answer of its window within 0.3 s" in found["error"]


def test_read_ends_when_another_process_fails():
    (found,) = read_over_windows("failure", "sent", expect=3)
    assert found["error"] == "OtherRankFailed: 2"
    assert found["in_read"]


def test_window_that_holds_another_file_is_found():
    for found in read_over_windows("slots", "shared"):
        assert "from its window, expected" in found["error"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project in which files were read over windows."""
    folder = tmp_path_factory.mktemp("windows") / "project"
    project = make_project(folder, POLICIES, sweep=sweep(POLICIES), policies=RMA)
    peers = "results/tiny/tables/peers.parquet"
    project.output = project.snakemake("audits", peers)
    return project


@pytest.mark.parametrize("rate", RATES)
def test_every_file_is_read_once_an_epoch_from_where_it_is(project, rate):
    records = read_run(project, rate, "file_records")
    run = json.loads((run_folder(project, rate) / "run.json").read_text())
    assert run["policy"]["transport"] == "rma"
    assert run["stage_in_time_s"] > run["windows"]["expose_time_s"] > 0
    policies = [node_policy(run, run["point"], [], node=node) for node in (0, 1)]
    for _, epoch in records.groupby("epoch"):
        assert sorted(epoch["file_id"]) == list(range(N_FILES))
    assert (records["bytes_read"] == SIZE).all()
    for row in records.itertuples():
        place = policies[row.rank // 2].begin_read(row.file_id).value
        assert row.tier == {"peer": "net"}.get(place, place)
    reads = read_run(project, rate, "peer_reads")
    assert len(reads) == (records["tier"] == "net").sum() > 0
    assert (reads["owner"] == policies[0].owners[reads["file_id"]]).all()
    assert (reads["lfs_read_time_s"] + reads["lfs_meta_time_s"] == 0).all()
    assert reads.groupby("epoch").size().size == EPOCHS


def test_audit_says_that_windows_were_filled_once(project):
    audit = json.loads((run_folder(project, 100) / "audit.json").read_text())
    assert audit["passed"]
    checks = {check["name"]: check["got"] for check in audit["checks"]}
    assert checks["bytes read from the GFS in stage-in"] == str(N_FILES * SIZE)
    assert checks["bytes read into windows"] == str(N_FILES * SIZE)
    assert checks["records of reads into windows"] == str(N_FILES)
    assert "of it into windows" in project.output


def test_all_time_of_a_read_from_a_window_is_network(project):
    peers = read_table(project.path("tables", "peers.parquet"), "peers")
    assert peers["peer_files"].sum() > 0
    assert (peers["network_time_s"] == peers["net_read_time_s"]).all()


def test_tensorflow_reads_over_windows_in_its_threads(tmp_path):
    project = make_project(
        tmp_path / "project",
        POLICIES,
        loader="tensorflow",
        sweep=sweep(POLICIES, "tensorflow", rates=[100]),
        policies=RMA,
    )
    project.snakemake("audits")
    tiers = read_run(project, 100, "file_records")["tier"]
    assert set(tiers) == {"lfs", "net"}
    assert len(tiers) == EPOCHS * N_FILES


def test_owner_that_cannot_fill_its_window_ends_the_job(tmp_path):
    project = make_project(
        tmp_path / "project",
        POLICIES,
        sweep=sweep(POLICIES, rates=[100]),
        policies=RMA,
    )
    path = project.folder / "workflow/scripts/tierscope/peers/node.py"
    text = path.read_text()
    called = "            content, _, _ = read_timed(path, self._buffer_bytes)\n"
    assert text.count(called) == 1
    failing = "            if node: os.unlink(path)\n"
    path.write_text("import os\n" + text.replace(called, failing + called))
    start = time.monotonic()
    output = project.snakemake("audits", expect=1)
    assert time.monotonic() - start < 60
    assert ".tfrecord into its window: No such file or directory" in output
    assert "node 1: cannot read" in output
    assert not (project.folder / "scratch" / "lfs").exists()
