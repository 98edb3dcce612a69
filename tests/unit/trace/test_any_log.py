"""Logs of any job: genuine ones, other formats, shared and partial records, damage."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from darshan_containers import build_log
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tierscope.trace.darshan.container import LogError
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.log import (
    COUNTS,
    RANK_COUNTS,
    RANK_TIMES,
    SHARED,
    TIMES,
    read_any_log,
    read_posix,
)
from tierscope.trace.log_writer import LoggedJob, write_log

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
LOGS = Path(__file__).parents[2] / "data" / "darshan-logs"
GENUINE = sorted(LOGS.glob("mpi*.darshan"))
if init := importlib.util.find_spec("darshan").origin:  # PyDarshan comes with logs
    GENUINE += sorted(Path(init).parent.glob("tests/input/*.darshan"))
CURRENT = {name: versions[max(versions)] for name, versions in RECORD_TYPES.items()}
PREFIXES = {"POSIX": "POSIX", "STDIO": "STDIO", "MPI-IO": "MPIIO"}


def records_of(interface, ids, version=None, **columns):
    """Return records of an interface with these counters."""
    version = version or max(RECORD_TYPES[interface])
    records = np.zeros(len(ids), RECORD_TYPES[interface][version])
    records["id"] = ids
    for name, values in columns.items():
        full = name if name == "rank" else f"{PREFIXES[interface]}_{name}"
        records[full] = values
    return records


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a log of four processes and reads it."""

    def write_and_read(records, names=None, **options):
        path = tmp_path / "job.darshan"
        ids = {int(id_) for of in records.values() for id_ in of["id"]}
        write_log(
            path,
            records,
            {id_: f"/scratch/{id_}" for id_ in ids} if names is None else names,
            LoggedJob(
                n_processes=4,
                exe="./simulate in.nml",
                mounts={"/scratch": "lustre", "/my disk": "xfs"},
                started_s=100.25,
                ended_s=160.5,
                uid=1001,
                job_id=4242,
                metadata={"lib_ver": "3.5.0"},
                **options,
            ),
        )
        return read_any_log(path)

    return write_and_read


def sums_by_folder(log, folder):
    """Return opens and bytes read of the POSIX records below a folder."""
    posix = log.records["POSIX"]
    at = np.searchsorted(log.names.ids, posix.ids)
    below = [log.names.path(int(i)).startswith(folder) for i in at]
    return tuple(
        int(posix.columns[column][below].sum()) for column in ("opens", "bytes_read")
    )


# Genuine logs


@pytest.mark.parametrize(
    ("name", "gfs", "lfs"),
    [
        ("mpi2_small_noreduce", (300, 39321600), (300, 39321600)),
        ("mpi4_small_alias", (300, 39321600), (300, 39321600)),
        ("mpi4_large_alias", (15, 188743680), (15, 188743680)),
        ("mpi4_small_partial64", (174, 174 * 131072), (188, 188 * 131072)),
        ("nonmpi_small_alias", (300, 39321600), (300, 39321600)),
    ],
)
def test_genuine_logs_hold_what_their_truth_says(name, gfs, lfs):
    """The opens and bytes of the README beside the logs."""
    log = read_any_log(LOGS / f"{name}.darshan")
    assert sums_by_folder(log, "/srv/gfs") == gfs
    assert sums_by_folder(log, "/dev/shm/lfs") == lfs
    assert log.partial == (("POSIX",) if "partial" in name else ())
    assert (log.log_format, log.metadata["lib_ver"]) == ("3.41", "3.5.0")
    assert log.exe.startswith("/opt/study/tfvenv/bin/python reader.py")
    assert 0 < log.ended_s - log.started_s < 60


def test_genuine_log_without_modules_is_refused():
    with pytest.raises(LogError, match="no POSIX, STDIO or MPI-IO records, it has no"):
        read_any_log(LOGS / "nonmpi_child_uname.darshan")


