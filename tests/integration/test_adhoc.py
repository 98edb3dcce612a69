"""The ad hoc file system in a real run: two virtual nodes of two processes."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from integration.conftest import TINY_SYSTEM
from integration.launches import edit, messages_of
from integration.test_policies import EPOCHS, N_FILES, SIZE, make_project
from tierscope.core.description import Run
from tierscope.core.tables import read_table
from tierscope.policies import node_policy

RATES = [50, 100]
SCENARIO = "tiny-0ost-adhoc-posix"


def run_folder(project, rate):
    scenario = project.scenario.format("adhoc")
    return project.path("runs", scenario, f"cache-{rate:03d}", "rep-0")


def read_run(project, rate, name, table=None):
    return read_table(run_folder(project, rate) / f"{name}.parquet", table or name)


def sweep(policies, loader="posix", n_osts=0, rates=RATES):
    return {
        "datasets": ["tiny"],
        "n_osts": [n_osts],
        "policies": policies,
        "loaders": [loader],
        "cache_rates_percent": rates,
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project in which files were read from peers, and its breakdown."""
    folder = tmp_path_factory.mktemp("adhoc") / "project"
    project = make_project(folder, ["none", "adhoc"], sweep=sweep(["none", "adhoc"]))
    breakdown = "results/tiny/tables/breakdown.parquet"
    project.output = project.snakemake("audits", breakdown)
    return project


def decided(project, rate, node):
    """Return the policy of a node of a run, and the run."""
    run = Run.read(run_folder(project, rate) / "run.json")
    return node_policy(run, run.point, [], node=node), run


