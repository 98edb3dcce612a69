"""Manifests and notes that somebody made: refused in one line, or read as they are."""

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_files import damaged, hostile_notes, hostile_rows
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.tables import TableError, read_table
from tierscope.data.listing import list_files
from tierscope.data.tfrecord import DatasetError

RANDOM = st.randoms(use_true_random=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for files that each example replaces."""
    return tmp_path_factory.mktemp("hostile")


@given(RANDOM, st.booleans())
def test_hostile_manifest_is_refused_in_one_line_or_whole(folder, rng, is_damaged):
    path = folder / "manifest.parquet"
    try:
        table = pa.table(hostile_rows(rng, 5))
    except (pa.ArrowException, OverflowError):  # no such table can be
        return
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
    if is_damaged:
        path.write_bytes(damaged(path.read_bytes(), rng))
    try:
        found = read_table(path, "user_manifest")
    except TableError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert found.to_dict("list") == table.to_pydict()


@pytest.mark.parametrize("path", ["/etc/passwd", "../a", "a/../../b", "", "a\0", ".."])
def test_manifest_with_paths_outside_of_the_folder_is_refused(folder, path):
    rows = hostile_rows(Random(2), 3) | {"path": ["..a/b..", ".a/b\n", path]}
    usual = {"file_id": [0, 1, 2], "size_bytes": [1] * 3, "ost": [-1] * 3}
    usual |= {"mtime_ns": [1] * 3, "same_as": [-1] * 3}
    pq.write_table(pa.table(rows | usual), folder / "manifest.parquet")
    with pytest.raises(
        TableError, match=r"user_manifest\.path: got .*, expected a text"
    ):
        read_table(folder / "manifest.parquet", "user_manifest")


@given(RANDOM)
def test_hostile_notes_end_a_listing_in_one_line_or_not_at_all(folder, rng):
    root, notes = folder / "root", folder / "notes"
    for name in ("a/1", "a/2", "b/c/3", "4"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    notes.unlink(missing_ok=True)
    list_files(root, notes)
    notes.write_bytes(hostile_notes(notes.read_bytes(), rng))
    try:
        list_files(root, notes)
    except DatasetError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_manifest_with_a_column_that_is_no_utf_8_is_refused(folder):
    path = folder / "manifest.parquet"
    pq.write_table(pa.table({"pathq": ["a"]}), path, store_schema=False)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"pathq", b"pa\x80hq"))
    with pytest.raises(TableError, match="cannot read table user_manifest"):
        read_table(path, "user_manifest")