def of_pydarshan(pydarshan, path):
    """Return the records that PyDarshan reads: (id, rank, counters) by interface."""
    cffi_backend = pydarshan.backend.cffi_backend
    log = cffi_backend.log_open(str(path))
    found = {}
    for interface in sorted(CURRENT & cffi_backend.log_get_modules(log).keys()):
        names = cffi_backend.counter_names(interface)
        timers = cffi_backend.fcounter_names(interface)
        while record := cffi_backend.log_get_record(log, interface, "numpy"):
            values = dict(zip(names, record["counters"].tolist(), strict=True))
            values |= zip(timers, record["fcounters"].tolist(), strict=True)
            row = (record["id"], record["rank"], values)
            found.setdefault(interface, []).append(row)
    return found


def column_of_pydarshan(interface, column, records):
    """Return a column as the sum of PyDarshan's counters."""
    names = {
        "slowest_bytes": ["SLOWEST_RANK_BYTES"],
        "fastest_bytes": ["FASTEST_RANK_BYTES"],
        "slowest_time_s": ["F_SLOWEST_RANK_TIME"],
        "fastest_time_s": ["F_FASTEST_RANK_TIME"],
        "time_variance_s2": ["F_VARIANCE_RANK_TIME"],
    }.get(column, [column.upper()])
    if column in TIMES:
        names = [f"F_{column.removesuffix('_s').upper()}"]
    if interface == "MPI-IO" and column == "opens":
        names = ["INDEP_OPENS", "COLL_OPENS"]
    if interface == "MPI-IO" and column in ("reads", "writes"):
        names = [f"{k}_{column.upper()}" for k in ("INDEP", "COLL", "SPLIT", "NB")]
    prefix = PREFIXES[interface]
    return [sum(values[f"{prefix}_{name}"] for name in names) for *_, values in records]


@pytest.mark.parametrize("path", GENUINE, ids=str)
def test_records_are_those_that_pydarshan_reads(pydarshan, path):
    log, expected = read_any_log(path), of_pydarshan(pydarshan, path)
    assert log.records.keys() == expected.keys()
    for interface, records in expected.items():
        found = log.records[interface]
        assert found.ids.tolist() == [id_ for id_, *_ in records]
        assert found.ranks.tolist() == [rank for _, rank, _ in records]
        for column in (*COUNTS, *TIMES):
            values = column_of_pydarshan(interface, column, records)
            values = [max(value, 0) for value in values]  # of <STDERR>, one is below
            assert found.columns[column].tolist() == values, column
        shared = found.ranks == SHARED
        for column in (*RANK_COUNTS, *RANK_TIMES[:2]):
            values = np.array(column_of_pydarshan(interface, column, records))
            assert found.columns[column].tolist() == (values * shared).tolist(), column


@pytest.mark.parametrize("path", GENUINE, ids=str)
def test_job_and_names_are_those_that_pydarshan_reads(pydarshan, path):
    cffi_backend = pydarshan.backend.cffi_backend
    log, expected = read_any_log(path), cffi_backend.log_open(str(path))
    job = cffi_backend.log_get_job(expected)
    assert (log.uid, log.job_id) == (job["uid"], job["jobid"])
    assert log.n_processes == job["nprocs"]
    assert log.started_s == job["start_time_sec"] + job["start_time_nsec"] / 1e9
    assert log.exe == cffi_backend.log_get_exe(expected).rstrip()
    assert log.mounts == dict(cffi_backend.log_get_mounts(expected))
    found = {int(id_): log.names.path(i) for i, id_ in enumerate(log.names.ids)}
    assert found == cffi_backend.log_get_name_records(expected)


# Records of all interfaces


