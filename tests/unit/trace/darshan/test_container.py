"""Containers of Darshan logs: formats, byte orders, compressions and damage."""

import os
import struct

import numpy as np
import pytest
from darshan_containers import MODULES, build_log
from tierscope.trace.darshan.container import LogError, open_container
from tierscope.trace.darshan.module_records import RECORD_TYPES

NAMES = [(1, b"/scratch/a")]
STDIO = RECORD_TYPES["STDIO"][2]


def stdio(n_records=1):
    """Return a STDIO module of records with ids from 1."""
    records = np.zeros(n_records, STDIO)
    records["id"] = np.arange(1, n_records + 1)
    return {"STDIO": (2, records)}


@pytest.fixture
def log(tmp_path):
    """Return the path of a log."""
    return tmp_path / "job.darshan"


@pytest.mark.parametrize("version", MODULES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_job_is_read_from_every_format(log, version, order):
    build_log(log, {}, NAMES, version=version, order=order)
    job = open_container(log).read_job()
    assert (job.uid, job.job_id, job.n_processes) == (1001, 4242, 2)
    assert (job.start_time_s, job.end_time_s) == (100, 160)
    assert job.ended_s == (160.5 if version == "3.41" else 160)
    assert job.exe == "./simulate in.nml"
    assert job.metadata == {"lib_ver": "3.5.0"}
    assert job.mounts == {"/scratch": "lustre"}


@pytest.mark.parametrize("version", MODULES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_modules_are_named_as_their_format_numbers_them(log, version, order):
    modules = {name: (1, np.zeros(1, "<i8")) for name in MODULES[version]}
    build_log(log, modules, NAMES, version=version, order=order, partial=["LUSTRE"])
    container = open_container(log)
    assert container.modules == list(MODULES[version])
    assert container.partial == ["LUSTRE"]


def test_module_without_data_can_be_partial(log):
    build_log(log, {}, NAMES, partial=["POSIX"])
    container = open_container(log)
    assert (container.modules, container.partial) == ([], ["POSIX"])


@pytest.mark.parametrize("compression", [0, 1, 2])
@pytest.mark.parametrize("n_streams", [1, 3])
@pytest.mark.parametrize("n_records", [1, 5000])
def test_records_are_unpacked(log, compression, n_streams, n_records):
    build_log(
        log, stdio(n_records), NAMES, compression=compression, n_streams=n_streams
    )
    found = list(open_container(log).records("STDIO", STDIO))
    assert max(map(len, found)) <= 512
    assert np.concatenate(found)["id"].tolist() == list(range(1, n_records + 1))


def test_mounts_keep_their_spaces_and_half_lines_are_omitted(log):
    text = b"./a\nlustre\t/my\\040disk\nxfs\n\next4\t/\n"
    build_log(log, {}, NAMES, text=text)
    assert open_container(log).read_job().mounts == {"/my disk": "lustre", "/": "ext4"}


MOUNTS = b"\nlustre\t/scratch\next4\t/"
SCRIPT = b"""bash -c set -e
cd /scratch/run1
rsync\t-a /home/a /tmp/b

nfs /home
cat\t/etc/motd
python "train it.py" '\xe9' """


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_command_with_line_breaks_and_tabs_is_no_mount(log, end):
    build_log(log, {}, NAMES, text=SCRIPT + MOUNTS + end + b"\0")
    job = open_container(log).read_job()
    assert job.mounts == {"/scratch": "lustre", "/": "ext4"}
    assert job.exe == SCRIPT.decode("utf-8", "backslashreplace").rstrip()


def test_command_with_line_breaks_without_mounts_has_no_mount(log):
    build_log(log, {}, NAMES, text=SCRIPT)
    assert open_container(log).read_job().mounts == {}


def test_mount_point_that_is_no_utf_8_is_that_of_paths(log):
    build_log(log, {}, NAMES, text=b"./a\nlustre\t/d\xe9")
    (point,) = open_container(log).read_job().mounts
    assert os.fsencode(point) == b"/d\xe9"


@pytest.mark.parametrize(
    ("version", "room"), [("3.41", 4096 - 7 * 8 - 1024 - 1), ("3.21", 3031)]
)
def test_log_tells_where_mounts_had_no_room(log, version, room):
    """The room is what the job's record leaves of 4,096 bytes, without a zero."""
    for n_bytes, may_lack in ((room - 255, False), (room - 254, True), (room, True)):
        text = b"./a".ljust(n_bytes - len(MOUNTS), b"x") + MOUNTS
        build_log(log, {}, NAMES, version=version, text=text)
        assert open_container(log).read_job().may_lack_mounts == may_lack
    text = b"./a" + b"".join(b"\nnfs\t/%d" % number for number in range(64))
    build_log(log, {}, NAMES, version=version, text=text)
    assert open_container(log).read_job().may_lack_mounts


def test_cut_command_is_told(log):
    build_log(log, {}, NAMES, text=b"./a bcd<TRUNCATED>")
    assert open_container(log).read_job().is_exe_cut
    build_log(log, {}, NAMES)
    assert not open_container(log).read_job().is_exe_cut


def test_command_of_a_log_without_mounts_is_read(log):
    build_log(log, {}, NAMES, text=b"./a b \0")
    job = open_container(log).read_job()
    assert (job.exe, job.mounts) == ("./a b", {})


def test_regions_are_those_of_names_and_modules(log):
    build_log(log, stdio(), NAMES)
    container = open_container(log)
    of_modules = [region for region in container.regions if region[1]]
    (start, n_bytes), (next_start, rest) = container.names_region, *of_modules
    assert (start + n_bytes, next_start + rest) == (next_start, log.stat().st_size)


def test_log_that_is_not_compressed_may_have_gaps_but_no_overlaps(log):
    build_log(log, stdio(2), NAMES, compression=2)
    content = bytearray(log.read_bytes())
    at = 32 + 16 * (1 + 9)  # where the STDIO module is
    (offset,) = struct.unpack_from("<Q", content, at)
    content[offset:offset] = bytes(40)
    struct.pack_into("<Q", content, at, offset + 40)
    log.write_bytes(content + bytes(5))
    (found,) = open_container(log).records("STDIO", STDIO)
    assert found["id"].tolist() == [1, 2]
    struct.pack_into("<Q", content, at, offset - 1)
    log.write_bytes(content)
    with pytest.raises(LogError, match=f"starts at byte {offset - 1}, expected"):
        open_container(log)
    content = content[:-1]
    struct.pack_into("<Q", content, at, offset + 40)
    log.write_bytes(content)
    with pytest.raises(LogError, match="truncated: got"):
        open_container(log)


# Damage


@pytest.mark.parametrize("compression", [0, 1])
def test_every_flipped_bit_of_the_data_is_found(log, compression):
    build_log(log, stdio(3), NAMES, compression=compression)
    whole = log.read_bytes()
    for position in range(32 + 16 * 65 + 4 * 64, len(whole)):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        log.write_bytes(content)
        try:
            found = everything(log)
        except LogError:
            continue
        log.write_bytes(whole)
        assert found == everything(log)


def everything(log):
    """Return the bytes of all regions."""
    container = open_container(log)
    regions = [container.job_region, container.names_region, *container.regions]
    return [
        b"".join(container.blocks(region, "data")) for region in regions if region[1]
    ]


@pytest.mark.parametrize("compression", [0, 1])
def test_stream_that_ends_too_early_is_found(log, compression):
    build_log(log, stdio(3), NAMES, compression=compression)
    content = bytearray(log.read_bytes()[:-2])
    at = 32 + 16 * (1 + 9) + 8  # the length of the STDIO module
    (length,) = struct.unpack_from("<Q", content, at)
    struct.pack_into("<Q", content, at, length - 2)
    log.write_bytes(content)
    with pytest.raises(LogError, match="it ends too early"):
        list(open_container(log).records("STDIO", STDIO))


@pytest.mark.parametrize("compression", [0, 1, 2])
def test_cut_record_is_found(log, compression):
    half = {"STDIO": (2, np.zeros(STDIO.itemsize + 8, "u1"))}
    build_log(log, half, NAMES, compression=compression)
    with pytest.raises(LogError, match="STDIO records: the last one is cut"):
        list(open_container(log).records("STDIO", STDIO))


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (16, 3, "compression type 3, expected 0, 1 or 2"),
        (16, 2, "corrupt in its header: its data are compressed"),
        (16, 1, "corrupt in its job data"),
        (0, ord("4"), "has log format '4.41'"),
        (8, 0, "is not a Darshan log"),
        (32, 0, "corrupt in its header: no room for the job"),
        (40, 255, "corrupt in its header: a region starts|truncated"),
    ],
)
def test_damaged_header_is_found(log, position, value, reason):
    build_log(log, stdio(), NAMES)
    content = bytearray(log.read_bytes())
    content[position] = value
    log.write_bytes(content)
    with pytest.raises(LogError, match=reason):
        open_container(log).read_job()


