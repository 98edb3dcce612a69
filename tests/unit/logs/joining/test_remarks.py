"""What a job's remarks say of logs that lack something."""

import pytest
from job_logs import write_job_log
from tierscope.logs.grouping import LogGroup
from tierscope.logs.joining.remarks import remarks_of
from tierscope.logs.summary import summarise
from tierscope.logs.tiers import AUTO, tiers_of
from tierscope.trace.log import read_any_log

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
ROWS = [("POSIX", 0, "/gfs/a", READ)]
AT_LEAST = ", so times are at least those that are listed."


@pytest.fixture
def remarks(tmp_path):
    """Return a function that writes logs of (rows, facts) and returns their remarks."""

    def of(*logs, tiers=AUTO):
        parts = []
        for number, (rows, facts) in enumerate(logs):
            path = write_job_log(tmp_path / f"{number}.darshan", rows, **facts)
            parts.append(summarise(read_any_log(path), str(number), tiers, None))
        numbers = tuple(range(len(parts)))
        group = LogGroup("job", numbers, numbers, len(parts), "tests")
        return remarks_of(group, parts, 100.0)

    return of


def test_a_whole_log_has_no_remarks(remarks):
    assert remarks((ROWS, {})) == ""


def test_mapped_files_are_said_to_be_unmeasured(remarks):
    """A log of `tierscope trace` has the bytes, Darshan's own the number only."""
    rows = [("POSIX", 0, "/gfs/a", READ | {"MMAPS": 3})]
    ours = {"metadata": {"mapped_bytes": str(5 << 20)}}
    told = "What went through 3 mappings of files"
    assert remarks((rows, ours)) == f"{told} (5 MiB) is not measured."
    assert remarks((rows, {})) == f"{told} is not measured."
    assert remarks((rows, ours), (rows, {})).startswith(told.replace("3", "6"))
    unmonitored = [("POSIX", 0, "/gfs/a", READ | {"MMAPS": -1})]
    assert remarks((unmonitored, {})) == ""


def test_bytes_of_a_traced_command_are_told_apart(remarks):
    """As the end of `tierscope trace` does, for all processes together."""
    logs = [
        {"read_on": "ext4:100,tmpfs:0", "device_bytes": "0", "mapped_bytes": "0"},
        {"read_on": "ext4:100", "mapped_bytes": "0", "fadvise": "3,0,0"},
    ]
    told = remarks(*((ROWS, {"metadata": one | {"n_preloaded": "0"}}) for one in logs))
    assert told == (
        "Mixed or page cache: 200 B on ext4, 0 B on tmpfs (memory) were read; since "
        "the first of these calls, block devices have read 0 B for the processes. 1 "
        "process was killed and does not tell what devices read."
    )
    nothing = {"read_on": "", "device_bytes": "0", "fadvise": "odd"}
    assert remarks((ROWS, {"metadata": nothing})) == ""


def test_libraries_and_calls_without_effect_are_told_and_nobody_is_named(remarks):
    seen = {"n_preloaded": "1", "preloaded": "libalice.so", "fadvise": "4,1,2"}
    assert remarks((ROWS, {"metadata": seen}), (ROWS, {})) == (
        "1 process has preload libraries of others, which may change what is read "
        "(`preloaded` in the metadata of the logs). 3 calls of posix_fadvise had no "
        "effect (1 failed, 2 swallowed by another library), so files may have stayed "
        "in the page cache."
    )


def test_a_missing_mount_table_is_told_unless_tiers_are_given(remarks):
    log = (ROWS, {"mounts": {}})
    assert remarks(log) == (
        "1 log has no mount table, so paths are tier other: name the tiers."
    )
    assert remarks(log, tiers=tiers_of({"gfs": "/gfs"})) == ""


def test_a_mount_table_that_may_be_cut_is_told_where_it_matters(remarks):
    cut = {"exe": "x" * 2048, "mounts": {f"/a{'b' * 120}{n}": "nfs" for n in range(9)}}
    told = "A mount table may be cut: a log has room for some mounts only."
    assert remarks((ROWS, cut)) == (
        "No entry of the mount table holds /gfs, so this is tier other: name the "
        f"tiers. {told}"
    )
    known = cut | {"mounts": {"/gfs": "lustre", **cut["mounts"]}}
    assert remarks((ROWS, known)) == ""
    root = cut | {"mounts": {"/": "ext4", **cut["mounts"]}}
    assert remarks((ROWS, root)).endswith(f"name the tiers. {told}")


