"""Logs and spools that somebody made to break their reader: refused in one line."""

import bz2
import hashlib
import json
import re
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from darshan_containers import build_log
from hostile_files import hostile_log, hostile_spool, zeros_deflated
from hypothesis import given
from hypothesis import strategies as st
from tierscope.logs.worker import answer
from tierscope.trace import spool
from tierscope.trace.darshan import container
from tierscope.trace.darshan import names as names_module
from tierscope.trace.darshan.container import LogError, open_container
from tierscope.trace.darshan.inflation import OURS, USUAL
from tierscope.trace.darshan.names import read_names
from tierscope.trace.log import read_posix
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD
from tierscope.trace.spool import (
    _HEADER,
    SPOOL_VERSION,
    open_spool,
    write_log_from_spools,
)

RANDOM = st.randoms(use_true_random=False)
BY_MOUNTS = {"tiers": "auto", "epochs": r"\.ep(\d+)/", "inflation": vars(USUAL)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for files that each example replaces."""
    return tmp_path_factory.mktemp("hostile")


def no_constant(name):
    raise AssertionError(f"got {name}, expected finite numbers")


@given(RANDOM)
def test_hostile_log_is_refused_in_one_line_or_summed_up(folder, rng):
    path = hostile_log(folder / "job.darshan", rng)
    head, *summary = answer(str(path), BY_MOUNTS)
    if reason := json.loads(head).get("reason"):
        assert "\n" not in reason
        assert not json.loads(head)["may_pass"]  # or each start would read it again
    else:
        json.loads(summary[0], parse_constant=no_constant)


def log_of_streams(path, compression=0, **parts):
    """Write a log whose regions hold streams as they are given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("darshan_containers.COMPRESS", [bytes] * 3)
        as_given = zlib.compress, bz2.compress
        pack = as_given[compression]
        modules = {"POSIX": (4, np.frombuffer(parts["records"], "u1"))}
        patch.setattr(
            "darshan_containers._packed",
            lambda data, *_: data if data in parts.values() else pack(data),
        )
        patch.setattr("darshan_containers._name", lambda *_: parts.get("names", b""))
        names = [(1, b"/a")] if "names" in parts else []
        return build_log(path, modules, names, compression=compression)


RECORD = bytes(POSIX_RECORD.itemsize)


@pytest.mark.parametrize(
    ("compression", "parts", "what", "key"),
    [
        (0, {"records": zeros_deflated(9)}, "POSIX records", "records"),
        (1, {"records": bz2.compress(bytes(9 << 20))}, "POSIX records", "records"),
        (
            0,
            {"records": zlib.compress(RECORD), "names": zeros_deflated(9)},
            "names",
            "names",
        ),
    ],
)
def test_parts_that_inflate_too_far_are_refused_until_their_key_allows_it(
    tmp_path, compression, parts, what, key
):
    path = log_of_streams(tmp_path / "job.darshan", compression, **parts)
    head = json.loads(answer(str(path), BY_MOUNTS)[0])
    assert not head["may_pass"]
    assert re.fullmatch(
        rf"corrupt in its {what}: \d+ bytes inflate to more than \d+; if this log is "
        rf"genuine, raise inflation\.{key} \(now {getattr(USUAL, key)}\)\.",
        head["reason"],
    )
    read_parts(open_container(path, replace(USUAL, **{key: 1_000_000})))
    read_parts(open_container(path, OURS))


def read_parts(log):
    read_names(log)
    list(log.pieces(log.regions[1], "POSIX records"))


def test_our_own_log_has_names_as_long_as_paths_may_be(tmp_path):
    records = np.zeros(600, POSIX_RECORD)
    records["id"] = np.arange(600)
    folder = "/".join(hashlib.sha1(b"%d" % at).hexdigest() for at in range(95))
    names = {number: f"/{folder}/{number:09d}".encode() for number in range(600)}
    log = tmp_path / "log.darshan"
    write_log(log, {"POSIX": records}, names, LoggedJob(1, "x", {}, 1, 2))
    assert len(read_posix(log)[2].ids) == 600


def test_job_data_longer_than_darshan_writes_are_refused(tmp_path):
    path = build_log(tmp_path / "job.darshan", {}, [], text=b"x" * 9000)
    with pytest.raises(LogError, match=r"job data: .* bytes inflate"):
        open_container(path).read_job()


def test_many_small_streams_are_one_region(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "_FED_BYTES", 50)
    records = np.zeros(90, POSIX_RECORD)
    modules = {"POSIX": (4, records)}
    for compression in (0, 1):
        path = build_log(
            tmp_path / "job.darshan",
            modules,
            [],
            n_streams=2000,
            compression=compression,
        )
        log = open_container(path)
        found = b"".join(log.pieces(log.regions[1], "POSIX records"))
        assert found == records.tobytes()


def test_name_longer_than_any_path_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(names_module, "_LONGEST_BYTES", 99)
    monkeypatch.setattr(names_module, "_FEW_BYTES", -1)
    path = build_log(tmp_path / "job.darshan", {}, [(1, b"/a")], compression=2)
    assert len(read_names(open_container(path)).ids) == 1
    build_log(path, {}, [(0x2F2F2F2F2F2F2F2F, b"/" * 200)], compression=2)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"/")  # no zero ends it
    with pytest.raises(LogError, match="names: one has more than 99 bytes"):
        read_names(open_container(path))


def header_of_spool():
    """Return what begins the spool of a process without calls."""
    head = np.zeros(1, _HEADER)
    head["magic"], head["version"] = b"tierscope-trace", SPOOL_VERSION
    head["record_bytes"], head["used_bytes"] = POSIX_RECORD.itemsize, 4096
    return head.tobytes().ljust(4096, b"\0")


@given(RANDOM)
def test_hostile_spool_is_refused_in_one_line_or_a_log(folder, rng):
    spools = folder / "spools"
    spools.mkdir(exist_ok=True)
    (spools / "a.spool").write_bytes(hostile_spool(header_of_spool(), rng))
    job = LoggedJob(2, "x", {}, 1, 2)
    try:
        write_log_from_spools(spools, folder / "log.darshan", job)
    except LogError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        answer(str(folder / "log.darshan"), BY_MOUNTS)


@pytest.mark.parametrize(
    ("at", "content", "words"),
    [
        (48, b"\xff\xff\xff\xff", "got errno 4294967295"),
        (4096 + 8 + POSIX_RECORD.itemsize, b"\0", "at byte 4096"),
    ],
)
def test_spool_that_no_process_leaves_is_refused(tmp_path, at, content, words):
    entry = struct.pack("<II", 8 + POSIX_RECORD.itemsize + 2, 2) + RECORD + b"/a"
    data = bytearray(header_of_spool() + entry)
    struct.pack_into("<Q", data, 40, len(data))
    (path := tmp_path / "a.spool").write_bytes(data)
    assert open_spool(path).names == [b"/a"]
    data[at : at + len(content)] = content
    path.write_bytes(data)
    with pytest.raises(LogError, match=f"is damaged.*{words}"):
        open_spool(path)


def test_spool_may_be_as_large_as_a_quarter_of_the_memory(tmp_path, monkeypatch):
    (path := tmp_path / "a.spool").write_bytes(header_of_spool())
    monkeypatch.setattr(spool, "_MOST_BYTES", 4000)
    monkeypatch.setattr(spool, "memory_bytes", lambda: 4 * 4096)
    assert open_spool(path).names == []
    monkeypatch.setattr(spool, "memory_bytes", lambda: 4 * 4095)
    with pytest.raises(OSError, match="has 4096 bytes, expected at most 4095"):
        open_spool(path)