@pytest.mark.parametrize("rate", RATES)
def test_every_file_is_read_once_an_epoch_from_where_it_is(project, rate):
    records = read_run(project, rate, "file_records")
    for _, epoch in records.groupby("epoch"):
        assert sorted(epoch["file_id"]) == list(range(N_FILES))
    assert (records["bytes_read"] == SIZE).all()
    for node in (0, 1):
        policy, _ = decided(project, rate, node)
        of_node = records[records["rank"] // 2 == node]
        names = {"peer": "net"}
        wanted = [policy.begin_read(file_id).value for file_id in of_node["file_id"]]
        assert of_node["tier"].tolist() == [names.get(name, name) for name in wanted]
    tiers = set(records["tier"])
    assert tiers == ({"lfs", "net"} if rate == 100 else {"gfs", "lfs", "net"})


@pytest.mark.parametrize("rate", RATES)
def test_stage_in_reads_what_is_staged_from_the_gfs_once(project, rate):
    table = read_table(project.path("tables", "stage_in.parquet"), "stage_in")
    table = table[table["cache_rate_percent"] == rate].set_index("node")
    n_staged = N_FILES * rate // 100
    assert table["gfs_bytes"].sum() == table["lfs_bytes"].sum() == n_staged * SIZE
    assert table["gfs_opens"].sum() == n_staged
    for node in (0, 1):
        policy, _ = decided(project, rate, node)
        assert table.loc[node, "lfs_opens"] == len(policy.files_of(node))
    _, run = decided(project, rate, 0)
    assert (table["stage_in_time_s"] == run.stage_in_time_s).all()
    assert run.stage_in_time_s > 0


def test_audit_says_what_was_checked_and_how_much_was_local(project):
    audit = json.loads((run_folder(project, 100) / "audit.json").read_text())
    assert audit["passed"]
    checks = {check["name"]: check["got"] for check in audit["checks"]}
    assert checks["bytes read from the GFS in stage-in"] == str(N_FILES * SIZE)
    assert checks["staged files with exactly one owner"] == str(N_FILES)
    share = checks["reads of staged files from the reader's LFS or a peer"]
    assert "local (1/2: 50.00 %)" in share
    assert "a node owns" in project.output


def test_fifth_class_is_that_of_adhoc_only(project):
    io_time = read_table(project.path("tables", "io_time.parquet"), "io_time")
    classes = io_time.groupby("policy")["io_class"].unique().map(set)
    paper = {"gfs_read", "gfs_meta", "lfs_read", "lfs_meta"}
    assert classes["none"] == paper
    assert classes["adhoc"] == paper | {"net_read"}
    net = io_time[io_time["io_class"] == "net_read"]
    assert (net["bytes"] == SIZE * net["operations"]).all()
    peers = read_table(project.path("tables", "peers.parquet"), "peers")
    assert peers["net_read_time_s"].sum() == pytest.approx(net["time_s"].sum())
    assert peers["peer_files"].sum() == net["operations"].sum()
    lfs_s = peers["peer_lfs_read_time_s"] + peers["peer_lfs_meta_time_s"]
    assert (lfs_s > 0).any()
    assert (peers["network_time_s"] >= 0).all()
    breakdown = read_table(project.path("tables", "breakdown.parquet"), "breakdown")
    n_classes = breakdown.groupby(["policy", "cache_rate_percent", "epoch"]).size()
    assert set(n_classes["none"]) == {4}
    assert set(n_classes["adhoc"]) == {5}


def test_nothing_is_left_behind_and_a_second_start_does_nothing(project):
    assert not (project.folder / "scratch" / "lfs").exists()
    assert "Nothing to be done" in project.snakemake("audits")


def test_tensorflow_reads_from_peers_on_emulated_devices(tmp_path):
    policies = ["none", "adhoc"]
    project = make_project(
        tmp_path / "project",
        policies,
        loader="tensorflow",
        kind="emulated",
        sweep=sweep(policies, "tensorflow", 60, [100]),
    )
    project.change(TINY_SYSTEM, {"processes_per_node": 1})
    project.snakemake(*project.audits_of(project.scenario.format("adhoc"), 100))
    _, run = decided(project, 100, 0)
    gfs, *lfs = run.emulation["statistics"]
    assert gfs["n_opens"] == N_FILES
    assert sum(one["n_opens"] for one in lfs) == N_FILES * (1 + EPOCHS)


def test_server_that_dies_ends_the_job_with_node_and_file(plain):
    asked = "        epoch, file_id, rank = REQUEST.unpack(head)\n"
    fault = "        if epoch: raise ValueError(7)\n"
    edit(plain, "benchmark/peers/server.py", asked, asked + fault)
    output = plain.launch(SCENARIO, "cache-100/rep-0").fail()
    assert ".tfrecord, does not serve it: its server has ended or hangs" in output or (
        "for other nodes has ended: ValueError: 7" in output
    )


@pytest.fixture
def mount(tmp_path):
    """Return a directory on another file system than the tiers, as a stand-in."""
    folder = Path(tempfile.mkdtemp(prefix="tierscope-test-", dir="/dev/shm"))
    if folder.stat().st_dev == tmp_path.stat().st_dev:
        folder.rmdir()
        pytest.skip("needs two file systems")
    yield folder
    shutil.rmtree(folder)


def through(mount):
    """Return the options of a policy that reads through a mount."""
    return {"mount": str(mount), "server_threads": 1}


def test_mount_is_used_if_it_is_live(tmp_path, mount):
    policies = ["none", "adhoc"]
    project = make_project(
        tmp_path / "project",
        policies,
        sweep=sweep(policies),
        policies={"adhoc": through(mount)},
    )
    project.snakemake(*project.audits_of(SCENARIO, *RATES))
    for rate in RATES:
        records = read_run(project, rate, "file_records")
        assert (records["tier"] == "net").sum() == EPOCHS * N_FILES * rate // 100
        reads = read_run(project, rate, "peer_reads")
        assert (reads["owner"] == -1).all()
    assert list(mount.iterdir()) == []


HANG_IN_STAGE_IN = (  # of the last process
    "            write_all(descriptor, content)",
    "            if name == '0000030.tfrecord':\n"
    "                os.unlink(self.folder / name)\n"
    "                os.mkfifo(self.folder / name)\n"
    "                os.open(self.folder / name, os.O_WRONLY)\n",
)
HANG_IN_READ = (
    "            content, _, _ = read_timed(str(path)",
    "            if (epoch, file_id) == (1, 30):\n"
    "                os.unlink(path)\n"
    "                os.mkfifo(path)\n",
)


@pytest.mark.parametrize(
    ("before", "fault", "thread_level"),
    [
        (*HANG_IN_STAGE_IN, "multiple"),
        (*HANG_IN_READ, "multiple"),
        (*HANG_IN_STAGE_IN, "serialized"),
    ],
    ids=["stage-in", "read", "stage-in-serialized"],
)
def test_mount_that_hangs_ends_the_job_with_the_path(
    plain, mount, before, fault, thread_level
):
    plain.describe(SCENARIO, policy=through(mount))
    plain.environment = plain.environment | {"MPI4PY_RC_THREAD_LEVEL": thread_level}
    waits = "GIVE_UP_S = 600.0"
    edit(plain, "core/processes/calls.py", waits, "GIVE_UP_S = 6.0")
    edit(plain, "benchmark/peers/mount.py", before, fault + before)
    # The other ranks live long enough to see that the one that says why is gone.
    options = ["-disable-auto-cleanup"] if thread_level == "serialized" else []
    output = plain.launch(SCENARIO, "cache-100/rep-0", options=options).fail()
    (line,) = {one for one in messages_of(output) if "tierscope: rank" in one}
    assert f": {mount}/" in line
    assert "/0000030.tfrecord: has not answered for " in line
    assert len(list(mount.iterdir())) == 1
    edit(plain, "core/processes/calls.py", "GIVE_UP_S = 6.0", waits)
    edit(plain, "benchmark/peers/mount.py", fault + before, before)
    plain.launch(SCENARIO, "cache-100/rep-0").finish()
    assert list(mount.iterdir()) == []


def test_mount_that_is_not_there_is_refused(plain):
    plain.describe(SCENARIO, policy=through("/no/such"))
    output = plain.launch(SCENARIO, "cache-100/rep-0").fail()
    assert "policies.adhoc.mount: /no/such is not a live mount" in output
    assert "No such file or directory" in output
