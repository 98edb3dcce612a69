"""Writing logs of any job: PyDarshan reads what was written."""

import importlib.util
from pathlib import Path

import darshan
import numpy as np
import pytest
from darshan.backend import cffi_backend
from tierscope.core.validation import ConfigError
from tierscope.trace.darshan.module_records import (
    MPIIO_RECORD,
    RECORD_TYPES,
    STDIO_RECORD,
)
from tierscope.trace.log_writer import libdarshan_util, write_any_log
from tierscope.trace.posix_records import POSIX_RECORD
from tierscope.trace.tracer import BuiltinTracer

RECORD_OF = {"POSIX": POSIX_RECORD, "STDIO": STDIO_RECORD, "MPI-IO": MPIIO_RECORD}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a log of two processes."""

    def write_records(records, names, **options):
        path = tmp_path / "job.darshan"
        write_any_log(
            path,
            records,
            names,
            n_processes=2,
            exe="./simulate in.nml",
            mounts={"/scratch": "lustre"},
            started_s=1_700_000_000.25,
            ended_s=1_700_000_060.5,
            uid=1001,
            job_id=4242,
            **options,
        )
        return path

    return write_records


def records_of(interface, ids, ranks, **columns):
    """Return records of an interface with these columns."""
    records = np.zeros(len(ids), RECORD_OF[interface])
    records["id"], records["rank"] = ids, ranks
    for name, values in columns.items():
        records[name] = values
    return records


def test_records_of_all_modules_are_read_by_pydarshan(write):
    path = write(
        {
            "STDIO": records_of("STDIO", [3], [0], STDIO_FDOPENS=1, STDIO_OPENS=2),
            "POSIX": records_of(
                "POSIX",
                [1, 2],
                [0, -1],
                POSIX_SLOWEST_RANK=[0, 1],
                POSIX_F_VARIANCE_RANK_TIME=[0.0, 0.25],
            ),
            "MPI-IO": records_of("MPI-IO", [2], [-1], MPIIO_COLL_OPENS=2),
        },
        {1: "/scratch/a", 2: "/scratch/b", 3: "<STDIN>"},
    )
    report = darshan.DarshanReport(str(path), read_all=True)
    posix = report.records["POSIX"].to_df()
    assert posix["counters"]["rank"].tolist() == [0, -1]
    assert posix["counters"]["POSIX_SLOWEST_RANK"].tolist() == [0, 1]
    assert posix["fcounters"]["POSIX_F_VARIANCE_RANK_TIME"].tolist() == [0, 0.25]
    stdio = report.records["STDIO"].to_df()["counters"]
    assert stdio[["STDIO_OPENS", "STDIO_FDOPENS"]].values.tolist() == [[2, 1]]
    assert report.records["MPI-IO"].to_df()["counters"]["MPIIO_COLL_OPENS"][0] == 2
    assert report.name_records == {1: "/scratch/a", 2: "/scratch/b", 3: "<STDIN>"}


def test_job_is_the_one_given(write):
    path = write({"STDIO": records_of("STDIO", [3], [0])}, {3: "<STDIN>"})
    report = darshan.DarshanReport(str(path), read_all=False)
    job = report.metadata["job"]
    assert (job["uid"], job["jobid"], job["nprocs"]) == (1001, 4242, 2)
    assert job["run_time"] == pytest.approx(60.25)
    assert list(report.modules) == ["STDIO"]


def test_modules_are_marked_as_partial_one_by_one(write):
    records = {name: records_of(name, [1], [0]) for name in RECORD_OF}
    path = write(records, {1: "/scratch/a"}, partial=["STDIO"])
    modules = darshan.DarshanReport(str(path), read_all=False).modules
    assert {name: bool(of["partial_flag"]) for name, of in modules.items()} == {
        "POSIX": False,
        "MPI-IO": False,
        "STDIO": True,
    }


def test_record_without_a_name_is_written(write):
    path = write({"POSIX": records_of("POSIX", [1, 2], [0, 0])}, {1: "/scratch/a"})
    log = cffi_backend.log_open(str(path))  # a DarshanReport would omit it
    ids = [cffi_backend.log_get_record(log, "POSIX")["id"] for _ in range(2)]
    assert ids == [1, 2]
    assert cffi_backend.log_get_record(log, "POSIX") is None
    assert cffi_backend.log_get_name_records(log) == {1: "/scratch/a"}


def test_records_of_an_older_version_say_so(write):
    old = np.zeros(1, RECORD_TYPES["POSIX"][3])
    old["id"], old["POSIX_READS"] = 1, 7
    path = write({"POSIX": old}, {1: "/scratch/a"})
    report = darshan.DarshanReport(str(path), read_all=True)
    assert report.modules["POSIX"]["ver"] == 3
    assert report.records["POSIX"].to_df()["counters"]["POSIX_READS"].tolist() == [7]


@pytest.mark.parametrize(
    ("records", "options", "reason"),
    [
        ({"HDF5": np.zeros(1, STDIO_RECORD)}, {}, r"interfaces \['HDF5'\]"),
        ({}, {"partial": ["LUSTRE"]}, r"interfaces \['LUSTRE'\]"),
        ({"POSIX": np.zeros(1, STDIO_RECORD)}, {}, "for POSIX"),
    ],
)
def test_unknown_modules_are_refused(write, tmp_path, records, options, reason):
    with pytest.raises(ValueError, match=reason):
        write(records, {}, **options)
    assert not any(tmp_path.iterdir())


def test_wheel_that_is_missing_is_named_before_the_ranks_start(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    libdarshan_util.cache_clear()
    with pytest.raises(ConfigError, match=r"^darshan: got no such package in .*wheel"):
        BuiltinTracer(Path("libtierscope_trace.so"), []).preload()
