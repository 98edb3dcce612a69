"""Listings of users' datasets: what they hold, refuse, leave out, and find changed."""

import os
import socket
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tierscope.data.listing
from tierscope.core.tables import read_table, write_table
from tierscope.data.listing import _mtime_ns, changed_files, list_files
from tierscope.data.tfrecord import DatasetError


@pytest.fixture
def root(tmp_path):
    """A folder of a dataset."""
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def make(root, *names):
    """Write files that hold their own names."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def listed(root, **options):
    return list_files(root, root.parent / "notes", **options)


def manifest_of(root):
    path = root.parent / "manifest.parquet"
    write_table(pd.DataFrame(listed(root).columns()), path, "user_manifest")
    return read_table(path, "user_manifest")


def test_files_of_all_folders_are_listed_in_the_order_of_their_names(root):
    names = ["a b", "a.png", "a/a", "a/line\nbreak", "b/c/d", "b/\N{SNOWMAN}"]
    make(root, *reversed(names))
    (root / "empty").touch()
    (root / "no files").mkdir()
    names = sorted([*names, "empty"])
    os.utime(root / "a b", ns=(0, 1_234_567_890))
    manifest = manifest_of(root)
    sizes = [0 if name == "empty" else len(name.encode()) for name in names]
    assert manifest["path"].tolist() == names
    assert manifest["file_id"].tolist() == list(range(len(names)))
    assert manifest["size_bytes"].tolist() == sizes
    assert manifest["mtime_ns"][0] == 1_234_567_890
    assert not manifest["is_link"].any()


def test_table_is_read_as_any_manifest(root):
    make(root, "a")
    manifest_of(root)
    manifest = read_table(root.parent / "manifest.parquet", "manifest")
    assert manifest.to_dict("records") == [
        {"file_id": 0, "path": "a", "size_bytes": 1, "ost": -1}
    ]


def test_large_folder_is_listed_in_blocks(root, monkeypatch):
    monkeypatch.setattr(tierscope.data.listing, "_BLOCK_FILES", 2)
    names, reports = [f"{i:02d}" for i in range(7)], []
    make(root, *names, "folder/last")
    listing = listed(root, report=lambda *numbers: reports.append(numbers))
    assert listing.names == [*names, "folder/last"]
    assert [reports[0], reports[-1]] == [(2, 0), (8, 2)]


def test_link_to_a_file_is_a_file_of_its_own(root, tmp_path):
    make(tmp_path, "elsewhere/content")
    make(root, "a")
    (root / "b").symlink_to("a")
    (root / "c").symlink_to(tmp_path / "elsewhere" / "content")
    listing = listed(root)
    assert listing.names == ["a", "b", "c"]
    assert listing.is_link.tolist() == [False, True, True]
    assert listing.size_bytes.tolist() == [1, 1, len("elsewhere/content")]


@pytest.mark.parametrize("how", ["link", "hard link", "folder"])
def test_names_that_lead_to_one_file_know_the_first(root, how):
    """A cache of Hugging Face's has links to blobs, another one a link to a folder."""
    make(root, "blobs/a", "blobs/b", "other")
    if how == "folder":
        (root / "snap").symlink_to("blobs")
    else:
        (root / "snap").mkdir()
        for name in "ab":
            if how == "link":
                (root / "snap" / name).symlink_to(f"../blobs/{name}")
            else:
                os.link(root / "blobs" / name, root / "snap" / name)
    manifest = manifest_of(root)
    names = ["blobs/a", "blobs/b", "other", "snap/a", "snap/b"]
    assert manifest["path"].tolist() == names
    assert manifest["same_as"].tolist() == [-1, -1, -1, 0, 1]


@pytest.mark.parametrize(
    ("inodes", "devices", "mtimes_ns", "same_as"),
    [
        ([7, 7, 8, 7], [1, 1, 1, 1], [5, 5, 5, 5], [-1, 0, -1, 0]),
        ([0, 0, 0, 0], [1, 1, 1, 1], [5, 5, 5, 5], [-1, -1, -1, -1]),  # not told
        ([7, 7, 8, 7], [1, 2, 1, 1], [5, 5, 5, 6], [-1, -1, -1, -1]),
    ],
)
def test_files_are_the_same_by_device_inode_and_time(
    inodes, devices, mtimes_ns, same_as
):
    columns = map(np.array, ([3] * 4, mtimes_ns, devices, inodes))
    assert tierscope.data.listing._same_as(*columns).tolist() == same_as