def test_calls_of_mpi_io_are_summed_and_those_of_stdio_are_not_counted_twice(read):
    log = read(
        {
            "MPI-IO": records_of(
                "MPI-IO",
                [1],
                **{"INDEP_OPENS": 1, "COLL_OPENS": 2, "BYTES_WRITTEN": 80},
                **{"INDEP_READS": 3, "COLL_READS": 4, "SPLIT_READS": 5, "NB_READS": 6},
                **{"INDEP_WRITES": 10, "COLL_WRITES": 20, "SPLIT_WRITES": 30},
                **{"NB_WRITES": 40, "F_READ_TIME": 0.5, "SIZE_READ_AGG_1K_10K": 18},
            ),
            "STDIO": records_of("STDIO", [2], OPENS=3, FDOPENS=2, BYTES_READ=7),
        }
    )
    assert list(log.records) == ["STDIO", "MPI-IO"]
    mpi, stdio = log.records["MPI-IO"], log.records["STDIO"]
    assert [mpi.columns[column][0] for column in COUNTS] == [3, 18, 100, 0, 80]
    assert mpi.columns["read_time_s"].tolist() == [0.5]
    assert mpi.read_sizes.tolist() == [[0, 0, 18, 0, 0, 0, 0, 0, 0, 0]]
    assert [stdio.columns[column][0] for column in COUNTS] == [3, 0, 0, 7, 0]
    assert stdio.read_sizes is None
    assert stdio.write_sizes is None


def test_job_is_read_with_its_user_times_and_mounts(read):
    log = read({"STDIO": records_of("STDIO", [2], OPENS=1)})
    assert (log.uid, log.job_id, log.n_processes) == (1001, 4242, 4)
    assert (log.started_s, log.ended_s) == (100.25, 160.5)
    assert log.exe == "./simulate in.nml"
    assert log.mounts == {"/scratch": "lustre", "/my disk": "xfs"}
    assert (log.modules, log.partial) == (("STDIO",), ())


def test_shared_record_keeps_what_is_known_of_ranks(read):
    log = read(
        {
            "POSIX": records_of(
                "POSIX",
                [1, 2],
                rank=[SHARED, 3],
                SLOWEST_RANK=2,
                SLOWEST_RANK_BYTES=70,
                FASTEST_RANK=1,
                FASTEST_RANK_BYTES=30,
                F_SLOWEST_RANK_TIME=1.5,
                F_FASTEST_RANK_TIME=0.5,
                F_VARIANCE_RANK_TIME=0.25,
            )
        }
    )
    columns = log.records["POSIX"].columns
    assert log.records["POSIX"].ranks.tolist() == [SHARED, 3]
    assert [columns[name][0] for name in RANK_COUNTS] == [2, 70, 1, 30]
    assert [columns[name][0] for name in RANK_TIMES] == [1.5, 0.5, 0.25]
    assert all(columns[name][1] == 0 for name in (*RANK_COUNTS, *RANK_TIMES))


@pytest.mark.parametrize("shared_at", [[], [0], [1999], [600, 1400]])
def test_many_records_keep_their_order(read, shared_at):
    ranks = np.arange(2000) % 4
    ranks[shared_at] = SHARED
    ids = np.arange(1, 2001)
    log = read(
        {
            "POSIX": records_of(
                "POSIX",
                ids,
                rank=ranks,
                READS=ids,
                SLOWEST_RANK_BYTES=ids,
                SIZE_WRITE_1G_PLUS=ids,
                F_WRITE_TIME=ids / 8,
            )
        }
    )
    posix = log.records["POSIX"]
    assert posix.ids.tolist() == posix.columns["reads"].tolist() == ids.tolist()
    assert posix.columns["write_time_s"].tolist() == (ids / 8).tolist()
    assert posix.columns["slowest_bytes"].tolist() == (ids * (ranks < 0)).tolist()
    assert posix.write_sizes.sum(axis=0).tolist() == [0] * 9 + [ids.sum()]
    assert posix.read_sizes.sum() == 0


