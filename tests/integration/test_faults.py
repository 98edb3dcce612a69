"""Policies and databases when storage fails: said clearly, nothing lost, no hang.

From the command a user types, with real MPI: an LFS that is really full (a small
tmpfs), copies that fail, a database that was damaged.
"""

import re
from functools import partial

import pytest
from hanging import hanging_mount
from integration.launches import edit, inject, messages_of
from integration.test_policies import (
    EPOCHS,
    N_FILES,
    SIZE,
    assert_every_file_is_read_once,
    files_of_nodes,
    lfs_reads,
    make_project,
    read_run,
)
from tierscope.core.tables import read_table
from tierscope.data.lmdb.file import read_provenance


@pytest.fixture
def small_lfs(tmp_path, mount_memory):
    """Return a function that mounts the LFS of a project."""
    return partial(mount_memory, tmp_path / "project" / "scratch" / "lfs")


@pytest.mark.parametrize(
    ("policy", "hand_over"),
    [("monarch", True), ("monarch", False), ("lru", True), ("clairvoyant", True)],
)
def test_full_lfs_ends_placement_and_loses_nothing(
    tmp_path, small_lfs, policy, hand_over
):
    options = {"copy_threads": 2, "hand_over": hand_over}
    project = make_project(tmp_path / "project", [policy], policies=options)
    lfs = small_lfs()
    output = project.snakemake("audits")
    assert "No space left on device; reads go on from the GFS" in output
    assert "copies failed; their files were read from the GFS" in output
    assert_every_file_is_read_once(project, policy)
    decisions = read_run(project, policy, "decisions")
    failed = decisions[decisions["event"] == "failed"]
    assert set(failed["detail"]) == {"full"}
    placed = decisions[decisions["event"] == "placed"]
    assert 0 < len(placed) - (decisions["event"] == "evict").sum() < 10
    if policy == "monarch":
        held = [set(placed.loc[placed["node"] == n, "file_id"]) for n in (0, 1)]
        hits = [
            sum(len(a & b) for a, b in zip(held, files_of_nodes(epoch), strict=True))
            for epoch in range(1, EPOCHS)
        ]
        assert lfs_reads(project, policy) == [0, *hits]
    assert list(lfs.iterdir()) == []


def test_copy_that_fails_leaves_its_file_on_the_gfs_and_the_others_are_placed(tmp_path):
    project = make_project(tmp_path / "project", ["monarch"])
    first, _ = files_of_nodes(0)
    lost = sorted(first)[0]
    fault = f"""
_rename = os.rename

def _faulty_rename(old, new):
    if new.endswith("/{lost:07d}.tfrecord"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    _rename(old, new)

os.rename = _faulty_rename
"""
    inject(project, "benchmark.placement.copies", fault)
    output = project.snakemake("audits")
    assert (
        f"node 0: copying {lost:07d}.tfrecord to the LFS failed: Input/output error; "
        "reads go on from the GFS" in output
    )
    assert "  1 copies failed; their files were read from the GFS" in output
    assert_every_file_is_read_once(project, "monarch")
    table = read_table(project.path("tables", "background.parquet"), "background")
    # Its room is that of a file which the node reads in a later epoch.
    assert table.groupby("node")["placed_files"].sum().tolist() == [16, 16]
    assert table.groupby("node")["failed_files"].sum().tolist() == [1, 0]
    records = read_run(project, "monarch", "file_records")
    of_first = records[(records["file_id"] == lost) & (records["rank"] < 2)]
    assert set(of_first["tier"]) == {"gfs"}


def sweep_of(*policies):
    """Return a sweep of policies over everything held on the LFS."""
    return {
        "datasets": ["tiny"],
        "n_osts": [0],
        "policies": list(policies),
        "loaders": ["posix"],
        "cache_rates_percent": [100],
    }


# Room for all bytes and for few files: what no look at the room finds.
FEW_FILES = "size=10m,nr_inodes=24"


