"""Names of records: both ways of splitting, repeated, missing and cut ones."""

import struct

import pytest
from darshan_containers import build_log
from hypothesis import given, settings
from hypothesis import strategies as st
from tierscope.trace.darshan import names as names_module
from tierscope.trace.darshan.container import LogError, open_container
from tierscope.trace.darshan.names import read_names

PATHS = st.one_of(
    st.binary(max_size=12).map(lambda path: path.replace(b"\0", b"/")),
    st.sampled_from([b"<STDIN>", b"/a", b"a/", b"//", b"/gfs/d/1", b"/gfs/d/2"]),
)
IDS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 9),
    st.sampled_from([1 << 56, 0x2F2F2F2F2F2F2F2F, 0x2F00000000000000]),
)


def paths_of(log):
    """Return the path of each id."""
    names = read_names(open_container(log))
    assert names.ids.tolist() == sorted(names.ids.tolist())
    return {int(id_): names.path(i) for i, id_ in enumerate(names.ids)}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return the path of a log that each test replaces."""
    return tmp_path_factory.mktemp("names") / "job.darshan"


@settings(deadline=None, derandomize=True)
@given(pairs=st.dictionaries(IDS, PATHS), order=st.sampled_from("<>"))
def test_names_are_split_alike_one_by_one_and_all_at_once(log, pairs, order):
    build_log(log, {}, list(pairs.items()), order=order)
    expected = {
        id_: path.decode("utf-8", "surrogateescape")
        for id_, path in pairs.items()
        if path
    }
    assert paths_of(log) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names_module, "_FEW_BYTES", -1)
        assert paths_of(log) == expected


@settings(deadline=None, derandomize=True)
@given(pairs=st.dictionaries(IDS, st.binary(max_size=12)), order=st.sampled_from("<>"))
def test_names_of_format_3_00_have_lengths(log, pairs, order):
    build_log(log, {}, list(pairs.items()), version="3.00", order=order)
    assert paths_of(log) == {
        id_: path.decode("utf-8", "surrogateescape")
        for id_, path in pairs.items()
        if path
    }


@pytest.mark.parametrize("few_bytes", [-1, 1 << 15])
def test_names_that_ranks_repeat_must_agree(log, monkeypatch, few_bytes):
    monkeypatch.setattr(names_module, "_FEW_BYTES", few_bytes)
    pairs = [(7, b"/a/b"), (5, b"/c"), (7, b"/a/b")]
    assert paths_of(build_log(log, {}, pairs)) == {5: "/c", 7: "/a/b"}
    with pytest.raises(LogError, match=r"one record id for '/a/b' and '/a/c'"):
        paths_of(build_log(log, {}, [*pairs, (7, b"/a/c")]))


@pytest.mark.parametrize("few_bytes", [-1, 1 << 15])
@pytest.mark.parametrize("pairs", [[(7, b""), (7, b"/a")], [(7, b"/a"), (7, b"")]])
def test_empty_name_is_none_and_contradicts_nothing(log, monkeypatch, few_bytes, pairs):
    monkeypatch.setattr(names_module, "_FEW_BYTES", few_bytes)
    assert paths_of(build_log(log, {}, [*pairs, (8, b"")])) == {7: "/a"}


def test_log_without_names_has_none(log):
    assert paths_of(build_log(log, {}, [])) == {}


@pytest.mark.parametrize("few_bytes", [-1, 1 << 15])
@pytest.mark.parametrize("version", ["3.00", "3.41"])
@pytest.mark.parametrize("cut", [1, 3, 12])
def test_cut_name_is_refused(log, monkeypatch, few_bytes, version, cut):
    monkeypatch.setattr(names_module, "_FEW_BYTES", few_bytes)
    build_log(log, {}, [(5, b"/a/b"), (7, b"/a/c")], version=version, compression=2)
    content = log.read_bytes()[:-cut]
    log.write_bytes(shortened(content, cut))
    with pytest.raises(LogError, match="corrupt in its names: the last one is cut"):
        paths_of(log)


def test_only_name_can_be_the_cut_one(log, monkeypatch):
    monkeypatch.setattr(names_module, "_FEW_BYTES", -1)
    build_log(log, {}, [(0x2F2F2F2F2F2F2F2F, b"/a")], compression=2)
    log.write_bytes(shortened(log.read_bytes()[:-1], 1))  # no zero is left
    with pytest.raises(LogError, match="corrupt in its names: the last one is cut"):
        paths_of(log)


def shortened(content, n_bytes):
    """Return a log with a table that says its names are shorter."""
    at = 40 if content.startswith(b"3.41") else 32  # the length of the names
    (length,) = struct.unpack_from("<Q", content, at)
    return content[:at] + struct.pack("<Q", length - n_bytes) + content[at + 8 :]
