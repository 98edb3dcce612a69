import pytest
from job_logs import write_job_log
from tierscope.trace.program_intervals import times_between_reads

ROOTS = {"gfs": ["/links/gfs"], "lfs": ["/links/lfs"]}


def log(folder, name, opened_s):
    """Write a log of a process that takes a second for the I/O of each file."""
    rows = [
        (
            "POSIX",
            0,
            path,
            {
                "opens": 1,
                "F_OPEN_START_TIMESTAMP": at_s,
                "read_s": 0.75,
                "meta_s": 0.25,
            },
        )
        for path, at_s in opened_s.items()
    ]
    write_job_log(folder / f"{name}.darshan", rows)


def test_times_between_the_files_of_a_batch_are_without_io_time(tmp_path):
    opened_s = {
        "/links/lfs.ep0/b": 13.0,  # 2 s after the I/O of the first
        "/links/gfs.ep0/a": 10.0,
        "/elsewhere/notes": 11.0,
        "/links/gfs.ep0/sub/c": 50.0,  # a batch later
        "/links/gfs.ep0/d": 54.0,
        "/links/gfs.ep1/a": 90.0,
        "/links/gfs.ep1/b": 90.5,  # before the I/O of the first has ended
    }
    log(tmp_path, "1", opened_s)
    # The 2 s of the first batch may hold its warm-up.
    assert times_between_reads(tmp_path, ROOTS, 2) == pytest.approx([3, 0])


def test_first_batch_counts_if_a_process_has_no_other(tmp_path):
    log(tmp_path, "2", {"/links/gfs.ep0/e": 0.5, "/links/gfs.ep0/f": 5.5})
    assert times_between_reads(tmp_path, ROOTS, 2) == pytest.approx([4])


def test_of_batches_of_one_file_only_the_first_is_left_out(tmp_path):
    opened_s = {"/links/gfs.ep0/a": 1.0, "/links/gfs.ep0/b": 9.0}
    log(tmp_path, "1", opened_s | {"/links/gfs.ep0/c": 12.0})
    assert times_between_reads(tmp_path, ROOTS, 1) == pytest.approx([2])


def test_processes_that_open_no_file_have_no_times(tmp_path):
    assert len(times_between_reads(tmp_path, ROOTS, 2)) == 0
    write_job_log(tmp_path / "1.darshan", [("STDIO", 0, "/notes", {"opens": 1})])
    log(tmp_path, "2", {"/links/gfs.ep0/a": 1.0})
    assert len(times_between_reads(tmp_path, ROOTS, 2)) == 0
