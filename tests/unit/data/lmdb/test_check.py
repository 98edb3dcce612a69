"""What is found of a damaged database before anybody reads it."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from descriptions import describe_scenario

pytest.importorskip("lmdb")

from tierscope.benchmark.sources.database import Database
from tierscope.core.machine import TierError
from tierscope.data.lmdb.check import check_tree
from tierscope.data.lmdb.file import (
    DATA_FILE,
    generate_database,
    provenance_here,
)
from tierscope.data.lmdb.pages import find_records
from tierscope.data.tfrecord import DatasetError

N_RECORDS, SIZE = 32, 4096


class Waited(Exception):
    """A process has come to where it waits for the others."""


class Rank:
    """Stands for one of the processes of a launch."""

    def __init__(self, rank):
        self.rank = rank

    def barrier(self):
        raise Waited


@pytest.fixture
def database(tmp_path):
    """Return a whole database, its folder on the GFS, as `folder` besides."""
    tier = {"name": "gfs", "kind": "directory", "root": str(tmp_path / "gfs")}
    dataset = {"n_files": N_RECORDS, "file_size_bytes": SIZE, "batch_size": 4}
    lmdb = {
        "order": "blocks",
        "records_per_commit": 16,
        "coalesced_bytes": 4 << 20,
        "stagger_size": 1,
        "fault_bytes": 131072,
        "optimisations": [],
        "block_records": 8,
        "steps_per_fetch": 1,
    }
    one = Database(
        describe_scenario(
            dataset=dataset, scenario={"n_osts": 0}, system={"gfs": tier}, lmdb=lmdb
        )
    )
    one.gfs_folder.mkdir(parents=True)
    generate_database(one.gfs_folder, provenance_here(N_RECORDS, SIZE, 16))
    return one


def damage(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def flip(path: Path, offset: int, bits: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= bits
    path.write_bytes(content)


def test_whole_database_is_accepted(database):
    with pytest.raises(Waited):
        database.check(Rank(0))
    database.check_copy(database.gfs_folder, N_RECORDS)


def test_first_process_alone_looks(database):
    (database.gfs_folder / "provenance.json").unlink()
    with pytest.raises(Waited):
        database.check(Rank(1))


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        (b"4096", b"4o96", DatasetError, "provenance.json: cannot read it: "),
        (b"4096", b"8192", DatasetError, "data.mdb: got pages of 4096 bytes, expe"),
        (b"4096", b"2048", DatasetError, "data.mdb: got pages of 4096 bytes, expe"),
        (b"4096", b"0", DatasetError, "page_bytes: got 0, expected an integer of"),
        (b"4080", b'"4080"', DatasetError, "value_bytes: got '4080', expected an int"),
        (b'"n_records": 32', b'"n_records": 31', TierError, "was written as .*=31"),
        (b"n_records", b"n_recordz", DatasetError, "provenance.json: cannot read it: "),
    ],
)
def test_damaged_provenance_is_refused(database, old, new, error, words):
    damage(database.gfs_folder / "provenance.json", old, new)
    with pytest.raises(error, match=words):
        database.check(Rank(0))


def test_damaged_checksums_are_refused(database):
    path = database.gfs_folder / "records.npy"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"records\.npy: cannot read it: "):
        database.check(Rank(0))
    np.save(path, np.zeros(N_RECORDS - 1, np.uint32))
    with pytest.raises(DatasetError, match=r"got uint32 of shape \(31,\), expected "):
        database.check(Rank(0))
    np.save(path, np.zeros(N_RECORDS))
    with pytest.raises(DatasetError, match=r"got float64 of .*, expected uint32 of "):
        database.check(Rank(0))


def test_damaged_metadata_and_tree_are_refused(database):
    path, provenance = database.gfs_folder / DATA_FILE, database.provenance
    whole = path.read_bytes()
    for page in (0, 1):
        flip(path, page * provenance.page_bytes + 16)
        with pytest.raises(DatasetError, match=r"data\.mdb: got magic 0xbeefc0df"):
            check_tree(path, provenance)
        path.write_bytes(whole)
    page = int(provenance.layout.tree_pages[0])
    flip(path, page * provenance.page_bytes + 12, bits=2)  # a node more
    with pytest.raises(DatasetError, match=rf"data\.mdb: page {page} of its tree is"):
        check_tree(path, provenance)


def test_file_cut_short_anywhere_is_refused(database):
    path, provenance = database.gfs_folder / DATA_FILE, database.provenance
    whole = path.read_bytes()
    for n_bytes in (0, 10, 4096, 9000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(DatasetError, match=r"is cut short, (record|its tree)"):
            check_tree(path, provenance)
    path.unlink()
    with pytest.raises(DatasetError, match="cannot open it: No such file"):
        check_tree(path, provenance)


def test_flipped_byte_of_the_tree_is_refused_or_changes_no_place(database):
    path, provenance = database.gfs_folder / DATA_FILE, database.provenance
    whole, refused = path.read_bytes(), set()
    (leaf,) = provenance.layout.tree_pages.tolist()
    with open(path, "r+b", 0) as file:
        for at in [*range(18), *range(78, 82), *range(4096 - 26, 4096)]:
            at += leaf * provenance.page_bytes
            os.pwrite(file.fileno(), bytes([whole[at] ^ 255]), at)
            try:
                check_tree(path, provenance)
            except DatasetError:  # and no other error
                refused.add(at - leaf * provenance.page_bytes)
            os.pwrite(file.fileno(), whole[at : at + 1], at)
    number, first_node, last_node = range(8), range(16, 18), range(78, 80)
    key_of_first = range(4096 - 18, 4096 - 8)
    assert refused >= {*number, *first_node, *last_node, *key_of_first}
    assert not refused & {8, 9, 80, 81}  # padding, free space
    check_tree(path, provenance)


@pytest.mark.parametrize("page_bytes", [1, 4095, 1 << 16])
def test_pages_of_no_size_of_lmdb_are_refused(database, page_bytes):
    path = database.gfs_folder / "provenance.json"
    damage(path, b"4096", b"%d" % page_bytes)
    with pytest.raises(DatasetError, match=f"page_bytes: got {page_bytes}, expected"):
        database.check(Rank(0))


def test_branch_that_leads_to_itself_is_refused_at_once(database):
    """Of a hundred children each, a walk by depth alone would never end."""
    path, provenance = database.gfs_folder / DATA_FILE, database.provenance
    content = bytearray(path.read_bytes())
    root = int(provenance.layout.tree_pages[-1])
    at = root * provenance.page_bytes
    child = struct.pack("<HHHH", root, 0, 0, 0)
    starts = [4096 - 8 * number for number in range(1, 101)]
    page = struct.pack("<QHHHH", root, 0, 1, 16 + 200, 4096 - 800)
    page += struct.pack("<100H", *starts)
    content[at : at + 4096] = page.ljust(4096 - 800, b"\0") + 100 * child
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=rf"data\.mdb: page {root} of its tree is"):
        find_records(lambda at, n: bytes(content[at : at + n]), str(path), 10)
    with pytest.raises(DatasetError, match=r"data\.mdb: page \d+ of its tree is"):
        check_tree(path, provenance)
