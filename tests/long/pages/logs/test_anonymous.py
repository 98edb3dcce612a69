import tempfile
import zlib
from pathlib import Path

import job_tables
import numpy as np
import pandas as pd
import pytest
from job_tables import tables_of
from pages import TEMPLATE
from tierscope.analysis.logs.asking import JobTables
from tierscope.core.columns import TABLES, TEXT
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table, empty_table, read_table, write_table
from tierscope.pages.document import render
from tierscope.pages.logs import anonymous as module
from tierscope.pages.logs.fleet_page import OF_FLEET, fleet_page
from tierscope.pages.logs.job_page import job_page

FILES = [
    ("file", "/gfs/proj-x/alice/scan_07.h5"),
    ("file", "/gfs/proj-x/alice/scan_08.melanoma"),
    ("folder", "/gfs/proj-x/alice"),
    ("file", "<STDOUT>"),
]
# Everything that identifies somebody or something in the tables of `secret_tables`.
SECRETS = [
    "alice",
    "bob-2",
    "node017",
    "hydra",
    "proj-x",
    "scan_07",
    "scan_08",
    "melanoma",
    "tumour.py",
    "tumour",
    "nightly-991",
    "lammps_secret",
    "70000",
    "70001",
    "/opt/hidden",
    "broken-log",
]


def secret_tables():
    """Return the tables of two jobs that say who ran what where, in texts, too."""
    first = job_tables.exact_job(
        "nightly-991",
        exe="/opt/hidden/bin/python3 tumour.py --lr 0.1",
        user="alice",
        host="node017, hydra",
        files=FILES,
        log="/logs/alice/nightly-991.darshan",
        remarks="Files below /gfs/proj-x/alice have no epoch; alice ran tumour.py.",
    )
    second = job_tables.bounded_job(
        "python3-70001", exe="lammps_secret", user="bob-2", host="hydra"
    )
    reason = "/logs/alice/broken-log.darshan: got 3 bytes, expected a Darshan log"
    tables = tables_of(
        first, second, refusals=[("/logs/alice/broken-log.darshan", reason)]
    )
    for_digest = tables["logs"].assign(
        digest=["70000" + "ab" * 30, "70001" + "cd" * 30]
    )
    prefixes = tables["tier_prefixes"].assign(prefix=["/gfs/proj-x", "/lfs/alice"])
    sentence = (
        "Process 1 of node017 waits for /gfs/proj-x/alice/scan_07.h5, says nightly-991."
    )
    slowest = tables["job_slowest"].assign(sentence=sentence)
    grouped = tables["jobs"].assign(grouped_by="pattern ^/logs/(alice)/([^/]+)")
    changes = {"logs": for_digest, "tier_prefixes": prefixes}
    return tables | changes | {"job_slowest": slowest, "jobs": grouped}


def anonymise(tables, n_parts=0):
    """Return what is read after tables were written, without names, and read.

    Each table is a file, or a folder of some parts of jobs each.
    """
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        for name, frame in tables.items():
            place = before / f"{name}.parquet"
            for part in range(n_parts):
                key = frame["job"] if "job" in frame else frame.iloc[:, 0]
                is_in = [zlib.crc32(one.encode()) % n_parts == part for one in key]
                rows = frame[np.array(is_in, bool)]
                write_table(rows, place / "2026-01" / f"{part}.parquet", name)
            if not n_parts:
                write_table(frame, place, name)
        module.anonymise({name: before / f"{name}.parquet" for name in tables}, after)
        return {name: read_table(after / f"{name}.parquet", name) for name in tables}


@pytest.fixture(scope="module")
def anonymous():
    return anonymise(secret_tables())


@pytest.fixture(scope="module")
def in_parts():
    return anonymise(secret_tables(), n_parts=3)


