"""A listing that was killed goes on from its notes, and only from whole lines."""

import os

import pytest
import tierscope.data.listing
from tierscope.data.listing import list_files
from tierscope.data.listing_notes import FolderContent, ListingNotes
from tierscope.data.tfrecord import DatasetError

NAMES = [f"{folder}/{i}" for folder in "abc" for i in range(5)]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A dataset of three folders, which is listed in blocks of two files."""
    monkeypatch.setattr(tierscope.data.listing, "_BLOCK_FILES", 2)
    for name in NAMES:
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(name)
    return tmp_path / "mine"


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


@pytest.fixture
def looked_at(monkeypatch):
    """The files that listings ask for, in any order."""
    asked, look = [], tierscope.data.listing._look

    def note(folder, *arguments):
        asked.extend(f"{folder[-1]}/{name}" for name in arguments[-1])
        return look(folder, *arguments)

    monkeypatch.setattr(tierscope.data.listing, "_look", note)
    return asked


class Killed(BaseException):
    pass


def kill_at(n_files):
    def report(so_far, _):
        if so_far >= n_files:
            raise Killed

    return report


def test_killed_listing_goes_on_where_it_stopped(root, notes, looked_at):
    with pytest.raises(Killed):
        list_files(root, notes, kill_at(9))  # two blocks of folder b
    del looked_at[:]
    assert list_files(root, notes).names == NAMES
    assert [name[0] for name in sorted(looked_at)] == list("bccccc")


def test_folder_that_has_changed_since_is_listed_again(root, notes, looked_at):
    list_files(root, notes)
    (root / "b" / "4").unlink()
    (root / "b" / "5").write_text("new")
    os.utime(root / "b", ns=(0, 0))
    del looked_at[:]
    listing = list_files(root, notes)
    assert listing.names == sorted({*NAMES, "b/5"} - {"b/4"})
    assert sorted(looked_at) == [f"b/{i}" for i in (0, 1, 2, 3, 5)]
    assert list_files(root, notes).names == listing.names


@pytest.mark.parametrize("n_lost", [1, 2, 40, 10_000])
def test_cut_line_is_listed_again(root, notes, n_lost):
    whole = list_files(root, notes)
    content = notes.read_bytes()
    notes.write_bytes(content[: max(0, len(content) - n_lost)])
    again = list_files(root, notes)
    assert again.names == whole.names
    assert again.size_bytes.tolist() == whole.size_bytes.tolist()
    assert list_files(root, notes).names == whole.names  # the notes are whole again


@pytest.mark.parametrize(
    "damage", [b"\0\0\0\n", b"{}\n", b"[]\n", b'{"path": "a", "mtime_ns": []}\n']
)
def test_damaged_line_is_listed_again(root, notes, damage):
    whole = list_files(root, notes)
    lines = notes.read_bytes().splitlines(keepends=True)
    notes.write_bytes(b"".join([*lines[:3], damage, *lines[3:]]))
    assert list_files(root, notes).names == whole.names


def test_notes_of_another_dataset_do_not_count(root, notes):
    list_files(root, notes)
    (root / "c").rename(root.parent / "other")
    assert list_files(root.parent / "other", notes).names == list("01234")


def test_content_survives_its_line(tmp_path):
    part = FolderContent(7, ["a\n"], left_out=[("b", "is a pipe")], is_whole=True)
    part.size_bytes.append(1 << 40)
    part.mtimes_ns.append(-1)
    part.is_link.append(1)
    part.devices.append(1)
    part.inodes.append(2)
    with ListingNotes(tmp_path / "notes", "/mine") as notes:
        notes.add("folder", part)
    with ListingNotes(tmp_path / "notes", "/mine") as notes:
        assert notes.folders["folder"].as_json() == {
            **part.as_json(),
            "left_out": [["b", "is a pipe"]],
        }


def test_notes_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(DatasetError, match=r"mine: cannot write it: Is a directory"):
        ListingNotes(tmp_path / "mine", "/mine")