def test_stage_in_into_a_full_lfs_ends_the_job_with_node_and_file(plain, small_lfs):
    lfs = small_lfs(FEW_FILES)
    launch = plain.launch("tiny-0ost-adhoc-posix", "cache-100/rep-0")
    output = launch.end()
    assert launch.process.returncode != 0
    assert "from the GFS: No space left on device." in output
    assert ": cannot stage 00000" in output
    assert "Traceback (most recent call last)" not in output
    assert list(lfs.iterdir()) == []


def test_lfs_that_fills_up_ends_the_launch_at_once_and_is_emptied(tmp_path, small_lfs):
    # All ranks fail at once: some may write while others empty the LFS.
    project = make_project(tmp_path / "project", ["pinning"], sweep=sweep_of("pinning"))
    files = {"n_files": 1200, "file_size_bytes": 4096, "batch_size": 4}
    project.change("config/tiny.yaml", {"datasets": {"tiny": files}})
    project.snakemake("--until", "generate_dataset")
    lfs = small_lfs("size=10m,nr_inodes=400")
    output = project.snakemake("audits", expect=1)
    for _ in range(3):
        assert "cannot write 4096 bytes: No space left on device." in output
        assert "Traceback (most recent call last)" not in output
        assert list(lfs.iterdir()) == []
        output = project.launch("tiny-0ost-pinning-posix", "cache-100/rep-0").end()


@pytest.mark.parametrize("policy", ["pinning", "adhoc"])
def test_lfs_without_room_is_refused_before_the_first_point(plain, small_lfs, policy):
    lfs = small_lfs()
    output = plain.launch(f"tiny-0ost-{policy}-posix", "cache-100/rep-0").end()
    n_copies = 2 if policy == "pinning" else 1  # of the nodes, which share it
    needed = f"{lfs}: needs {n_copies * N_FILES * SIZE} bytes for the files of 2 nodes"
    assert needed in output
    assert "but only 28672 are free." in output
    assert "point 1 of" not in output
    assert list(lfs.iterdir()) == []


def test_emulated_lfs_without_room_is_refused_too(emulated, small_lfs):
    lfs = small_lfs()
    output = emulated.launch(
        "tiny-60ost-pinning-posix", "cache-050/rep-0", "cache-100/rep-0"
    ).end()
    (line,) = messages_of(output)
    assert "bytes for the files of 2 nodes on" in line
    assert "point 1 of" not in output
    assert list(lfs.iterdir()) == []


def test_database_that_does_not_fit_into_the_lfs_is_refused(plain, small_lfs):
    lfs = small_lfs()
    output = plain.launch("tiny-0ost-pinning-lmdb", "cache-100/rep-0").end()
    assert f"{lfs}: needs " in output
    assert " are free." in output
    assert list(lfs.iterdir()) == []


# ---- a database that was damaged ---------------------------------------------------


LOADERS = ["lmdb", "lmdbio-lmm-dm", "lmdbio"]


def data_of(project):
    """Return the path of the project's database."""
    (path,) = (project.folder / "scratch").rglob("data.mdb")
    return path


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 2
    path.write_bytes(content)


def messages(project, loader, n_osts=0):
    """Return what the processes of a launch with a loader say, which has to fail."""
    launch = project.launch(f"tiny-{n_osts}ost-pinning-{loader}", "cache-050/rep-0")
    output = launch.fail()
    assert "Traceback" not in output
    assert not list(launch.staging.rglob("run.json"))
    found = [line for line in output.splitlines() if "tierscope: " in line]
    assert found, output
    return found


def damage_copies(project, offset):
    """Let every copy on an LFS have one flipped byte."""
    fault = f"""
_check_copy = Database.check_copy

def _damage_and_check(self, folder, n_first):
    with open(folder / DATA_FILE, "r+b") as file:
        file.seek({offset})
        byte = file.read(1)[0] ^ 2
        file.seek({offset})
        file.write(bytes([byte]))
    _check_copy(self, folder, n_first)

Database.check_copy = _damage_and_check
"""
    inject(project, "benchmark.sources.database", fault)