def texts_of(tables):
    """Return all texts of all tables."""
    return "\n".join(
        text
        for name, frame in tables.items()
        for column, kind in TABLES[name].items()
        if kind == TEXT
        for text in frame[column]
    )


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_that_identifies_is_left_in_any_table(secret, anonymous, in_parts):
    tables = secret_tables()
    numbers = " ".join(map(str, tables["logs"]["job_id"]))
    assert secret in texts_of(tables) + numbers  # else the test would say nothing
    for found in (anonymous, in_parts):
        numbers = " ".join(map(str, found["logs"]["job_id"]))
        assert secret not in texts_of(found)
        assert secret not in numbers


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_that_identifies_is_left_on_any_page(anonymous, secret):
    origin = Origin("Darshan logs")
    fleet = JobTables({name: anonymous[name] for name in OF_FLEET})
    contexts = [fleet_page(fleet, experiment="x", pictures=[], provenance=origin)]
    for job in anonymous["jobs"]["job"]:
        contexts.append(job_page(anonymous, job, pictures=[], provenance=origin))
    for context in contexts:
        assert secret not in render(TEMPLATE, context)


def test_names_are_short_and_the_same_in_all_tables(anonymous):
    jobs = ["job-1", "job-2"]
    for name, frame in anonymous.items():
        if "job" in frame:
            assert set(frame["job"]) <= set(jobs), name
    assert anonymous["jobs"]["job"].tolist() == jobs
    assert anonymous["jobs"]["user"].tolist() == ["user-1", "user-2"]
    assert anonymous["jobs"]["exe"].tolist() == ["program-1", "program-2"]
    assert anonymous["jobs"]["host"].tolist() == ["host-1, host-2", "host-2"]
    assert anonymous["logs"]["log"].tolist() == ["log-1", "log-2"]
    assert anonymous["refusals"]["log"].tolist() == ["log-3"]


def test_a_program_has_one_name_whatever_its_command_lines_are():
    """Table jobs has the program, table logs the command line of each log."""
    jobs = [job_tables.exact_job(name, exe="train.py") for name in ("a", "b")]
    tables = tables_of(*jobs, job_tables.exact_job("c", exe="ior"))
    logs = tables["logs"]
    commands = [
        "/opt/bin/python3 -u /home/alice/train.py --lr 0.1",
        "python3 train.py --lr 0.2",
        "./src/ior -o /gfs/alice/train.py",  # a file, not the program
        "/opt/bin/python3 -c spawn_main()",  # a worker of job a
        "python3 -c spawn_main(2)",
    ]
    more = [logs, logs.head(1), logs.head(1)]
    tables["logs"] = pd.concat(more, ignore_index=True).assign(exe=commands)
    found = anonymise(tables)
    programs = ["program-1", "program-1", "program-2"]
    assert found["jobs"]["exe"].tolist() == programs
    assert found["fleet"]["exe"].drop_duplicates().tolist() == programs[1:]
    assert found["logs"]["exe"].tolist() == [*programs, "program-3", "program-3"]
    assert tables["logs"]["exe"].tolist() == commands


def test_paths_keep_tier_folder_and_kind(anonymous):
    files = anonymous["job_files"]
    of_first = files[files["job"] == "job-1"]["path"].tolist()
    assert of_first == [
        "/gfs/dir-1/file-1.h5",
        "/gfs/dir-1/file-2",
        "/gfs/dir-1",
        "<STDOUT>",
    ]
    assert anonymous["tier_prefixes"]["prefix"].tolist() == ["/gfs", "/lfs"]


def test_texts_keep_their_words(anonymous):
    assert anonymous["job_slowest"]["sentence"].iloc[0] == (
        "Process 1 of host-1 waits for /gfs/dir-1/file-1.h5, says job-1."
    )
    remarks = anonymous["jobs"]["remarks"].iloc[0]
    assert remarks == "Files below /gfs/dir-1 have no epoch; user-1 ran program-1."
    reason = anonymous["refusals"]["reason"].iloc[0]
    assert reason == "log-3: got 3 bytes, expected a Darshan log"


def test_paths_that_no_table_lists_are_replaced_in_texts():
    remark = "Files of '/home/carol/thesis', ~/notes.txt (I/O, read/write)."
    tables = tables_of(job_tables.exact_job(remarks=remark))
    found = anonymise(tables)["jobs"]["remarks"].iloc[0]
    assert found == "Files of '(a path)', (a path) (I/O, read/write)."