def test_link_to_a_folder_is_followed(root, tmp_path):
    make(tmp_path, "elsewhere/deep/x")
    make(root, "v1/a")
    (root / "latest").symlink_to("v1")
    (root / "train").symlink_to(tmp_path / "elsewhere")
    assert listed(root).names == ["latest/a", "train/deep/x", "v1/a"]


def test_links_in_circles_end(root):
    make(root, "a/x", "b/y")
    (root / "a" / "me").symlink_to("..")
    (root / "a" / "to-b").symlink_to("../b")
    (root / "b" / "to-a").symlink_to("../a")
    (root / "all").symlink_to("/")
    listing = listed(root)
    assert listing.names == ["a/to-b/y", "a/x", "b/to-a/x", "b/y"]
    assert sorted(listing.left_out) == [
        "a/me: leads to a folder that holds it",
        "a/to-b/to-a: is a link that was followed at another path",
        "all: leads to a folder that holds it",
        "b/to-a/me: is a link that was followed at another path",
        "b/to-a/to-b: is a link that was followed at another path",
    ]


def test_what_is_neither_file_nor_folder_is_named_and_left_out(root, monkeypatch):
    make(root, "a", ".tierscope-epoch-1")
    os.mkfifo(root / "pipe")
    (root / "broken").symlink_to("absent")
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    listing = listed(root)
    assert listing.names == ["a"]
    assert sorted(listing.left_out) == [
        ".tierscope-epoch-1: has a name that marks epochs",
        "broken: is a link that leads nowhere",
        "pipe: is a pipe",
        "socket: is a socket",
    ]


def refusal(root):
    with pytest.raises(DatasetError) as error:
        listed(root)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_name_that_is_not_utf_8_is_refused(root):
    (root / os.fsdecode(b"ma\xdf")).touch()
    assert r"holds 'ma\\udcdf', a name that is not UTF-8" in refusal(root)


def test_dataset_without_a_file_is_refused(root):
    (root / "folder").mkdir()
    assert refusal(root) == f"{root}: holds no file, expected at least one."


def test_file_is_refused_with_the_folder_that_holds_it(root):
    make(root, "data.h5")
    assert refusal(root / "data.h5").endswith(f"give the one that holds it: {root}")


def test_folder_that_does_not_exist_is_named(tmp_path):
    assert "absent: does not exist, expected the folder" in refusal(tmp_path / "absent")


def test_folder_that_holds_the_results_is_refused(root):
    make(root, "a")
    with pytest.raises(DatasetError, match="where tierscope writes"):
        list_files(root, root / "results" / "notes")
    assert os.listdir(root) == ["a"]


def test_folder_that_cannot_be_read_is_named(root, monkeypatch):
    make(root, "a", "secret/b")
    scandir = os.scandir

    def refuse(folder):
        if str(folder).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(tierscope.data.listing.os, "scandir", refuse)
    expected = f"{root}/secret: cannot be listed: Permission denied."
    assert refusal(root) == expected


def test_file_that_vanishes_meanwhile_is_named(root, monkeypatch):
    make(root, "a")
    look = tierscope.data.listing._look

    def vanish(folder, *arguments):
        (root / "a").unlink()
        return look(folder, *arguments)

    monkeypatch.setattr(tierscope.data.listing, "_look", vanish)
    assert refusal(root).startswith(f"{root}/a: vanished while the dataset was listed")


def test_files_that_changed_are_found(root):
    make(root, "same", "longer", "touched", "gone", "replaced", "in/same")
    (root / "link").symlink_to("touched")
    manifest = manifest_of(root)
    assert changed_files(manifest, root) == []
    with open(root / "longer", "a") as file:
        file.write("!")
    state = os.stat(root / "longer")
    os.utime(root / "touched", ns=(0, state.st_mtime_ns + 1))
    (root / "gone").unlink()
    (root / "replaced").unlink()
    (root / "replaced").mkdir()
    make(root, "new")  # is in no manifest
    expected = ["gone", "link", "longer", "replaced", "touched"]
    assert changed_files(manifest, root) == expected


def test_time_after_the_tables_end_is_their_last():
    assert _mtime_ns(SimpleNamespace(st_mtime_ns=1 << 63)) == (1 << 63) - 1
    assert _mtime_ns(SimpleNamespace(st_mtime_ns=-5)) == -5