def test_folders_that_no_mount_holds_are_named_if_they_cost_time(remarks):
    rows = [*ROWS, ("POSIX", 0, "/grand/x/a", READ)]
    rows.append(("POSIX", 0, "/little/a", READ | {"read_s": 1e-6, "meta_s": 1e-6}))
    assert remarks((rows, {"mounts": {"/gfs": "lustre"}})) == (
        "No entry of the mount table holds /grand, so this is tier other: name the "
        "tiers."
    )


def test_tiers_that_hold_no_path_are_told(remarks):
    told = "No path is below a prefix of a tier, so all is tier other."
    assert remarks((ROWS, {}), tiers=tiers_of({"lfs": "/lfs"})) == told
    rows = [*ROWS, ("POSIX", 0, "/lfs/a", READ)]
    assert remarks((rows, {}), tiers=tiers_of({"lfs": "/lfs"})) == ""


def test_a_missing_or_cut_command_line_is_told(remarks):
    assert remarks((ROWS, {"exe": ""}), (ROWS, {"exe": "a <TRUNCATED>"})) == (
        "1 log has no command line, so its program is unknown. 1 log has the beginning "
        "of its command line only; programs are told by it."
    )


def test_records_without_names_are_told_with_their_tier(remarks):
    assert remarks((ROWS, {"nameless": ["/gfs/a"]})) == (
        "1 record has no name (tier unnamed)."
    )


@pytest.mark.parametrize("times", [{"ended_s": 0.0}, {"started_s": 0.0}])
def test_a_missing_start_or_end_is_told(remarks, times):
    assert remarks((ROWS, times)) == (
        "A log does not tell when it began or ended, so its run time is unknown."
    )


def test_a_log_without_host_among_others_is_told(remarks):
    named = {"metadata": {"host": "n0"}}
    assert remarks((ROWS, named), (ROWS, {})) == (
        "A log names no host, so the number of nodes is unknown."
    )
    assert remarks((ROWS, named), (ROWS, named)) == ""


def test_a_log_of_a_process_that_still_ran_is_told(remarks):
    assert remarks((ROWS, {"metadata": {"end": "still running"}})) == (
        f"1 process was still running when the log was written{AT_LEAST}"
    )


def test_logs_without_records_of_posix_are_told(remarks):
    told = "No log has records of POSIX: there were no such calls"
    stdio = [("STDIO", 0, "/gfs/a", READ)]
    assert remarks((stdio, {})).startswith(told)
    assert remarks((stdio, {}), (ROWS, {})) == ""


@pytest.mark.parametrize(
    ("counters", "words"),
    [
        ({"meta_s": -0.5}, "1 time is below 0 in the logs and counted as 0"),
        (
            {"opens": -1, "SIZE_READ_0_100": -3},
            "2 counters are below 0 in the logs and counted as 0",
        ),
        ({"bytes_written": 1}, "1 record has bytes but no reads or writes"),
        ({"read_s": 0.0}, "1 record has reads or writes but no time"),
    ],
)
def test_what_makes_times_lower_bounds_is_told(remarks, counters, words):
    rows = [("POSIX", 0, "/gfs/a", READ | counters)]
    assert remarks((rows, {})) == words + AT_LEAST
    of_mpi_io = [*ROWS, ("MPI-IO", 0, "/gfs/a", READ | {"meta_s": -0.5})]
    assert "at least" not in remarks((of_mpi_io, {}))


def test_programs_that_were_not_traced_are_counted_once_for_all_logs(remarks):
    told = remarks(*[(ROWS, {"metadata": {"n_escaped": "2"}})] * 2)
    assert told == (
        "2 programs that the job started were not traced, so what was read there is in "
        "no log."
    )
    assert remarks((ROWS, {"metadata": {"n_escaped": "odd"}})) == ""