def test_numbers_in_texts_stay_numbers():
    """A user may be a number, and so may an option of a program."""
    tables = tables_of(
        job_tables.exact_job(
            user="1000", exe="sim 12.1", remarks="user 1000 saw 1000 s"
        )
    )
    sentence = "It takes 12.1 s of 1000 s."
    tables["job_slowest"]["sentence"] = sentence
    found = anonymise(tables)
    assert found["job_slowest"]["sentence"].tolist() == [sentence]
    assert found["jobs"]["remarks"].tolist() == ["user-1 saw 1000 s"]


def test_names_of_tiers_and_operations_stay():
    """A user may be called as a tier or an operation is."""
    tables = tables_of(job_tables.exact_job(user="gfs", host="read"))
    tables["job_slowest"]["sentence"] = "gfs READ waits to read gfs."
    found = anonymise(tables)
    assert found["job_slowest"]["sentence"].tolist() == ["gfs READ waits to read gfs."]
    assert found["jobs"]["user"].tolist() == ["user-1"]


def test_a_tier_with_several_prefixes_keeps_them_apart():
    tables = tables_of(job_tables.bounded_job())
    rows = tables["tier_prefixes"]
    both = pd.concat([rows, rows.assign(prefix="/other/alice")])
    found = anonymise(tables | {"tier_prefixes": both})
    assert found["tier_prefixes"]["prefix"].tolist() == ["/gfs", "/gfs-2"]


def test_tables_keep_their_contracts_and_numbers(anonymous):
    before = secret_tables()
    for name, frame in anonymous.items():
        check_table(frame, name)
        numbers = [column for column, kind in TABLES[name].items() if kind != TEXT]
        kept = [column for column in numbers if column != "job_id"]
        pd.testing.assert_frame_equal(frame[kept], before[name][kept])


def test_a_name_is_replaced_alike_in_all_files():
    """Jobs of two users with the same files are in several files of each table."""
    files = [("file", "/gfs/shared/a.h5"), ("folder", "/gfs/shared")]
    jobs = [
        job_tables.exact_job(
            f"job of {n}", user="ab"[n % 2], exe="sim", files=files, host="n7"
        )
        for n in range(6)
    ]
    found = anonymise(tables_of(*jobs), n_parts=3)
    assert set(found["jobs"]["job"]) == {f"job-{n}" for n in range(1, 7)}
    users = dict(zip(found["jobs"]["job"], found["jobs"]["user"], strict=True))
    assert sorted(users.values()) == ["user-1"] * 3 + ["user-2"] * 3
    of_fleet = dict(zip(found["fleet"]["job"], found["fleet"]["user"], strict=True))
    assert of_fleet == users
    paths = found["job_files"]["path"]
    assert sorted(set(paths)) == ["/gfs/dir-1", "/gfs/dir-1/file-1.h5"]
    assert set(found["jobs"]["exe"]) == {"program-1"}
    assert set(found["job_times"]["job"]) == set(users)


def test_empty_tables_stay_empty():
    tables = {name: empty_table(name) for name in job_tables.JOB_TABLES}
    for name, frame in anonymise(tables).items():
        assert len(check_table(frame, name)) == 0


def test_names_of_any_letters_are_replaced():
    evil = "a.*+?(b) \u202e<c>"
    job = job_tables.exact_job(evil, exe=evil, user=evil, remarks=f"By {evil}, twice.")
    found = anonymise(tables_of(job))
    assert found["jobs"]["remarks"].tolist() == ["By job-1, twice."]
    assert evil not in texts_of(found)


def test_reasons_name_no_log_job_or_text_of_a_path():
    job = job_tables.exact_job("alice-1")
    reasons = [
        "has the same content as zeus/alice.darshan.",
        "epochs: got 'zeus' of '/gfs/zeus/a', expected a group of 1 to 18 digits.",
        "its job zeus-7 cannot be analysed: odd numbers",
    ]
    refused = [(f"zeus/{number}.darshan", one) for number, one in enumerate(reasons)]
    anonymous = anonymise(tables_of(job, refusals=refused))["refusals"]
    assert anonymous["reason"].str.contains("zeus|alice").sum() == 0
    first, second, third = anonymous["reason"]
    assert first.startswith("has the same content as log-")
    assert second.startswith("epochs: got (a text) of (a text), expected a group")
    assert third.startswith("its job job-")
