import json

import numpy as np
import pytest
from job_logs import write_job_log
from tierscope.logs.summary import (
    EACH_OTHER,
    FORM,
    Summary,
    loses_time,
    of_each_process,
    summarise,
)
from tierscope.logs.tiers import tiers_of
from tierscope.trace.log import LogError, read_any_log

TIERS = {"gfs": "/gfs", "lfs": "/lfs"}
READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
WRITE = {"opens": 1, "writes": 4, "bytes_written": 50, "write_s": 2.0, "meta_s": 0.5}


def summary_of(tmp_path, rows, *, epochs=None, tiers=TIERS, **facts):
    """Write a log and sum it up."""
    log = write_job_log(tmp_path / "log.darshan", rows, **facts)
    listed = tiers if tiers == "auto" else tiers_of(tiers)
    return summarise(read_any_log(log), "digest", listed, epochs)


def times_of(summary):
    """Return {(rank, cell): (least, most, operations, bytes)}."""
    times = summary.times
    columns = ("least_s", "most_s", "operations", "bytes")
    keys = zip(
        times["rank"], (summary.cells[one] for one in times["cell"]), strict=True
    )
    return dict(
        zip(keys, zip(*(times[name] for name in columns), strict=True), strict=True)
    )


def test_metadata_time_belongs_to_what_was_done_with_the_file(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/read", READ),
        ("POSIX", 0, "/gfs/written", WRITE),
        ("POSIX", 0, "/gfs/both", READ | WRITE),
        ("POSIX", 0, "/gfs/opened", {"opens": 1, "meta_s": 0.25}),
    ]
    found = times_of(summary_of(tmp_path, rows))
    assert {key[1][3]: value[0] for key, value in found.items()} == {
        "read": 6.0,
        "write": 4.0,
        "meta": 1.25,
        "write meta": 0.5,
        "read-write meta": 0.5,
    }


def test_stdio_is_apart_and_mpi_io_is_not_counted(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/a", READ),
        ("STDIO", 0, "/lfs/b", READ),
        ("MPI-IO", 0, "/gfs/a", READ),
    ]
    summary = summary_of(tmp_path, rows)
    assert {cell[1:3] for cell in summary.cells} == {
        ("gfs", "POSIX"),
        ("lfs", "STDIO"),
        ("gfs", "MPI-IO"),
    }
    assert summary.totals["least_s"] == [8.0]  # 4 s of POSIX, 4 s of STDIO


def test_paths_of_no_tier_and_records_without_a_name_are_rows(tmp_path):
    rows = [("POSIX", 0, "/etc/a", READ), ("POSIX", 0, "/gfs/lost", READ)]
    summary = summary_of(tmp_path, rows, nameless=["/gfs/lost"])
    assert {cell[1] for cell in summary.cells} == {"other", "unnamed"}
    assert summary.facts["n_nameless_records"] == 1
    assert summary.totals["least_s"] == [8.0]


SUMS = [
    ("POSIX", 0, "0/loop/fsync/ext4:/", {"writes": 2, "write_s": 9.0}),
    ("POSIX", 0, r"-1/main/read/nfs4:/my\040home", READ),
]


def test_sums_of_a_sweeps_tracer_are_no_files(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ), *SUMS]
    ours = {"metadata": {"tracer": "tierscope builtin"}}
    found = summary_of(tmp_path, rows, epochs="(main|loop)/", tiers="auto", **ours)
    assert found.files["path"] == ["/gfs/a"]
    assert found.folders["path"] == ["/gfs"]
    assert found.totals["least_s"] == [4.0]
    assert (found.facts["n_files"], found.facts["n_records"]) == (1, 1)


def test_log_of_sums_alone_is_of_a_process_without_files(tmp_path):
    found = summary_of(tmp_path, SUMS, metadata={"tracer": "tierscope builtin"})
    assert (found.cells, found.totals["rank"], found.files["path"]) == ([], [], [])


def test_relative_names_of_other_tracers_are_files(tmp_path):
    assert summary_of(tmp_path, SUMS).facts["n_files"] == 2


def test_epochs_are_found_in_paths(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs.ep3/a", READ),
        ("POSIX", 0, "/gfs.ep4/a", READ),
        ("POSIX", 0, "/gfs/a", READ),
    ]
    tiers = {"gfs": "/gfs*"}
    summary = summary_of(tmp_path, rows, epochs=r"\.ep([0-9]+)/", tiers=tiers)
    assert {cell[0] for cell in summary.cells} == {-1, 3, 4}
    with pytest.raises(LogError, match=r"epochs: got 'gfs\.ep3' of '/gfs\.ep3/a'"):
        summary_of(tmp_path, rows, epochs=r"/(gfs\.ep3)/", tiers=tiers)


