"""Reading Darshan logs: genuine ones, ours, and damaged ones."""

import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tierscope.core.columns import TABLES
from tierscope.trace.darshan.container import open_container
from tierscope.trace.file_records import read_background_records, read_file_records
from tierscope.trace.log import LogError, read_posix
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import COUNTERS, POSIX_RECORD, TIMERS

LOGS = Path(__file__).parents[2] / "data" / "darshan-logs"
TIERS = {"gfs": "/srv/gfs", "lfs": "/dev/shm/lfs"}
SMALL_BYTES, LARGE_BYTES = 131072, 12582912


def expected_files(log, n_files):
    """Return the (epoch, rank, tier, file_id) that the truth file of a log lists."""
    truth = json.loads((LOGS / f"{log}.truth.json").read_text())
    return sorted(
        (part["epoch"], part["rank"], "lfs" if i < n_files / 2 else "gfs", i)
        for part in truth
        for i in part["names"]
    )


def keys(table):
    """Return the keys of the rows in their order."""
    columns = [table[key] for key in ("epoch", "rank", "tier", "file_id")]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def synthetic(paths, ranks=None, **columns):
    """Return records and names of one open, two reads and 100 bytes per path."""
    records = np.zeros(len(paths), POSIX_RECORD)
    records["id"] = np.arange(1, len(paths) + 1) << 8  # ids contain zero bytes
    records["rank"] = 0 if ranks is None else ranks
    records["POSIX_OPENS"] = 1
    records["POSIX_READS"] = 2
    records["POSIX_BYTES_READ"] = 100
    records["POSIX_MMAPS"] = -1
    records["POSIX_F_READ_TIME"] = 0.25
    records["POSIX_F_META_TIME"] = 0.5
    for counter, values in columns.items():
        records[counter] = values
    return records, dict(zip(records["id"].tolist(), paths, strict=True))


def manifest_of(paths):
    """Return the part of a manifest that tells ids: files by id."""
    return pd.DataFrame({"file_id": list(paths), "path": list(paths.values())})


SMALL = manifest_of({i: f"small/s_{i:05d}.tfrecord" for i in range(200)})
BINARY = manifest_of({i: f"small/s_{i}.bin" for i in range(100)})
LARGE = manifest_of({i: f"large/l_{i:05d}.tfrecord" for i in range(10)})
MANIFEST = pd.concat([SMALL, BINARY, LARGE])


