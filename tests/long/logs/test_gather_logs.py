"""What the workflow prints of an analysis."""

import pytest
import tierscope
from gather_logs import summary, unused
from job_logs import write_job_log
from tierscope.logs.settings import settings_of

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}


@pytest.fixture
def log(tmp_path):
    """Return a log of a file on the GFS."""
    return str(write_job_log(tmp_path / "a.darshan", [("POSIX", 0, "/gfs/a", READ)]))


@pytest.mark.parametrize("anonymous", [False, True])
def test_parts_of_the_configuration_that_match_nothing_are_named(log, anonymous):
    tiers = {"gfs": ["/gfs", "/gsf"], "lfs": "/lfs"}
    given = {"epochs": "xyz([0-9]+)", "group": {"job": "a([.])", "process": "p(z)"}}
    settings = settings_of("x", [log], tiers, **given, anonymous=anonymous)
    lines = unused(tierscope.analyse(log, tiers, **given), settings)
    expected = {
        "tiers.gfs matches no path": "/gsf",
        "tiers.lfs matches no path": "/lfs",
        "epochs matches no path": "xyz([0-9]+)",
        "group.process matches no log": "p(z)",
    }
    assert lines == [
        f"{what}." if anonymous else f"{what}: {it}" for what, it in expected.items()
    ]


def test_what_matches_is_not_named(log):
    settings = settings_of("x", [log], {"gfs": "/gfs"})
    assert unused(tierscope.analyse(log, {"gfs": "/gfs"}), settings) == []


def test_the_summary_tells_the_remarks_of_a_single_job_or_how_many_have_some(tmp_path):
    for number in range(2):
        rows = [("POSIX", 0, f"/gfs/{number}", READ)]
        mounts = {"mounts": {}} if number else {}
        path = tmp_path / f"{number}.darshan"
        write_job_log(path, rows, n_processes=2, job_id=number, **mounts)
    text = summary(tierscope.analyse(tmp_path))
    assert text.endswith("1 of 2 jobs have remarks (table jobs).")
    text = summary(tierscope.analyse(path))
    told = "1 log has no mount table, so paths are tier other: name the tiers."
    assert text.splitlines()[-1] == told


def test_the_summary_counts_logs_and_jobs_and_tells_of_a_single_job(log, tmp_path):
    (tmp_path / "b.darshan").touch()
    text = summary(tierscope.analyse([log, tmp_path / "b.darshan"]))
    assert text.splitlines() == [
        "1 of 2 logs can be used. Jobs: 1.",
        "Tier lustre: /gfs (lustre).",
        f"Refused: {tmp_path}/b.darshan: is empty, expected a Darshan log.",
        "The process spent 4.00 s (40.0 % of the run time) on I/O, 75 % of it on "
        "lustre READ. If META on lustre were twice as fast, it would save 0.500 s.",
    ]