def test_shared_records_give_bounds_of_each_process(tmp_path):
    """Of 10 s in 3 processes, rank 2 has 6 s and rank 0 has 1 s: 3 s are left."""
    shared = {
        **{"opens": 3, "reads": 3, "bytes_read": 30, "read_s": 8.0, "meta_s": 2.0},
        **{"slowest_rank": 2, "slowest_s": 6.0, "fastest_rank": 0, "fastest_s": 1.0},
        "variance_s2": (1 + 9 + 36) / 3 - (10 / 3) ** 2,
    }
    rows = [("POSIX", -1, "/gfs/a", shared), ("POSIX", 1, "/gfs/b", READ)]
    summary = summary_of(tmp_path, rows, n_processes=3)
    totals = summary.totals
    assert totals["rank"] == [0, 1, 2]
    assert totals["least_s"] == pytest.approx([1, 3 + 4, 6])
    assert totals["most_s"] == pytest.approx([1, 3 + 4, 6])
    found = times_of(summary)
    least, most, operations, _ = found[2, (-1, "gfs", "POSIX", "read")]
    assert (least, most) == pytest.approx((4, 6))  # at most 2 s are metadata time
    assert operations is None
    assert summary.sums["sum_s"] == pytest.approx([11, 3])
    assert summary.sums["operations"] == [5, 4]


def test_files_and_folders_are_listed_by_time_over_all_processes(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/x/a", READ),
        ("POSIX", 1, "/gfs/x/a", READ),
        ("POSIX", 0, "/lfs/b", READ | {"read_s": 5.0}),
        ("MPI-IO", 0, "/lfs/b", READ),
    ]
    summary = summary_of(tmp_path, rows, n_processes=2)
    assert summary.files["path"] == ["/gfs/x/a", "/lfs/b"]
    assert summary.files["time_s"] == [8.0, 6.0]
    assert summary.folders["path"] == ["/gfs/x", "/lfs"]
    assert summary.folders["opens"] == [2, 1]


def test_sizes_are_summed_by_tier(tmp_path):
    sizes = {"SIZE_READ_100_1K": 2, "SIZE_WRITE_1G_PLUS": 3}
    rows = [("POSIX", rank, "/gfs/a", READ | sizes) for rank in (0, 1)]
    summary = summary_of(tmp_path, rows, n_processes=2)
    found = {(tier, what): calls for tier, what, calls in summary.sizes}
    assert found["gfs", "read"] == [0, 4, *[0] * 8]
    assert found["gfs", "write"] == [*[0] * 9, 6]


def test_mount_table_of_the_log_makes_tiers(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ), ("POSIX", 0, "/dev/shm/b", READ)]
    summary = summary_of(tmp_path, rows, tiers="auto")
    assert {cell[1] for cell in summary.cells} == {"lustre", "memory"}
    assert ("lustre", "/gfs", "lustre") in summary.prefixes


def test_a_summary_passes_through_json(tmp_path):
    hostile = b"/gfs/\xff\n'\"<b>".decode("utf-8", "surrogateescape")
    rows = [("POSIX", 0, hostile, READ), ("POSIX", 0, "/gfs/a", WRITE)]
    summary = summary_of(tmp_path, rows)
    again = Summary(**json.loads(json.dumps(summary.as_json())))
    assert again.times == summary.times
    assert again.files == summary.files
    assert any("\\xff" in path for path in again.files["path"])


def test_a_log_without_time_has_totals_of_nothing(tmp_path):
    summary = summary_of(tmp_path, [("POSIX", 0, "/gfs/a", {"FILENOS": 1})])
    assert summary.cells == []
    assert summary.totals["rank"] == []


def test_an_epoch_of_too_many_digits_is_refused(tmp_path):
    rows = [("POSIX", 0, f"/gfs.ep{'9' * 20}/a", READ)]
    with pytest.raises(LogError, match="expected a group of 1 to 18 digits"):
        summary_of(tmp_path, rows, epochs=r"\.ep([0-9]+)/")


