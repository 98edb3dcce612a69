"""Tables are the same whatever the chunks are in which logs are read."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest
from job_logs import write_job_log
from tierscope.core.columns import TABLES
from tierscope.core.tables import open_table, read_table
from tierscope.core.validation import ConfigError
from tierscope.logs import jobs, reading
from tierscope.logs.chunks import chunk as chunk_module
from tierscope.logs.chunks.chunk import read_chunk
from tierscope.logs.chunks.gather import gather
from tierscope.logs.chunks.listing import list_logs
from tierscope.logs.jobs import JOB_TABLES
from tierscope.logs.reading import Refusal
from tierscope.logs.settings import settings_of
from tierscope.pages.logs.anonymous import anonymise

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
TIERS = {"gfs": "/gfs"}
MIDNIGHT_S = 1_793_491_200.0  # of 2026-11-01
DAY_S = 86_400.0


def write_log(folder, name, day, start_s, *, read_s=3.0, **facts):
    """Write a log that starts some time after the midnight that begins November."""
    path = folder / f"{name}_{day}-100-200_1.darshan"
    started_s = MIDNIGHT_S + start_s
    times = {"started_s": started_s, "ended_s": started_s + 600}
    rows = [
        ("POSIX", rank, f"/gfs/{name}", READ | {"read_s": read_s})
        for rank in range(facts.get("n_processes", 1))
    ]
    return write_job_log(path, rows, **times | facts)


@pytest.fixture
def logs(tmp_path):
    """Return a folder of logs of which no day can be told apart from the others.

    Jobs go over midnight, by the scheduler's id and without one; names come again; the
    content of a log does; a log is empty.
    """
    folder = tmp_path / "logs"
    for number, (day, start_s) in enumerate([("10-31", -60), ("11-1", 30)]):
        write_log(
            folder, f"anna_solve_id5-{number}", day, start_s, exe="solve", job_id=5
        )
        torch = {"exe": "python train.py", "uid": 7, "job_id": 900 + number}
        name = f"ben_python_id{900 + number}-{900 + number}"
        write_log(folder, name, day, start_s / 10, read_s=2.0, **torch)
    for day in (1, 2, 3):  # steps of a job
        start_s = DAY_S * (day - 0.5)
        mpi = {"exe": "/bin/ior -a", "n_processes": 2, "job_id": 77, "uid": 8}
        write_log(folder, "carl_ior_id77-1", f"11-{day}", start_s, **mpi)
    alone = write_log(
        folder, "dora_copy_id3-1", "11-1", 900, exe="copy", job_id=3, uid=9
    )
    again = {"exe": "copy", "job_id": 3, "uid": 9, "read_s": 1.0}
    write_log(folder, "dora_copy_id3-2", "11-3", 960, **again)
    shutil.copy(alone, folder / "dora_copy_id3-1_11-3-100-200_1.darshan")
    bare = {"exe": "bare", "job_id": 6, "uid": 30}
    write_log(folder, "fred_bare_id6-1", "11-7", 6.5 * DAY_S, **bare)
    (folder / "carl_ior_id77-9_11-5-1-1_1.darshan").touch()
    (folder / os.fsdecode(b"l\xe9_x_id4-1_11-5-1-1_1.darshan")).touch()
    return folder


def analysed(folder, logs, n_logs, **given):
    """Return the folder of the tables of logs with so many logs a chunk, and chunks."""
    settings = settings_of("x", [str(logs)], TIERS, **given)
    listing = list_logs(settings.logs, folder / "lists", logs_per_chunk=n_logs)
    chunks = []
    for chunk, listed in listing.chunks.items():
        chunks.append(folder / "chunks" / chunk)
        places = {"kept": folder / "kept", "output": chunks[-1]}
        read_chunk(listed, settings, chunk=chunk, n_workers=1, **places)
    gather(chunks, settings, kept=folder / "kept", tables=folder / "tables")
    return folder / "tables", listing.chunks


def tables_in(folder):
    """Return all tables, their rows sorted."""
    tables = {name: read_table(folder / f"{name}.parquet", name) for name in JOB_TABLES}
    return {
        name: table.sort_values(list(table), ignore_index=True)
        for name, table in tables.items()
    }


def assert_equal(tables, others):
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, others[name], obj=name)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"group": {"job": r"logs/(\w+?)_"}},
        {"group": "one"},
        {"filter": {"month": "2026-11"}},
    ],
)
def test_tables_are_those_of_one_chunk(logs, tmp_path, given):
    whole, chunks = analysed(tmp_path / "one", logs, 1000, **given)
    assert len(chunks) == 1
    parts, chunks = analysed(tmp_path / "many", logs, 1, **given)
    assert len(chunks) > 4
    assert_equal(tables_in(whole), tables_in(parts))


@pytest.fixture
def spellings(tmp_path):
    """Return logs of two users; those of one have a name, a number, or are copies."""
    folder = tmp_path / "logs"
    for name, number, n_processes in (("alice", 1, 2), ("1002", 2, 2), ("1002", 3, 1)):
        facts = {"exe": "cat", "job_id": number, "uid": 1002}
        stem, start_s = f"{name}_cat_id{number}-{number}", DAY_S * number
        log = write_log(
            folder, stem, f"11-{number}", start_s, n_processes=n_processes, **facts
        )
        shutil.copy(log, folder / f"0-{number}.darshan")
    write_log(folder, "bob_cat_id4-4", "11-4", 0, exe="cat", job_id=4, uid=7)
    return folder


@pytest.mark.parametrize(
    ("user", "n_jobs", "n_logs"), [("alice", 3, 1), (1002, 3, 1000), (None, 4, 1)]
)
def test_user_is_one_whatever_the_names_of_logs_say(
    spellings, tmp_path, user, n_jobs, n_logs
):
    """A filter takes each spelling, also if only another chunk knows it."""
    given = {"filter": {"user": user}}
    tables = tables_in(analysed(tmp_path, spellings, n_logs, **given)[0])
    users = {"alice", *["bob"] * (user is None)}
    assert len(tables["jobs"]) == n_jobs
    for name in ("jobs", "logs", "fleet"):
        assert set(tables[name]["user"]) == users


def test_jobs_across_chunks_are_joined(logs, tmp_path):
    tables = tables_in(analysed(tmp_path / "many", logs, 1)[0])
    jobs = tables["jobs"].set_index("job")
    assert jobs["n_logs"].to_dict() == {
        "solve-5": 2,
        "train.py-900": 2,
        "ior-77": 1,
        "ior-77-2": 1,
        "ior-77-3": 1,
        "copy-3": 2,
        "bare-6": 1,
    }
    assert jobs.loc["solve-5", "n_processes"] == 2
    assert jobs.loc["solve-5", "run_time_s"] == 690
    assert jobs["remarks"].str.contains("the job's id in the name").sum() == 3
    slowest = tables["job_slowest"].set_index("job")["least_s"]
    assert slowest["train.py-900"] == 3.0
    reasons = tables["refusals"]["reason"]
    assert len(reasons) == 3
    (copy,) = reasons[reasons.str.startswith("has the same content as ")]
    assert copy.endswith("dora_copy_id3-1_11-1-100-200_1.darshan.")


def test_a_table_is_a_folder_with_a_file_of_each_chunk_by_month(logs, tmp_path):
    folder, _ = analysed(tmp_path / "many", logs, 1)
    for name in JOB_TABLES:
        table = open_table(folder / f"{name}.parquet", name)
        assert table.schema.names == list(TABLES[name])
    files = {
        str(path.relative_to(folder / "job_times.parquet")): path.stat().st_nlink
        for path in folder.glob("job_times.parquet/*/*")
    }
    assert files["2026-10/across.parquet"] == files["2026-11/across.parquet"] == 1
    assert files["2026-11/2026-11-02.parquet"] == 1  # its job has another name
    assert files["2026-11/2026-11-07.parquet"] == 2  # the chunk's own file
    fleet = read_table(folder / "fleet.parquet" / "2026-10" / "all.parquet", "fleet")
    assert set(fleet["month"]) == {"2026-10"}


def test_the_next_gathering_keeps_what_was_read(logs, tmp_path, monkeypatch):
    whole = tables_in(analysed(tmp_path / "many", logs, 1)[0])
    sizes = []

    def read_empty(logs, *arguments, keep, **options):
        for log in logs:
            sizes.append(log.size_bytes)
            keep(log.path, Refusal("is empty, expected a Darshan log."))

    monkeypatch.setattr("tierscope.logs.chunks.chunk.read_logs", read_empty)
    again, chunks = analysed(tmp_path / "many", logs, 1000)
    assert len(chunks) > 4  # they are not merged
    assert_equal(whole, tables_in(again))
    assert sizes == [0, 0]


def test_a_chunk_whose_reading_was_killed_goes_on_where_it_was(
    logs, tmp_path, monkeypatch
):
    asked = []

    def read_some(logs, *arguments, **options):
        asked.append([log.path for log in logs])
        read_logs(logs[:n_read], *arguments, **options)
        if n_read:
            raise KeyboardInterrupt

    read_logs, n_read = chunk_module.read_logs, 3
    monkeypatch.setattr(chunk_module, "read_logs", read_some)
    monkeypatch.setattr(chunk_module, "_KEEP_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        analysed(tmp_path / "killed", logs, 1000)
    n_read = None
    killed = tables_in(analysed(tmp_path / "killed", logs, 1000)[0])
    assert asked[1] == asked[0][3:]
    assert_equal(killed, tables_in(analysed(tmp_path / "whole", logs, 1000)[0]))


def test_tables_of_logs_that_come_later_are_those_of_a_fresh_start(logs, tmp_path):
    later = tmp_path / "later"
    later.mkdir()
    for log in [*logs.glob("anna*-1_*"), *logs.glob("carl*_11-2-*")]:
        shutil.move(log, later)
    analysed(tmp_path / "grown", logs, 11)
    for log in later.iterdir():
        shutil.move(log, logs)
    grown, chunks = analysed(tmp_path / "grown", logs, 11)
    assert set(chunks) == {"2026", "2026-11"}  # what comes later does not fit
    fresh, chunks = analysed(tmp_path / "fresh", logs, 11)
    assert set(chunks) == {"2026-10", "2026-11"}
    assert_equal(tables_in(fresh), tables_in(grown))


def test_vanished_logs_keep_their_jobs_after_an_update(logs, tmp_path, monkeypatch):
    analysed(tmp_path / "one", logs, 1000)
    gone = next(logs.glob("anna*_11-1-*"))
    gone.unlink()
    monkeypatch.setattr(reading, "digest_of_modules", lambda *_: "of an update")
    write_log(logs, "eva_new_id8-1", "11-1", 0, exe="new", job_id=8, uid=20)
    tables = tables_in(analysed(tmp_path / "one", logs, 1000)[0])
    assert str(gone) in set(tables["logs"]["log"])
    assert {"solve-5", "new-8"} <= set(tables["jobs"]["job"])


def test_a_filter_that_keeps_no_job_of_any_chunk_is_refused(logs, tmp_path):
    words = (
        "none of the 7 jobs meets, expected values that jobs have: executable is ior, "
    )
    with pytest.raises(ConfigError, match=words):
        analysed(tmp_path, logs, 1, filter={"executable": "wrf"})


def test_errors_of_an_anonymous_analysis_name_nobody(logs, tmp_path):
    nobody = {"filter": {"executable": "wrf"}, "anonymous": True}
    with pytest.raises(ConfigError) as error:
        analysed(tmp_path / "none", logs, 1000, **nobody)
    assert str(error.value) == (
        "config: filter: got executable, which none of the 7 jobs meets, expected "
        "values that jobs have (anonymous: true hides details)"
    )
    (empty,) = logs.glob("carl_ior_id77-9*")
    with pytest.raises(ConfigError) as error:
        analysed(tmp_path / "empty", empty, 1000, anonymous=True)
    assert str(error.value) == (
        "config: logs: got 1 log, which cannot be used, expected one that can "
        "(anonymous: true hides details)"
    )


def test_refused_jobs_are_named_as_in_the_tables(logs, tmp_path, monkeypatch):
    def join_some(groups, found, **options):
        firsts = [str(group.logs[0]) for group in groups]
        if any("carl" in first and "11-2" in first for first in firsts):
            raise ValueError("odd numbers")
        return join(groups, found, **options)

    join = jobs.join
    monkeypatch.setattr(jobs, "join", join_some)
    tables = tables_in(analysed(tmp_path, logs, 1)[0])
    reasons = set(tables["refusals"]["reason"])
    assert "its job ior-77-2 cannot be analysed: odd numbers" in reasons
    assert {"ior-77", "ior-77-3"} <= set(tables["jobs"]["job"])
    assert "ior-77-2" not in set(tables["jobs"]["job"])


def test_tables_without_names_are_by_month_too(logs, tmp_path):
    folder, chunks = analysed(tmp_path, logs, 1)
    settings = settings_of("x", [str(logs)], TIERS)
    names = {"kept": tmp_path / "kept", "tables": tmp_path / "nobody"}
    paths = [tmp_path / "chunks" / name for name in chunks]
    gather(paths, settings, without_names=anonymise, **names)
    named, nobody = tables_in(folder), tables_in(tmp_path / "nobody")
    assert set(nobody["jobs"]["user"]) == {f"user-{n}" for n in range(1, 6)}
    assert np.isclose(
        named["fleet"]["io_hours"].sum(), nobody["fleet"]["io_hours"].sum()
    )
    assert len(list((tmp_path / "nobody" / "fleet.parquet").iterdir())) == 2