def test_times_below_zero_are_zero_and_said(read):
    log = read(
        {
            "POSIX": records_of(
                "POSIX",
                [1, 2, 3],
                rank=[0, SHARED, 1],
                F_META_TIME=[-1e-9, 0.5, -2600.0],
                F_FASTEST_RANK_TIME=-1e-9,
            ),
            "STDIO": records_of("STDIO", [4], F_WRITE_TIME=-1.0),
        }
    )
    posix = log.records["POSIX"].columns
    assert posix["meta_time_s"].tolist() == [0, 0.5, 0]
    assert posix["fastest_time_s"].tolist() == [0, 0, 0]
    assert log.flaws == {
        "POSIX": {"negative_times": 3},
        "STDIO": {"negative_times": 1},
    }
    assert read({"STDIO": records_of("STDIO", [4])}).flaws == {}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e300])
def test_time_that_no_job_can_have_is_refused(read, value):
    records = records_of("POSIX", [1, 2], F_READ_TIME=[1.0, value])
    with pytest.raises(LogError, match="as the sum of read_time_s"):
        read({"POSIX": records})


def test_bytes_without_calls_and_calls_without_time_are_said(read):
    log = read(
        {
            "POSIX": records_of(
                "POSIX",
                [1, 2, 3, 4],
                READS=[0, 1, 1, 0],
                BYTES_READ=[7, 7, 0, 0],
                F_READ_TIME=[0, 0.5, 0, 0],
                WRITES=[0, 0, 2, 0],
                BYTES_WRITTEN=[0, 3, 3, 0],
            ),
            "STDIO": records_of("STDIO", [5], READS=1, BYTES_READ=1, F_READ_TIME=1),
        }
    )
    assert log.flaws == {"POSIX": {"bytes_alone": 2, "calls_alone": 1}}


def test_counters_that_were_not_monitored_are_zero(read):
    log = read(
        {
            "POSIX": records_of(
                "POSIX",
                [1, 2],
                OPENS=[-1, 2],
                BYTES_READ=-1,
                SIZE_READ_0_100=-1,
            ),
            "MPI-IO": records_of("MPI-IO", [1], INDEP_READS=-1, COLL_READS=3),
        }
    )
    assert log.records["POSIX"].columns["opens"].tolist() == [0, 2]
    assert log.records["POSIX"].columns["bytes_read"].tolist() == [0, 0]
    assert log.records["POSIX"].read_sizes.min() == 0
    assert log.records["MPI-IO"].columns["reads"].tolist() == [3]
    assert log.flaws["POSIX"]["negative_counters"] == 5  # of a shared time are none
    assert log.flaws["MPI-IO"]["negative_counters"] == 1


def test_large_counts_of_calls_are_kept(read):
    sizes = [1, 2**31, 2**40]
    log = read({"POSIX": records_of("POSIX", [1, 2, 3], SIZE_READ_0_100=sizes)})
    assert log.records["POSIX"].read_sizes[:, 0].tolist() == sizes


def test_record_without_a_name_is_read(read):
    log = read({"POSIX": records_of("POSIX", [1, 2], OPENS=1)}, names={2: "/scratch/2"})
    assert log.records["POSIX"].ids.tolist() == [1, 2]
    assert log.names.ids.tolist() == [2]
    nameless = read({"POSIX": records_of("POSIX", [1], OPENS=1)}, names={})
    assert len(nameless.names.ids) == 0


def test_partial_modules_are_named_even_without_records(read):
    stdio = {"STDIO": records_of("STDIO", [2])}
    assert read(stdio, partial=["STDIO"]).partial == ("STDIO",)
    log = read(stdio, partial=["POSIX"])
    assert (log.modules, log.partial) == (("STDIO",), ("POSIX",))


# Other formats, byte orders and versions


