import os
import shutil

import pytest
from tierscope.core.words import as_bytes
from tierscope.storage import mounts
from tierscope.storage.mounts import Mount, mount_of, mount_table

TEXT = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,errors=remount-ro
30 22 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=64k
40 22 7:3 / /mnt/fast rw,noatime shared:5 master:1 - ext4 /dev/loop3 rw,discard
41 22 0:50 / /mnt/slow rw,relatime - fuse.glusterfs node:/my\040volume rw,user_id=0
42 22 7:4 /sub /mnt/my\040disk rw - xfs /dev/loop4 rw
43 40 7:9 / /mnt/fast rw,relatime - ext2 /dev/loop9 rw
""".lstrip()


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/", "/"),
        ("/mnt", "/"),
        ("/mnt/slow", "/mnt/slow"),
        ("/mnt/slow/me/not-there", "/mnt/slow"),
        ("/mnt/slower", "/"),
        ("/mnt/my disk/x", "/mnt/my disk"),
    ],
)
def test_longest_mount_point_above_a_path_holds_it(path, point):
    assert mount_of(path, TEXT).point == point


def test_all_fields_are_read():
    found = mount_of("/mnt/slow/file", TEXT)
    options = "rw,relatime,user_id=0"
    assert found == Mount(
        "/mnt/slow", "fuse.glusterfs", "node:/my volume", options, (0, 50)
    )


def test_last_mount_at_a_point_hides_the_others():
    found = mount_of("/mnt/fast/file", TEXT)
    assert (found.fs_type, found.device) == ("ext2", (7, 9))


def test_path_on_no_mount_is_refused():
    inner = TEXT.splitlines()[1]
    with pytest.raises(ValueError, match=r"^/home: no mount of "):
        mount_of("/home", inner)


def test_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to("/mnt/slow/me")
    assert mount_of(tmp_path / "link", TEXT).point == "/mnt/slow"


def test_kernels_own_list_is_read():
    found = mount_of("/proc/self/status")
    assert (found.point, found.fs_type) == ("/proc", "proc")
    status = os.stat("/proc")
    assert found.device == (os.major(status.st_dev), os.minor(status.st_dev))
    assert shutil.disk_usage(mount_of(__file__).point).total > 0


def test_mount_points_are_bytes_that_only_blanks_separate(monkeypatch):
    """Python takes a space of Unicode for a blank, too."""
    points = [b"/\xe9t\xe9", b"/a\xc2\xa0b", b"/\xe2\x80\xa8", b"/my\\040disk"]
    lines = b"".join(b"none %b xfs rw 0 0\n" % point for point in points)
    monkeypatch.setattr(mounts.Path, "read_bytes", lambda path: lines)
    assert [as_bytes(point) for point in mount_table()] == points
    assert set(mount_table().values()) == {"xfs"}
