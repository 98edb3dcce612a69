"""Written logs hold what Darshan's own library wrote; PyDarshan reads them."""

import tracemalloc

import numpy as np
import pytest
from golden_logs import FOLDER, GOLDEN, job, records
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.words import as_bytes, as_text
from tierscope.trace.darshan.container import open_container
from tierscope.trace.darshan.module_records import RECORD_TYPES, STDIO_RECORD
from tierscope.trace.darshan.names import read_names
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD

CURRENT = {name: versions[max(versions)] for name, versions in RECORD_TYPES.items()}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a log."""

    def write_records(of_modules, names, **facts):
        path = tmp_path / "job.darshan"
        write_log(path, of_modules, names, LoggedJob(**job(**facts)))
        return path

    return write_records


def content(path):
    """Return all that a log holds; how it is packed may differ."""
    log = open_container(path)
    regions = [log.job_region, log.names_region, *log.regions]
    parts = [
        b"".join(log.pieces(of, "records")) if of.length else b"" for of in regions
    ]
    return (log.version, log.order, log.partial_flags, log.versions, *parts)


def records_of_pydarshan(backend, log, interface):
    """Return the records that PyDarshan reads, as tuples of our layout."""
    found = []
    while record := backend.log_get_record(log, interface, "numpy"):
        numbers = record["counters"].tolist(), record["fcounters"].tolist()
        found.append((record["id"], record["rank"], *numbers[0], *numbers[1]))
    return found


# As Darshan


@pytest.mark.parametrize("name", GOLDEN)
def test_log_holds_byte_for_byte_what_darshan_wrote(write, name):
    of_modules, names, facts = GOLDEN[name]
    assert content(write(of_modules, names, **facts)) == content(
        FOLDER / f"{name}.darshan"
    )


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"old-records"}))
def test_pydarshan_reads_what_was_written(pydarshan, write, name):
    of_modules, names, facts = GOLDEN[name]
    path = write(of_modules, names, **facts)
    backend = pydarshan.backend.cffi_backend
    log = backend.log_open(str(path))
    modules = backend.log_get_modules(log)
    assert modules.keys() == {one for one, of in of_modules.items() if len(of)}
    partial = {one for one, of in modules.items() if of["partial_flag"]}
    assert partial == modules.keys() & facts.get("partial", [])
    for interface in modules:
        found = records_of_pydarshan(backend, log, interface)
        assert found == of_modules[interface].tolist()
    found = backend.log_get_job(log)
    assert (found["uid"], found["jobid"]) == (1001, 4242)
    assert found["nprocs"] == facts["n_processes"]
    assert found["end_time_nsec"] == 500_000_000


@pytest.mark.parametrize("n_bytes", [5003, 70_000])
def test_name_of_any_length_is_read_by_pydarshan_and_by_us(pydarshan, write, n_bytes):
    names = {1: "/a", 2: "/" + "x" * (n_bytes - 1), 3: "/b/" + "\u30c7" * n_bytes}
    path = write({"POSIX": records("POSIX", [1, 2, 3])}, names)
    report = pydarshan.DarshanReport(str(path), read_all=True)
    assert report.name_records == names
    assert report.metadata["exe"] == "python train.py"
    assert report.mounts == [("/gfs", "lustre"), ("/", "ext4")]
    assert report.records["POSIX"].to_df()["counters"]["id"].tolist() == [1, 2, 3]
    found = read_names(open_container(path))
    assert [found.path(i) for i in range(3)] == list(names.values())


# Bytes

PATHS = st.binary(min_size=1, max_size=6000).filter(lambda path: b"\0" not in path)


@given(
    st.dictionaries(st.integers(0, (1 << 64) - 1), PATHS, min_size=1, max_size=50),
    st.binary(max_size=3000),
)
def test_any_bytes_are_names_and_command_lines(tmp_path_factory, names, exe):
    log = tmp_path_factory.getbasetemp() / "bytes.darshan"
    as_texts = {id_: as_text(path) for id_, path in names.items()}
    made = {"POSIX": records("POSIX", list(names))}
    for given_names in (names, as_texts):
        write_log(log, made, given_names, LoggedJob(**job(exe=as_text(exe))))
        container = open_container(log)
        found = read_names(container)
        paths = [found.raw_path(i) for i in range(len(found.ids))]
        assert dict(zip(found.ids.tolist(), paths, strict=True)) == names
        of_job = container.read_job()
        cut = exe.replace(b"\n", b" ").replace(b"\0", b" ")[:2048].rstrip()
        assert of_job.exe == cut.decode("utf-8", "backslashreplace")
        assert of_job.mounts == {"/": "ext4", "/gfs": "lustre"}


def test_mounts_are_bytes(write):
    points = {b"/\xc3\xa9t\xc3\xa9", b"/\xe9", b"/a b", b"/\xc2\xa0"}
    log = write({}, {}, mounts=dict.fromkeys(map(as_text, points), "xfs"))
    found = open_container(log).read_job().mounts
    assert set(map(as_bytes, found)) == points


# Sizes


@pytest.mark.parametrize("step", [1, 2])
def test_records_are_packed_a_few_at_a_time(write, step):
    """Also those that are not one behind the other in memory."""
    made = np.zeros(30_000, POSIX_RECORD)
    made["id"] = np.arange(1, 30_001)
    tracemalloc.start()
    try:
        path = write({"POSIX": made[::step]}, {})
        assert tracemalloc.get_traced_memory()[1] < made.nbytes / 4
    finally:
        tracemalloc.stop()
    parts = list(open_container(path).records("POSIX", POSIX_RECORD))
    assert np.array_equal(np.concatenate(parts), made[::step])


# Refusals


@pytest.mark.parametrize(
    ("of_modules", "names", "facts", "reason"),
    [
        ({"HDF5": np.zeros(1, STDIO_RECORD)}, {}, {}, r"interfaces \['HDF5'\]"),
        ({}, {}, {"partial": ["LUSTRE"]}, r"interfaces \['LUSTRE'\]"),
        ({"POSIX": np.zeros(1, STDIO_RECORD)}, {}, {}, "for POSIX"),
        ({}, {1: b"/a\0b"}, {}, r"names: got b'/a\\x00b', expected a path without"),
        ({}, {}, {"metadata": {"a": 1021 * "x"}}, "got 1024 bytes, expected fewer"),
    ],
)
def test_what_a_log_cannot_hold_is_refused(
    write, tmp_path, of_modules, names, facts, reason
):
    with pytest.raises(ValueError, match=reason):
        write(of_modules, names, **facts)
    assert not any(tmp_path.iterdir())


def test_disk_without_room_is_an_error_that_names_the_log(write, tmp_path):
    full = tmp_path / "full.darshan"
    full.symlink_to("/dev/full")
    older = write({}, {1: "/older"})
    content_before = older.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tierscope.core.files.secrets.token_hex", lambda _: "x")
        full.rename(tmp_path / ".job.darshan.x")  # the temporary name
        with pytest.raises(OSError, match=r"No space left on device: '.*/job.darshan'"):
            write({}, {1: "/newer"})
    assert list(tmp_path.iterdir()) == [older]
    assert older.read_bytes() == content_before