def modules_of(versions):
    """Return a few records of each interface that has a version."""
    ids = {"POSIX": [1, 2], "STDIO": [3], "MPI-IO": [2]}
    opens = {"POSIX": "OPENS", "STDIO": "OPENS", "MPI-IO": "COLL_OPENS"}
    values = {
        **{"BYTES_READ": 300, "BYTES_WRITTEN": 400, "SLOWEST_RANK": 3},
        **{"F_READ_TIME": 0.5, "F_WRITE_TIME": 0.25, "F_META_TIME": 0.125},
        **{"F_SLOWEST_RANK_TIME": 2.0, "F_VARIANCE_RANK_TIME": 0.75, "rank": SHARED},
    }
    return {
        name: (
            version,
            records_of(name, ids[name], version, **values, **{opens[name]: 7}),
        )
        for name, version in versions.items()
    }


FORMATS = [
    ("3.00", {"POSIX": 1, "MPI-IO": 1}),
    ("3.10", {"POSIX": 2, "STDIO": 1, "MPI-IO": 2}),
    ("3.10", {"POSIX": 3, "STDIO": 1, "MPI-IO": 2}),
    ("3.20", {"POSIX": 4, "STDIO": 2, "MPI-IO": 3}),
    ("3.21", {"POSIX": 4, "STDIO": 2, "MPI-IO": 3}),
    ("3.41", {"POSIX": 4, "STDIO": 2, "MPI-IO": 3}),
]
PATHS = [(1, b"/scratch/a"), (2, b"/scratch/b"), (3, b"<STDERR>")]


