"""Logs of the processes of a user's program, made up."""

import pandas as pd
import pytest
from job_logs import write_job_log
from tierscope.core.columns import AFTER, AFTER_TRAINING
from tierscope.trace import log
from tierscope.trace.log import SHARED, LogError
from tierscope.trace.program_records import (
    HANDED_EPOCH,
    LoopEnds,
    read_program_records,
)

NAMES = ["a.bin", "sub/b.bin"]
ROOTS = {"gfs": ["/links/gfs", "/links 2/gfs"], "lfs": ["/links/lfs", "/links 2/lfs"]}
READ = {"opens": 1, "reads": 2, "bytes_read": 10, "read_s": 0.5, "meta_s": 0.25}
WRITE = {"opens": 1, "writes": 1, "bytes_written": 7, "write_s": 0.5}


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a log a rank and reads them all."""

    def write_and_read(*logs, written=(), **facts):
        for number, (rank, rows) in enumerate(logs):
            rows = [(interface, 0, path, one) for interface, path, one in rows]
            path, metadata = tmp_path / f"{number}.darshan", {"rank": str(rank)}
            write_job_log(path, rows, metadata=metadata, **facts)
        return read_program_records(tmp_path, ROOTS, "/data", NAMES, written)

    return write_and_read


def other_io(found, what):
    """Return a row of what is in no class."""
    return found.other_io.set_index("what").loc[what]


def test_reads_are_attributed_to_rank_epoch_tier_and_file(read):
    found = read(
        (0, [("POSIX", "/links/gfs.ep0/a.bin", READ)]),
        (3, [("POSIX", "/links 2/lfs.ep12/sub/b.bin", READ)]),
    )
    columns = ["rank", "epoch", "tier", "file_id", "opens", "reads", "bytes_read"]
    assert found.file_records[columns].to_numpy().tolist() == [
        [0, 0, "gfs", 0, 1, 2, 10],
        [3, 12, "lfs", 1, 1, 2, 10],
    ]
    assert found.file_records["read_time_s"].tolist() == [0.5, 0.5]
    assert found.originals == {}


def test_workers_and_interfaces_of_a_rank_are_added_up(read):
    path = "/links/gfs.ep0/a.bin"
    found = read(
        (1, [("POSIX", path, READ), ("STDIO", path, READ)]),
        (1, [("POSIX", path, READ)]),
    )
    (row,) = found.file_records.to_dict("records")
    assert (row["rank"], row["opens"], row["bytes_read"]) == (1, 3, 30)
    assert row["meta_time_s"] == 0.75


def test_files_that_are_written_are_in_no_class(read):
    rows = [
        ("POSIX", "/links/lfs.ep0/a.bin", READ),
        ("POSIX", "/data/a.bin", WRITE),
        ("POSIX", "/links/gfs.ep0/sub/b.bin", READ),
    ]
    found = read((0, rows), written=["a.bin"])
    assert found.file_records["file_id"].tolist() == [1]
    written = other_io(found, "written")
    assert written[["opens", "bytes_read", "bytes_written"]].tolist() == [2, 10, 7]
    assert found.originals == {}


def test_write_that_only_the_log_knows_counts_too(read):
    found = read((0, [("POSIX", "/data/a.bin", WRITE)]))
    assert other_io(found, "written")["bytes_written"] == 7
    assert found.originals == {}


def test_sums_of_calls_on_files_of_no_tier_are_apart(tmp_path):
    rows = [
        ("POSIX", 0, "/data/new.bin", WRITE),
        ("POSIX", 0, "1/loop/write/ext4:/", WRITE),
    ]
    write_job_log(tmp_path / "0.darshan", rows, metadata={"tracer": "a", "rank": "0"})
    found = read_program_records(tmp_path, ROOTS, "/data", NAMES)
    assert found.other_io[["what", "bytes_written"]].to_numpy().tolist() == [
        ["other below the dataset", 7]
    ]
    assert [(one.call, one.bytes) for one in found.sums[0].sums] == [("write", 7)]


def test_files_beside_the_dataset_are_in_no_class(read):
    rows = [
        ("POSIX", "/data/model.pt", WRITE),
        ("POSIX", "/links/gfs.ep0", {"opens": 1}),
        ("POSIX", "/database/a.bin", READ),
        ("POSIX", "/links/other.ep0/a.bin", READ),
    ]
    found = read((0, rows))
    assert len(found.file_records) == 0
    assert other_io(found, "other below the dataset")["opens"] == 2
    assert other_io(found, "other")["bytes_read"] == 20


def test_reads_by_real_names_are_counted_by_file(read):
    rows = [("POSIX", "/data/sub/b.bin", READ), ("POSIX", "/data/a.bin", {"opens": 0})]
    assert read((0, rows), (1, rows)).originals == {"sub/b.bin": 2}


def test_duplicates_of_a_descriptor_are_no_opens(read):
    """Neither of a file on a tier, nor of one that was open at the start."""
    path = "/links/gfs.ep0/a.bin"
    twice, stream = (READ | {"opens": 3, "DUPS": 2}, READ | {"opens": 2, "FDOPENS": 2})
    handed = {"opens": 1, "DUPS": 1, "reads": 1, "bytes_read": 5}
    rows = [("POSIX", path, twice), ("STDIO", path, stream)]
    rows += [("POSIX", "/data/sub/b.bin", handed)]
    rows += [("POSIX", "/links/lfs.handed/a.bin", handed)]
    found = read((0, rows))
    assert found.file_records["opens"].tolist() == [1]
    assert (found.originals, found.handed_bytes) == ({}, 10)


MAPPED = {"opens": 1, "MMAPS": 2}


@pytest.mark.parametrize(
    ("path", "epochs"),
    [
        ("/links/gfs.ep0/a.bin", {0, 2}),
        ("/links/lfs.handed/a.bin", {HANDED_EPOCH, 2}),
        ("/links/gfs.bg.ep3/a.bin", {2}),
        ("/data/sub/b.bin", {2}),  # it is written
        ("/data/new.bin", {2}),
        ("/lib/libc.so.6", {2}),
    ],
)
def test_mappings_are_of_the_epoch_of_the_name(read, path, epochs):
    rows = [("POSIX", path, MAPPED), ("STDIO", "/links/gfs.ep1/a.bin", READ)]
    other = ("POSIX", "/links/lfs.ep2/a.bin", MAPPED)
    found = read((0, rows), (1, [other]), written=["sub/b.bin"])
    assert found.mapped_epochs == epochs


def test_records_of_a_version_without_mappings_have_none(read, tmp_path, monkeypatch):
    monkeypatch.delitem(log._FURTHER, log.MAPPINGS)
    monkeypatch.setattr(log, "_selection", log._selection.__wrapped__)
    found = read((0, [("POSIX", "/links/gfs.ep0/a.bin", MAPPED)]))
    assert found.mapped_epochs == set()
    assert log.read_any_log(tmp_path / "0.darshan").n_mappings == 0


def test_reads_of_files_that_were_open_at_the_start_are_in_no_class(read):
    rows = [
        ("POSIX", "/links/lfs.handed/a.bin", READ | {"opens": 0}),
        ("POSIX", "/data/sub/b.bin", READ | {"opens": 0}),
        ("POSIX", "/links/lfs.ep1/a.bin", READ | {"opens": 0}),  # a child of fork
    ]
    found = read((0, rows))
    assert (found.handed_bytes, found.originals) == (20, {})
    assert found.file_records["epoch"].tolist() == [1]
    assert other_io(found, "other below the dataset")["bytes_read"] == 20


def test_unknown_name_on_a_tier_is_refused(read):
    with pytest.raises(LogError, match=r"gfs.ep0/new.bin' is not in the dataset's man"):
        read((0, [("POSIX", "/links/gfs.ep0/new.bin", READ)]))


def test_records_that_processes_share_are_refused(tmp_path):
    rows = [("POSIX", SHARED, "/links/gfs.ep0/a.bin", READ)]
    metadata = {"rank": "0"}
    write_job_log(tmp_path / "shared.darshan", rows, n_processes=2, metadata=metadata)
    with pytest.raises(LogError, match="has records that several processes share"):
        read_program_records(tmp_path, ROOTS, "/data", NAMES)


def test_lost_records_are_refused(read):
    with pytest.raises(LogError, match="has lost records of POSIX"):
        read((0, [("POSIX", "/links/gfs.ep0/a.bin", READ)]), partial=["POSIX"])


def test_run_without_logs_has_empty_tables(tmp_path):
    found = read_program_records(tmp_path, ROOTS, "/data", NAMES)
    assert isinstance(found.file_records, pd.DataFrame)
    assert (len(found.file_records), len(found.other_io)) == (0, 0)


def test_log_of_a_site_counts_with_the_rank_of_its_process(tmp_path):
    rows = [("POSIX", 0, "/links/gfs.ep0/a.bin", READ)]
    write_job_log(tmp_path / "me_train_id7-41_1-2-3.darshan", rows)
    found = read_program_records(
        tmp_path, ROOTS, "/data", NAMES, rank_of_pid={41: 5, 42: 6}
    )
    assert found.file_records["rank"].tolist() == [5]
    with pytest.raises(LogError, match="is of no process that is known to have run on"):
        read_program_records(tmp_path, ROOTS, "/data", NAMES, rank_of_pid={42: 6})


def test_numbers_in_place_of_epochs_are_those_of_the_node_of_their_rank(tmp_path):
    paths = f"/links/gfs.ep{AFTER}/a.bin", f"/links/lfs.ep{AFTER + 1}/a.bin"
    for rank in (0, 3):
        rows = [("POSIX", 0, path, READ) for path in paths]
        path, metadata = tmp_path / f"{rank}.darshan", {"rank": str(rank)}
        write_job_log(path, rows, metadata=metadata)
    loop_ends = LoopEnds({0: [1, AFTER_TRAINING], 1: [7]}, {0: 0, 3: 1})
    found = read_program_records(tmp_path, ROOTS, "/data", NAMES, loop_ends=loop_ends)
    columns = ["rank", "epoch", "tier", "opens"]
    assert sorted(found.file_records[columns].to_numpy().tolist()) == [
        [0, AFTER_TRAINING, "lfs", 1],
        [0, 1, "gfs", 1],
        [3, AFTER_TRAINING, "lfs", 1],  # whose end was lost
        [3, 7, "gfs", 1],
    ]
    assert set(found.readers) == {
        *[(0, 1), (0, AFTER_TRAINING), (3, AFTER_TRAINING), (3, 7)]
    }