@pytest.mark.parametrize(
    ("posix", "hides_calls"), [([], True), (["/gfs/a"], False), (["/gfs/b"], True)]
)
def test_mpi_io_hides_calls_without_the_posix_record_of_its_file(
    tmp_path, posix, hides_calls
):
    rows = [("MPI-IO", 0, "/gfs/a", READ), ("MPI-IO", 0, "/gfs/idle", {"opens": 1})]
    rows += [("POSIX", 0, path, READ) for path in posix]
    facts = summary_of(tmp_path, rows).facts
    assert facts["hides_calls"] == loses_time(facts) == hides_calls


def test_folders_of_the_root_that_may_be_links_are_named(tmp_path):
    """Of 9 s, / holds 8 s in /grand and /usr, and /gfs is a mount of its own."""
    rows = [
        ("POSIX", 0, "/grand/project/a", READ),
        ("POSIX", 0, "/usr/lib/b", READ),
        ("POSIX", 0, "/tiny/c", {"opens": 1, "meta_s": 0.001}),
        ("POSIX", 0, "/gfs/d", {"opens": 1, "meta_s": 1.0}),
    ]
    summary = summary_of(tmp_path, rows, tiers="auto")
    assert {cell[1] for cell in summary.cells} == {"root", "lustre"}
    assert summary.facts["root_folders"] == ["/grand"]
    alone = {"mounts": {"/": "ext4", "/home": "xfs"}}
    summary = summary_of(tmp_path, rows, tiers="auto", **alone)
    assert summary.facts["root_folders"] == []


def test_processes_that_no_record_names_take_one_row(tmp_path):
    """A record of 65,536 processes names 2, another one is of process 9."""
    n = 1 << 16
    shared = {
        **{"opens": n, "reads": n, "bytes_read": n, "read_s": 2.0 * n, "meta_s": 0.0},
        **{"slowest_rank": 7, "slowest_s": 3.0, "fastest_rank": 5, "fastest_s": 1.0},
    }
    rows = [
        ("POSIX", -1, "/gfs.ep0/a", shared | {"variance_s2": 2 / n}),
        ("POSIX", 9, "/gfs.ep1/b", READ),
    ]
    of_epoch, tiers = r"\.ep([0-9]+)/", {"gfs": "/gfs*"}
    summary = summary_of(tmp_path, rows, n_processes=n, epochs=of_epoch, tiers=tiers)
    assert summary.times["rank"] == [EACH_OTHER, EACH_OTHER, 5, 5, 7, 7, 9, 9, 9, 9]
    totals = of_each_process([summary], "totals")
    first, second = (totals["epoch"] == 0), (totals["epoch"] == 1)
    assert totals["rank"][first].tolist() == list(range(n))
    least_s = totals["least_s"][first][[5, 6, 7, 9]]
    assert least_s == pytest.approx([1, 2, 3, 2], rel=1e-3)  # sums of 65,536 times
    assert totals["rank"][second].tolist() == [9]
    times = of_each_process([summary], "times")
    reads = times["cell"] == summary.cells.index((0, "gfs", "POSIX", "read"))
    assert times["rank"][reads].tolist() == list(range(n))
    assert np.isnan(times["bytes"][reads]).all()


def test_another_form_of_summaries_has_another_number(tmp_path):
    """Summaries of logs that are gone are kept, and later code reads them."""
    values = summary_of(tmp_path, [("POSIX", 0, "/gfs/a", READ)]).as_json()
    names = {
        name: " ".join(sorted(value)) if isinstance(value, dict) else ""
        for name, value in values.items()
    }
    facts = names.pop("facts")
    assert (FORM, names) == (
        1,
        {
            "cells": "",
            "sums": "bytes files operations sum_s",
            "file_ids": "",
            "times": "bytes cell least_s most_s operations rank",
            "totals": "epoch least_s most_s rank",
            "files": "bytes_read bytes_written opens path reads tier time_s writes",
            "folders": "bytes_read bytes_written opens path reads tier time_s writes",
            "sizes": "",
            "prefixes": "",
        },
    )
    assert facts.split() == [
        "clock_s",
        "digest",
        "ended_s",
        "exe",
        "flaws",
        "hides_calls",
        "job_id",
        "lacks",
        "log_format",
        "mapped_bytes",
        "metadata",
        "modules",
        "n_files",
        "n_mappings",
        "n_nameless_records",
        "n_processes",
        "n_records",
        "n_shared_records",
        "other_folders",
        "partial",
        "root_folders",
        "started_s",
        "uid",
    ]