@pytest.mark.parametrize(("version", "versions"), FORMATS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compression", [0, 1, 2])
def test_every_format_holds_the_same(tmp_path, version, versions, order, compression):
    """Of big-endian and of old records, PyDarshan reads wrong META times, variances."""
    path = build_log(
        tmp_path / "job.darshan",
        modules_of(versions),
        PATHS,
        version=version,
        order=order,
        compression=compression,
        n_processes=4,
        partial=["MPI-IO"],
    )
    log = read_any_log(path)
    assert log.log_format == version
    assert (log.modules, log.partial) == (sorted_by_number(versions), ("MPI-IO",))
    assert log.names.path(0) == "/scratch/a"
    assert log.names.path(2) == "<STDERR>"
    assert log.records["POSIX"].ids.tolist() == [1, 2]
    for records in log.records.values():
        last = {name: values[-1] for name, values in records.columns.items()}
        assert [last[name] for name in COUNTS] == [7, 0, 0, 300, 400]
        assert [last[name] for name in TIMES] == [0.5, 0.25, 0.125]
        assert [last[name] for name in RANK_COUNTS] == [3, 0, 0, 0]
        assert [last[name] for name in RANK_TIMES] == [2.0, 0.0, 0.75]
        assert all(values.dtype.isnative for values in records.columns.values())


def sorted_by_number(names):
    """Return names of modules in the order of the header's table."""
    return tuple(sorted(names, key=["POSIX", "MPI-IO", "STDIO"].index))


@pytest.mark.parametrize("order", ["<", ">"])
def test_current_records_agree_with_pydarshan_in_any_order(pydarshan, tmp_path, order):
    path = build_log(
        tmp_path / "job.darshan",
        modules_of(FORMATS[-1][1]),
        PATHS,
        order=order,
        n_processes=4,
    )
    log, expected = read_any_log(path), of_pydarshan(pydarshan, path)
    assert log.records.keys() == expected.keys() == CURRENT.keys()
    for interface, records in expected.items():
        for column in (*COUNTS, *TIMES, *RANK_COUNTS, *RANK_TIMES):
            values = column_of_pydarshan(interface, column, records)
            assert log.records[interface].columns[column].tolist() == values


def test_old_records_of_posix_and_stdio_calls_are_omitted_and_said(tmp_path):
    modules = modules_of(FORMATS[0][1])
    modules["POSIX"][1]["POSIX_FOPENS"] = [5, 0]
    path = build_log(
        tmp_path / "job.darshan", modules, PATHS, version="3.00", n_processes=4
    )
    log = read_any_log(path)
    assert log.records["POSIX"].ids.tolist() == [2]
    assert log.partial == ("POSIX",)
    modules["POSIX"][1]["POSIX_FOPENS"] = 5
    log = read_any_log(build_log(path, modules, PATHS, version="3.00", n_processes=4))
    assert (list(log.records), log.partial) == (["MPI-IO"], ("POSIX",))


def test_our_own_runs_are_never_big_endian_or_packed_with_bzip2(tmp_path):
    path = tmp_path / "job.darshan"
    build_log(path, modules_of(FORMATS[-1][1]), PATHS, order=">")
    with pytest.raises(LogError, match="big-endian machine, not supported"):
        read_posix(path)
    build_log(path, modules_of(FORMATS[-1][1]), PATHS, compression=1)
    with pytest.raises(LogError, match=r"compression type 1, expected zlib \(0\)"):
        read_posix(path)
    build_log(path, modules_of(FORMATS[0][1]), PATHS, version="3.00")
    with pytest.raises(LogError, match=r"POSIX records of version 1, expected one of"):
        read_posix(path)


# Logs that must be refused


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ({}, "has no POSIX, STDIO or MPI-IO records, it has no modules"),
        (
            {"LUSTRE": (1, np.zeros(4, "<i8"))},
            "has no POSIX, STDIO or MPI-IO records, it has LUSTRE",
        ),
        (
            {"STDIO": (2, records_of("STDIO", []))},
            "has no POSIX, STDIO or MPI-IO records, it has STDIO",
        ),
        (
            {"POSIX": (5, np.zeros(4, "<i8"))},
            r"has POSIX records of version 5, expected one of \[1, 2, 3, 4\]\.$",
        ),
        (
            {"STDIO": (0, np.zeros(4, "<i8"))},
            r"has STDIO records of version 0, expected one of \[1, 2\]\.$",
        ),
        (
            {"MPI-IO": (4, np.zeros(4, "<i8"))},
            r"has MPI-IO records of version 4, expected one of \[1, 2, 3\]\.$",
        ),
        (
            {"STDIO": (2, records_of("STDIO", [1], rank=2))},
            "corrupt in its STDIO records: got rank 2 of 2 processes",
        ),
        (
            {"STDIO": (2, records_of("STDIO", [1, 2], rank=[-2, 0]))},
            "corrupt in its STDIO records: got rank -2 of 2 processes",
        ),
        (
            {"STDIO": (2, records_of("STDIO", [1], F_META_TIME=np.inf))},
            "corrupt in its STDIO records: got inf as the sum of meta_time_s",
        ),
        (
            {"STDIO": (2, records_of("STDIO", [1], F_READ_TIME=np.nan))},
            "corrupt in its STDIO records: got nan as the sum of read_time_s",
        ),
        (
            {"POSIX": (3, records_of("POSIX", [1]))},
            "corrupt in its POSIX records: the last one is cut",
        ),
    ],
)
def test_log_that_cannot_be_used_is_refused(tmp_path, modules, reason):
    path = build_log(tmp_path / "job.darshan", modules, PATHS)
    with pytest.raises(LogError, match=rf"job\.darshan: {reason}"):
        read_any_log(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty, expected a Darshan log"),
        (b"not a log", "is not a Darshan log"),
        (b"\x1f\x8b\x08" + bytes(99), "is not a log of Darshan 3"),
        (b"9.99\0\0\0\0" + (6567223).to_bytes(8, "big"), "has log format '9.99'"),
        (b"3.10\0\0\0\0" + (6567223).to_bytes(8, "big"), "truncated in its header"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, reason):
    path = tmp_path / "job.darshan"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LogError, match=rf"job\.darshan: {reason}"):
        read_any_log(path)