def offset_of(project, record):
    """Return a place within a record's value."""
    return int(read_provenance(data_of(project).parent).layout.offsets[record]) + 99


@pytest.mark.parametrize(("tier", "record"), [("gfs", 21), ("lfs", 3)])
def test_flipped_byte_of_a_record_is_found_by_every_loader(plain, tier, record):
    if tier == "gfs":
        flip(data_of(plain), offset_of(plain, record))
    else:
        damage_copies(plain, offset_of(plain, record))
    for loader in LOADERS:
        for line in messages(plain, loader):  # of each process that met it
            assert "failed in epoch 1 of 2 at cache rate 50 %" in line
            assert f"/{tier}/data.ep0/" in line, loader
            assert f"data.mdb: record {record} is damaged: got checksum" in line


@pytest.mark.parametrize("loader", ["lmdb", "lmdbio"])
def test_flipped_byte_is_found_in_virtual_time(emulated, loader):
    flip(data_of(emulated), offset_of(emulated, 21))
    for line in messages(emulated, loader, n_osts=60):
        assert "data.mdb: record 21 is damaged: got checksum" in line
        assert "failed in epoch 1 of 2 at cache rate 50 %" in line


@pytest.mark.parametrize("loader", ["lmdb", "lmdbio"])
def test_file_that_was_cut_short_is_found(plain, loader):
    path, offset = data_of(plain), offset_of(plain, 21)
    path.write_bytes(path.read_bytes()[:offset])
    for line in messages(plain, loader):
        assert "data.mdb: is cut short, record 21 is not whole" in line


@pytest.mark.parametrize("tier", ["gfs", "lfs"])
def test_damaged_page_of_the_tree_is_found_before_anybody_reads(plain, tier):
    path = data_of(plain)
    page = int(read_provenance(path.parent).layout.tree_pages[0])
    offset = page * 4096 + 12  # says how many nodes it has
    if tier == "gfs":
        flip(path, offset)
    else:
        damage_copies(plain, offset)
    lines = messages(plain, "lmdbio")
    n_checks = 1 if tier == "gfs" else 2  # nodes; the first to fail ends the others
    assert 1 <= len(lines) <= n_checks
    for line in lines:
        assert f"/{tier}/data/" in line
        assert f"data.mdb: page {page} of its tree is damaged, at record 0" in line


def test_damaged_provenance_is_found_before_anybody_reads(plain):
    path = data_of(plain).with_name("provenance.json")
    path.write_text(path.read_text().replace("4080", "4O80"))
    (line,) = messages(plain, "lmdbio")
    assert "provenance.json: cannot read it: " in line


def test_gfs_that_never_answers_ends_the_launch_with_the_path_and_the_next_goes_on(
    plain,
):
    patience = "SAY_S = 60.0", "SAY_S = 3.0", "GIVE_UP_S = 600.0", "GIVE_UP_S = 6.0"
    edit(plain, "core/processes/calls.py", *patience[:2])
    edit(plain, "core/processes/calls.py", *patience[2:])
    (file,) = (plain.folder / "scratch").rglob("0000017.tfrecord")
    with hanging_mount(plain.folder / "hanging") as mount:
        content = file.rename(plain.folder / "kept")
        file.symlink_to(mount / "file")
        output = plain.launch("tiny-0ost-pinning-posix", "cache-000/rep-0").fail()
    (line,) = messages_of(output)
    assert "0000017.tfrecord: has not answered for" in line
    assert "s; this gives up. Start again when its file system answers" in line
    words = r"waiting for .*/0000017.tfrecord: has not answered for \d+ s; this"
    assert re.search(words, output)
    file.unlink()
    content.rename(file)
    plain.launch("tiny-0ost-pinning-posix", "cache-000/rep-0").finish()