def test_log_of_version_2_is_named(log):
    log.write_bytes(b"\x1f\x8b\x08\0" + bytes(100))
    with pytest.raises(LogError, match="those of Darshan 1 and 2 are not supported"):
        open_container(log)


@pytest.mark.parametrize("n_processes", [0, -1, 1 << 40])
def test_job_without_processes_is_refused(log, n_processes):
    build_log(log, stdio(), NAMES, n_processes=n_processes)
    with pytest.raises(LogError, match=f"has {n_processes} processes"):
        open_container(log).read_job()


@pytest.mark.parametrize("whole_s", [(-1, 160), (100, 10**15)])
def test_job_of_an_impossible_year_is_refused(log, whole_s):
    build_log(log, stdio(), NAMES, whole_s=whole_s)
    with pytest.raises(LogError, match=r"got (start|end)_s -?1.*, expected seconds"):
        open_container(log).read_job()


@pytest.mark.parametrize(
    ("version", "clock_s"), [("3.41", 0), ("3.21", 1), ("3.00", 1)]
)
def test_old_formats_have_whole_seconds(log, version, clock_s):
    build_log(log, {}, NAMES, version=version)
    assert open_container(log).read_job().clock_s == clock_s


@pytest.mark.parametrize("nanoseconds", [-5, 10**9, 1 << 62])
def test_times_have_less_than_a_second_of_nanoseconds(log, nanoseconds):
    build_log(log, stdio(), NAMES, ended_ns=nanoseconds)
    with pytest.raises(LogError, match=f"got end_ns {nanoseconds}, expected less"):
        open_container(log).read_job()
