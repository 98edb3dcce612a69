"""Every policy in a real run: MPI, tracer, placement servers, plain directories."""

import json

import pytest
from integration.conftest import Project
from integration.launches import inject
from tierscope.core.tables import read_table
from tierscope.data.shuffle import epoch_files
from tierscope.policies import PLACED, of_kind

POLICIES = ["none", "stratified-pinning", *of_kind(PLACED)]
N_FILES, SIZE, EPOCHS = 32, 4096, 3


def make_project(folder, swept, loader="posix", kind="directory", **config):
    """Return a project that runs policies at cache rate 50 % on two nodes of two."""
    folder.mkdir()
    project = Project(folder)
    tier = {"kind": kind}
    project.change(
        "resources/systems/tiny.yaml",
        {
            "gfs": {"root": "scratch/gfs", **tier},
            "lfs": {"root": "scratch/lfs", **tier},
        },
    )
    n_osts = 0 if kind == "directory" else 60
    scenario = {
        "dataset": "tiny",
        "n_osts": n_osts,
        "policy": swept[0],
        "loader": loader,
    }
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [n_osts],
                "policies": swept,
                "loaders": [loader],
                "cache_rates_percent": [50],
            },
            "training": {"epochs": EPOCHS},
            "figures": {"scenario": scenario},
            **config,
        },
    )
    project.scenario = f"tiny-{n_osts}ost-{{}}-{loader}"
    return project


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a project in which all policies have been run."""
    project = make_project(tmp_path_factory.mktemp("all") / "project", POLICIES)
    project.output = project.snakemake("audits")
    return project


def run_folder(project, policy):
    rate = "000" if policy == "none" else "050"
    return project.path(
        "runs", project.scenario.format(policy), f"cache-{rate}", "rep-0"
    )


def read_run(project, policy, name):
    return read_table(run_folder(project, policy) / f"{name}.parquet", name)


def assert_every_file_is_read_once(project, policy):
    """Assert exact counts of a run, and return its audit."""
    records = read_run(project, policy, "file_records")
    assert (records["opens"] == 1).all()
    assert (records["bytes_read"] == SIZE).all()
    epochs = {
        epoch: sorted(part["file_id"]) for epoch, part in records.groupby("epoch")
    }
    assert epochs == {epoch: list(range(N_FILES)) for epoch in range(EPOCHS)}
    audit = json.loads((run_folder(project, policy) / "audit.json").read_text())
    assert audit["passed"]
    return audit


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_reads_every_file_once_and_passes_its_audit(swept, policy):
    audit = assert_every_file_is_read_once(swept, policy)
    names = [check["name"] for check in audit["checks"]]
    assert "records on the tier that the policy chose" in names
    assert ("decisions that the policy would not have made" in names) == (
        policy in of_kind(PLACED)
    )
    assert not (swept.folder / "scratch" / "lfs").exists()


def lfs_reads(project, policy):
    """Return the LFS reads of each epoch, all processes."""
    records = read_run(project, policy, "file_records")
    is_lfs = records["tier"] == "lfs"
    return is_lfs.groupby(records["epoch"]).sum().tolist()


def files_of_nodes(epoch):
    """Return the set of files that each node's two processes read in an epoch."""
    seeds = {"shuffle": "global", "seed": 1, "repetition": 0, "epoch": epoch}
    ranks = [set(epoch_files(N_FILES, rank, 4, **seeds).tolist()) for rank in range(4)]
    return [ranks[0] | ranks[1], ranks[2] | ranks[3]]


def test_hits_are_those_of_the_policies(swept):
    assert lfs_reads(swept, "none") == [0, 0, 0]
    assert lfs_reads(swept, "stratified-pinning") == [16, 16, 16]
    # In the first epoch each node reads as many files as its quota.
    first, *later = (files_of_nodes(epoch) for epoch in range(EPOCHS))
    hits = [sum(len(a & b) for a, b in zip(first, e, strict=True)) for e in later]
    assert lfs_reads(swept, "monarch") == [0, *hits]
    assert lfs_reads(swept, "lru")[0] == 0


def test_stratified_pinning_gives_each_process_as_many_hits(swept):
    records = read_run(swept, "stratified-pinning", "file_records")
    hits = records[records["tier"] == "lfs"].groupby(["epoch", "rank"]).size()
    assert hits.tolist() == [4] * EPOCHS * 4


def test_background_is_counted_apart_by_node_and_epoch(swept):
    table = read_table(swept.path("tables", "background.parquet"), "background")
    assert set(table["policy"]) == set(of_kind(PLACED))
    assert (table.groupby("policy").size() == 2 * EPOCHS).all()
    monarch = table[table["policy"] == "monarch"]
    assert monarch.groupby("node")["placed_files"].sum().tolist() == [16, 16]
    assert (monarch["placed_files"] == monarch["handed_over_files"]).all()
    assert (monarch["gfs_opens"] == 0).all()
    assert (monarch["lfs_bytes"] == SIZE * monarch["placed_files"]).all()
    assert (monarch["lfs_write_time_s"] > 0)[monarch["placed_files"] > 0].all()
    clairvoyant = table[table["policy"] == "clairvoyant"]
    again = clairvoyant["placed_files"] - clairvoyant["handed_over_files"]
    assert (clairvoyant["gfs_bytes"] == SIZE * again).all()
    assert (table["failed_files"] == 0).all()


def test_second_start_does_nothing(swept):
    assert "Nothing to be done" in swept.snakemake("audits")


def test_copies_that_find_no_folder_are_counted_and_the_run_goes_on(tmp_path):
    project = make_project(tmp_path / "project", ["monarch"])
    inject(project, "benchmark.placement.copies", 'COPYING_PREFIX = "no/such/"')
    output = project.snakemake("audits")
    assert "No such file or directory; reads go on from the GFS" in output
    # Each node tries each file once; the room of a copy that failed is free again.
    epochs = map(files_of_nodes, range(EPOCHS))
    tried = [set().union(*of_node) for of_node in zip(*epochs, strict=True)]
    n_failed = sum(map(len, tried))
    assert f"  {n_failed} copies failed; their files were read from the GFS" in output
    assert_every_file_is_read_once(project, "monarch")
    assert lfs_reads(project, "monarch") == [0, 0, 0]
    table = read_table(project.path("tables", "background.parquet"), "background")
    assert table["failed_files"].sum() == n_failed
    assert table["placed_files"].sum() == 0


def test_placement_server_that_dies_ends_the_job_with_its_reason(plain):
    fault = "def placed(self, file_id): raise ValueError(7)\nMonarch.placed = placed\n"
    inject(plain, "policies.monarch", fault)
    output = plain.launch("tiny-0ost-monarch-posix", "cache-050/rep-0").fail()
    assert "the placement server of node" in output
    assert "has ended: ValueError: 7" in output