def everything(log):
    """Return all that a log holds, as values that compare."""
    return (
        (log.uid, log.job_id, log.n_processes, log.started_s, log.ended_s),
        (log.exe, log.metadata, log.mounts),
        {int(id_): log.names.path(i) for i, id_ in enumerate(log.names.ids)},
        {
            interface: (
                records.ids.tolist(),
                records.ranks.tolist(),
                {name: of.tolist() for name, of in records.columns.items()},
            )
            for interface, records in log.records.items()
        },
    )


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Return the path of a log that tests damage, and its contents by kind."""
    path = tmp_path_factory.mktemp("damaged") / "job.darshan"
    contents = {"genuine": (LOGS / "mpi4_large_alias.darshan").read_bytes()}
    for order in "<>":
        for version, versions in FORMATS[1::2]:
            modules = modules_of(versions)
            build_log(path, modules, PATHS, version=version, order=order, n_processes=4)
            contents[version + order] = path.read_bytes()
    return path, contents


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_truncated_log_is_refused(damaged, data):
    path, contents = damaged
    whole = contents[data.draw(st.sampled_from(sorted(contents)))]
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(LogError, match=r"job\.darshan: ") as caught:
        read_any_log(path)
    assert "\n" not in str(caught.value)


@settings(
    max_examples=500,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data(), n_flips=st.integers(1, 3))
def test_log_with_flipped_bits_is_refused_or_whole(damaged, data, n_flips):
    """Marks of partial modules have no checksum; all numbers and names have."""
    path, contents = damaged
    whole = contents[data.draw(st.sampled_from(sorted(contents)))]
    path.write_bytes(whole)
    expected = everything(read_any_log(path))
    content = bytearray(whole)
    for _ in range(n_flips):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        found = everything(read_any_log(path))
    except LogError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017
    else:
        assert found == expected


def test_unknown_rank_stays_unknown(read):
    records = records_of("POSIX", [1], rank=[SHARED], SLOWEST_RANK=-1, FASTEST_RANK=2)
    columns = read({"POSIX": records}).records["POSIX"].columns
    assert columns["slowest_rank"].tolist() == [-1]
    assert columns["fastest_rank"].tolist() == [2]


@pytest.mark.parametrize(
    ("counter", "value", "words"),
    [
        ("BYTES_READ", 1 << 62, "1.38351e+19 as the sum of bytes_read"),
        ("SIZE_READ_0_100", 1 << 62, "1.38351e+19 as the sum of read_sizes"),
        ("F_READ_TIME", 1.7e308, "inf as the sum of read_time_s"),
    ],
)
def test_counters_that_no_job_can_have_are_refused(read, counter, value, words):
    records = records_of("POSIX", [1, 2, 3], rank=0, **{counter: value})
    with np.errstate(over="ignore"), pytest.raises(LogError, match=re.escape(words)):
        read({"POSIX": records})


WRITES = """
import numpy as np, sys
from tierscope.core.words import as_text
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.log_writer import LoggedJob, write_log

records = np.zeros(1, RECORD_TYPES["POSIX"][4])
records["id"] = 7
exe = as_text(b"cat \\xe3\\x83\\x87 \\xff")
names = {7: b"/d/\\xe3\\x83\\x87\\xff"}
write_log(
    sys.argv[1], {"POSIX": records}, names, LoggedJob(
        1, exe, {as_text(b"/\\xe3\\x83\\x87"): "ext4"}, 1, 2, {"program": exe}
    ),
)
"""


def test_command_lines_and_paths_are_bytes_in_any_locale(tmp_path):
    """In this one Python takes and gives ASCII."""
    log = tmp_path / "log.darshan"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", WRITES, log],
        env=os.environ | locale | {"PYTHONPATH": str(SCRIPTS)},
        check=True,
    )
    found = read_any_log(log)
    assert found.exe == "cat \u30c7 \\xff"
    assert found.mounts == {"/\u30c7": "ext4"}
    assert found.metadata["program"] == "cat \u30c7 \ufffd"
    assert found.names.raw_path(0) == b"/d/\xe3\x83\x87\xff"