def read(log, tiers=TIERS, manifest=MANIFEST, **options):
    """Return the table of a log's dataset files."""
    return read_file_records(log, tiers, manifest, **options)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a log of `synthetic` records."""

    def write_paths(paths, ranks=None, n_processes=2, partial=(), **columns):
        records, names = synthetic(paths, ranks, **columns)
        log = tmp_path / "run.darshan"
        write_log(
            log,
            {"POSIX": records},
            names,
            LoggedJob(
                n_processes=n_processes,
                exe="python bench.py",
                mounts={"/": "ext4"},
                started_s=1_700_000_000,
                ended_s=1_700_000_060,
                metadata={"lib_ver": "3.5.0"},
                partial=partial,
            ),
        )
        return log

    return write_paths


# Genuine logs


@pytest.mark.parametrize(
    ("log", "n_files", "reads", "n_bytes"),
    [
        ("mpi4_small_alias", 200, 2, SMALL_BYTES),
        ("nonmpi_small_alias", 200, 2, SMALL_BYTES),
        ("mpi4_large_alias", 10, 49, LARGE_BYTES),
    ],
)
def test_log_with_aliases_lists_each_read_once(log, n_files, reads, n_bytes):
    table = read(LOGS / f"{log}.darshan")
    assert keys(table) == expected_files(log, n_files)
    assert list(table.columns) == list(TABLES["file_records"])
    assert (table["opens"] == 1).all()
    assert (table["reads"] == reads).all()
    assert (table["bytes_read"] == n_bytes).all()
    assert (table[["read_time_s", "meta_time_s"]] > 0).all(axis=None)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_log_of_one_epoch_takes_the_epoch_given(epoch):
    log = f"mpi4_small_perepoch{epoch}"
    table = read(LOGS / f"{log}.darshan", TIERS, epoch=epoch)
    expected = expected_files(log, 200)
    assert {key[0] for key in expected} == {0}
    assert keys(table) == [(epoch, *key[1:]) for key in expected]
    assert (table["opens"] == 1).all()
    assert (table["bytes_read"] == SMALL_BYTES).all()


def test_log_without_aliases_sums_the_epochs_of_a_rank():
    table = read(LOGS / "mpi2_small_noreduce.darshan", TIERS, epoch=0)
    expected = pd.Series(
        [key[1:] for key in expected_files("mpi2_small_noreduce", 200)]
    )
    opens = expected.value_counts().sort_index()
    assert [key[1:] for key in keys(table)] == opens.index.tolist()
    assert table["opens"].tolist() == opens.tolist()
    assert table["bytes_read"].tolist() == (opens * SMALL_BYTES).tolist()


def test_read_times_are_those_that_pydarshan_reads(pydarshan):
    log = LOGS / "mpi4_small_alias.darshan"
    report = pydarshan.DarshanReport(str(log), read_all=False)
    report.mod_read_all_records("POSIX", dtype="numpy")
    timers = np.array([record["fcounters"] for record in report.records["POSIX"]])
    table = read(log)
    for column, timer in [("read_time_s", "READ_TIME"), ("meta_time_s", "META_TIME")]:
        expected = np.sort(timers[:, TIMERS.index(f"POSIX_F_{timer}")])
        assert np.array_equal(np.sort(table[column]), expected)


def test_job_says_processes_times_and_command():
    job, *_ = read_posix(LOGS / "mpi4_small_alias.darshan")
    assert job.n_processes == 4
    assert job.end_time_s - job.start_time_s == 6
    assert job.exe.startswith("/opt/study/tfvenv/bin/python reader.py")
    assert job.metadata["lib_ver"] == "3.5.0"


@pytest.mark.parametrize(
    "name", ["sample.darshan", "sample-badost.darshan", "sample-dxt-simple.darshan"]
)
def test_logs_of_older_darshan_agree_with_pydarshan(pydarshan, name):
    log = Path(pydarshan.__file__).parent / "tests" / "input" / name
    report = pydarshan.DarshanReport(str(log), read_all=False)
    report.mod_read_all_records("POSIX", dtype="numpy")
    counters = np.array([record["counters"] for record in report.records["POSIX"]])
    job, columns, names = read_posix(log)
    assert job.n_processes == report.metadata["job"]["nprocs"]
    for column in ("opens", "reads", "bytes_read"):
        counter = COUNTERS.index(f"POSIX_{column.upper()}")
        assert columns[column].tolist() == counters[:, counter].tolist()
    found = {int(id_): names.path(i) for i, id_ in enumerate(names.ids)}
    assert found == report.name_records


# Logs that must be refused


def test_partial_log_is_refused():
    with pytest.raises(LogError, match=r"mpi4_small_partial64\.darshan: is partial"):
        read(LOGS / "mpi4_small_partial64.darshan")


def test_log_without_posix_module_is_refused():
    with pytest.raises(LogError, match="no POSIX module, it has none"):
        read(LOGS / "nonmpi_child_uname.darshan")


def test_error_lists_the_modules_of_a_log_without_posix(pydarshan):
    log = Path(pydarshan.__file__).parent / "tests" / "input" / "noposix.darshan"
    with pytest.raises(LogError, match=r"it has \['LUSTRE', 'STDIO'\]"):
        read(log)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"not a log", "not a Darshan log"),
        (bytes(4096), "not a Darshan log"),
        (b"3.41\0\0\0\0" + (6567223).to_bytes(8, "little"), "truncated"),
        (b"9.99\0\0\0\0" + (6567223).to_bytes(8, "little"), "log format '9.99'"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, reason):
    log = tmp_path / "x.darshan"
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(LogError, match=rf"x\.darshan: .*{reason}"):
        read(log)


def test_folder_is_refused(tmp_path):
    with pytest.raises(LogError, match="Is a directory"):
        read(tmp_path)


@contextmanager
def read_as_large():
    """Have logs read by two threads, as large ones are."""

    def opened(path, inflation):
        return replace(open_container(path), content=None)

    with mock.patch("tierscope.trace.log.open_container", opened):
        yield


@pytest.mark.parametrize("reading", [nullcontext, read_as_large])
def test_truncation_anywhere_is_refused(tmp_path, reading):
    whole = (LOGS / "mpi4_large_alias.darshan").read_bytes()
    log = tmp_path / "cut.darshan"
    for length in range(0, len(whole), 7):
        log.write_bytes(whole[:length])
        with reading(), pytest.raises(LogError, match=r"cut\.darshan: "):
            read(log)


@pytest.mark.parametrize("damaged", [{0}, {1}, {0, 1}])
def test_names_are_refused_before_records_however_large_the_log(tmp_path, damaged):
    content = bytearray((LOGS / "mpi4_small_alias.darshan").read_bytes())
    whole = open_container(LOGS / "mpi4_small_alias.darshan")
    regions = [whole.names_region, whole.regions[whole.position("POSIX")]]
    for i in damaged:
        middle = regions[i].offset + regions[i].length // 2
        content[middle : middle + 8] = bytes(8)
    path = tmp_path / "x.darshan"
    path.write_bytes(content)
    errors = []
    for reading in (nullcontext, read_as_large):
        with reading(), pytest.raises(LogError) as caught:
            read_posix(path)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert ("names" if 0 in damaged else "POSIX") in errors[0]


def test_bytes_after_the_end_are_refused(tmp_path):
    log = tmp_path / "long.darshan"
    log.write_bytes((LOGS / "mpi4_large_alias.darshan").read_bytes() + b"\0")
    with pytest.raises(LogError, match="corrupt: got 4249 bytes, expected 4248"):
        read(log)


WHOLE = {
    log: (LOGS / f"{log}.darshan").read_bytes()
    for log in ("mpi4_small_alias", "mpi4_large_alias", "nonmpi_small_alias")
}
TABLES_OF_WHOLE = {log: read(LOGS / f"{log}.darshan") for log in WHOLE}


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    log=st.sampled_from(sorted(WHOLE)),
    data=st.data(),
    flips=st.integers(1, 3),
    in_header=st.booleans(),
    reading=st.sampled_from([nullcontext, read_as_large]),
)
def test_flipped_bits_are_refused_or_harmless(
    tmp_path, log, data, flips, in_header, reading
):
    content = bytearray(WHOLE[log])
    last = 1327 if in_header else len(content) - 1
    for _ in range(flips):
        position = data.draw(st.integers(0, last))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped.darshan"
    path.write_bytes(content)
    try:
        with reading():
            table = read(path)
    except LogError as error:
        assert str(error).startswith(str(path))  # noqa: PT017
    else:
        pd.testing.assert_frame_equal(table, TABLES_OF_WHOLE[log])


# Attribution


def test_alias_stands_at_the_root_or_below_it(write):
    log = write(
        [
            "/srv/gfs.ep3/s_00012.tfrecord",
            "/srv/gfs/small.ep4/s_00013.tfrecord",
            "/srv/gfs/a/b/s_00014.tfrecord.ep5",
            "/dev/shm/lfs.ep10/small/s_00015.tfrecord",
        ]
    )
    assert keys(read(log)) == [
        (3, 0, "gfs", 12),
        (4, 0, "gfs", 13),
        (5, 0, "gfs", 14),
        (10, 0, "lfs", 15),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/dev/shm/lfs2/s_1.bin",
        "/dev/shm/lfs.ep1x/s_1.bin",
        "/dev/shm/lfs.ep/s_1.bin",
        "/dev/shm/lfs.ep0",
        "/mnt/dev/shm/lfs.ep0/s_1.bin",
        "<STDIN>",
    ],
)
def test_paths_beside_a_root_are_ignored(write, path):
    table = read(write([path, "/srv/gfs.ep0/s_7.bin"]))
    assert keys(table) == [(0, 0, "gfs", 7)]


def test_background_is_told_from_the_epochs_by_path(write):
    paths = [
        "/srv/gfs.ep0/set/s_00007.tfrecord",
        "/srv/gfs.bg.ep0/set/s_00007.tfrecord",
        "/dev/shm/lfs.bg.ep1/node-0/set/.placing-s_00007.tfrecord",
    ]
    log = write(paths, POSIX_WRITES=[0, 0, 3], POSIX_BYTES_WRITTEN=[0, 0, 90])
    assert keys(read(log)) == [(0, 0, "gfs", 7)]
    roots = {tier: f"{root}.bg" for tier, root in TIERS.items()}
    background = read_background_records(log, roots, MANIFEST)
    assert keys(background) == [(0, 0, "gfs", 7), (1, 0, "lfs", 7)]
    assert background["writes"].tolist() == [0, 3]
    assert background["bytes_written"].tolist() == [0, 90]
    assert list(background.columns) == list(TABLES["background_records"])


def test_log_without_background_has_no_rows_of_it(write):
    log = write(["/srv/gfs.ep0/set/s_00007.tfrecord"])
    assert read_background_records(log, {"gfs": "/srv/gfs.bg"}, MANIFEST).empty


def test_longest_of_nested_roots_wins(write):
    tiers = {"gfs": "/data", "lfs": "/data/cache/"}
    log = write(["/data.ep0/s_1.bin", "/data/cache.ep0/s_2.bin", "/data/c.ep0/s_3.bin"])
    assert keys(read(log, tiers)) == [
        (0, 0, "gfs", 1),
        (0, 0, "gfs", 3),
        (0, 0, "lfs", 2),
    ]


def test_relative_roots_count_from_the_working_directory(write, tmp_path, monkeypatch):
    log = write([f"{tmp_path}/gfs.ep0/s_1.bin"])
    monkeypatch.chdir(tmp_path)
    table = read(log, {"gfs": "gfs", "lfs": "lfs"})
    assert keys(table) == [(0, 0, "gfs", 1)]


def test_root_is_taken_literally(write):
    tiers = {"gfs": "/g.f(s", "lfs": "/l+fs"}
    log = write(["/gxf(s.ep0/s_1.bin", "/g.f(s.ep0/s_2.bin", "/ll+fs.ep0/s_3.bin"])
    assert keys(read(log, tiers)) == [(0, 0, "gfs", 2)]


def test_equal_roots_are_refused(write):
    with pytest.raises(ValueError, match="different roots"):
        read(write(["/a.ep0/s_1"]), {"gfs": "/a", "lfs": "/a/"})


def test_file_id_is_that_of_the_name_in_the_manifest(write):
    manifest = manifest_of({7: "set/s_1.bin", 10**18: "ä 3", 0: "set/sub/none.x"})
    names = ["s_1.bin", "any/ä 3", "none.x.ep0"]
    table = read(write([f"/srv/gfs.ep0/{name}" for name in names]), manifest=manifest)
    assert table["file_id"].tolist() == [0, 7, 10**18]


def test_database_has_the_id_of_its_first_record(write):
    records = pd.DataFrame({"file_id": range(5), "path": "set/data.mdb"})
    table = read(write(["/srv/gfs.ep0/set/data.mdb"]), manifest=records)
    assert table["file_id"].tolist() == [0]


@pytest.mark.parametrize(
    "name", [b"s_100.bin", b"s_01.bin", b"S_1.bin", b"s_1.bin.2", b"s_\xff.bin"]
)
def test_file_that_is_not_in_the_manifest_is_refused(write, name):
    reason = r"a file is not in the dataset's manifest: '/srv/gfs\.ep0/[sS]_"
    with pytest.raises(LogError, match=reason):
        read(write([b"/srv/gfs.ep0/" + name]))


def test_manifest_with_two_files_of_one_name_is_refused(write):
    log, twice = write(["/srv/gfs.ep0/1"]), manifest_of({0: "a/1", 1: "b/1"})
    with pytest.raises(ValueError, match="manifest: got two files with name '1', exp"):
        read(log, manifest=twice)


def test_one_file_may_be_on_both_tiers_and_in_several_folders(write):
    log = write(
        [
            "/srv/gfs.ep0/s_1.bin",
            "/dev/shm/lfs/node0.ep0/s_1.bin",
            "/dev/shm/lfs/node1.ep0/s_1.bin",
        ],
        ranks=[0, 0, 1],
    )
    assert keys(read(log)) == [
        (0, 0, "gfs", 1),
        (0, 0, "lfs", 1),
        (0, 1, "lfs", 1),
    ]


def test_records_of_one_key_are_summed(write):
    log = write(
        ["/srv/gfs.ep0/a/s_1.bin", "/srv/gfs.ep0/b/s_1.bin"], POSIX_OPENS=[1, 2]
    )
    table = read(log)
    assert table[["opens", "reads", "bytes_read"]].values.tolist() == [[3, 4, 200]]
    assert table[["read_time_s", "meta_time_s"]].values.tolist() == [[0.5, 1.0]]
    paths = ["0/s_1.bin", "0/a/s_2.bin", "0/b/s_2.bin"]
    log = write([f"/srv/gfs.ep0/{path}" for path in paths], POSIX_OPENS=[1, 2, 3])
    assert read(log)["opens"].tolist() == [1, 5]


def test_missing_epoch_is_refused(write):
    with pytest.raises(LogError, match=r"no epoch.*'/srv/gfs/s_1\.bin'"):
        read(write(["/srv/gfs/s_1.bin"]))


def test_first_epoch_contradicts_another_one_as_well(write):
    with pytest.raises(LogError, match="contradicts the given epoch 2"):
        read(write(["/srv/gfs.ep0/s_1.bin"]), TIERS, epoch=2)


def test_files_of_any_number_are_sorted(write):
    # Numbers and epochs do not fit together into one number.
    numbers = [10**18 - 1, 3, 10**18 - 2]
    log = write(
        [
            f"/srv/gfs.ep{epoch}/s_{number}.bin"
            for epoch in (10, 9)
            for number in numbers
        ]
    )
    table = read(log, manifest=manifest_of({n: f"s_{n}.bin" for n in numbers}))
    assert table["epoch"].tolist() == [9, 9, 9, 10, 10, 10]
    assert table["file_id"].tolist() == 2 * sorted(numbers)


def test_epoch_that_contradicts_the_alias_is_refused(write):
    log = write(["/srv/gfs.ep1/s_1.bin", "/srv/gfs/s_2.bin"])
    with pytest.raises(LogError, match="contradicts the given epoch 2"):
        read(log, epoch=2)
    assert keys(read(log, epoch=1)) == [
        (1, 0, "gfs", 1),
        (1, 0, "gfs", 2),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/srv/gfs.ep1/a.ep2/s_1.bin",
        "/srv/gfs.ep1/s_1.bin.ep2",
        "/srv/gfs.ep0/a.ep2/s_1.bin",
        "/srv/gfs.ep1/s_1.bin.ep0",
        "/srv/gfs.ep0/s_1.bin.ep1",
    ],
)
def test_path_with_two_epochs_is_refused(write, path):
    with pytest.raises(LogError, match="two epochs"):
        read(write([path]))


def test_log_with_no_dataset_file_is_refused(write):
    with pytest.raises(LogError, match=r"no record below .*/srv/gfs.*'/etc/hosts'"):
        read(write(["/etc/hosts"]))


def test_unusual_names_are_read(write):
    names = [
        b"/srv/gfs.ep0/\xff\n /s_1.bin",
        "/srv/gfs.ep0/ä/s_2.bin",
        "/srv/gfs.ep0//s_3.bin",
    ]
    table = read(write(names))
    assert table["file_id"].tolist() == [1, 2, 3]


def test_error_is_one_line(write):
    with pytest.raises(LogError) as caught:
        read(write([b"/srv/gfs.ep0/\xff\nx"]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rank", "reason"),
    [(-1, "shared by all ranks"), (-2, "negative rank"), (2, "not below 2 processes")],
)
def test_foreign_ranks_are_refused_in_dataset_records_only(write, rank, reason):
    log = write(["/srv/gfs.ep0/s_1.bin", "/srv/gfs.ep0/s_2.bin"], ranks=[0, rank])
    with pytest.raises(LogError, match=rf"{reason}.* of '/srv/gfs.ep0/s_2.bin'"):
        read(log)
    log = write(["/srv/gfs.ep0/s_1.bin", "/etc/hosts"], ranks=[0, rank])
    assert len(read(log)) == 1


@pytest.mark.parametrize(
    ("counter", "value", "column"),
    [
        ("POSIX_OPENS", -1, "opens"),
        ("POSIX_READS", -1, "reads"),
        ("POSIX_BYTES_READ", -5, "bytes_read"),
        ("POSIX_F_READ_TIME", -0.1, "read_time_s"),
        ("POSIX_F_META_TIME", np.nan, "meta_time_s"),
        ("POSIX_F_META_TIME", np.inf, "meta_time_s"),
    ],
)
def test_impossible_counters_are_refused(write, counter, value, column):
    log = write(["/srv/gfs.ep0/s_1.bin"], **{counter: value})
    with pytest.raises(LogError, match=f"impossible {column}|infinite {column}"):
        read(log)


def test_partial_flag_is_written_and_refused(write):
    with pytest.raises(LogError, match="is partial"):
        read(write(["/srv/gfs.ep0/s_1.bin"], partial=["POSIX"]))


# Writing


def test_written_log_replaces_an_older_one_and_leaves_nothing_else(write):
    write(["/srv/gfs.ep0/s_1.bin"])
    log = write(["/srv/gfs.ep0/s_2.bin"])
    assert read(log)["file_id"].tolist() == [2]
    assert [file.name for file in log.parent.iterdir()] == ["run.darshan"]


def test_log_without_records_is_written_but_holds_no_posix_module(write):
    log = write([])
    with pytest.raises(LogError, match="no POSIX module"):
        read(log)
