"""The bricks of GlusterFS files, from recorded attributes of volumes."""

import errno
from pathlib import Path

import pytest
from tierscope.core.machine import TierError
from tierscope.storage.parallel.glusterfs import ATTRIBUTE, find_bricks

FOLDER = Path("/mnt/gfs/small")


def posix(brick, name="", host="vm"):
    return f"<POSIX(/realfs/bricks/{brick}):{host}:/realfs/bricks/{brick}/small{name}>"


@pytest.fixture
def volume(monkeypatch):
    """Return a volume's attributes by path; a path without one is not GlusterFS."""
    attributes = {}

    def getxattr(path, name):
        assert name == ATTRIBUTE
        if path not in attributes:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return f"({attributes[path]})\0".encode()

    monkeypatch.setattr("os.getxattr", getxattr)
    return attributes


def fill(volume, bricks, **files):
    """Describe a distributed volume whose bricks answered in this order."""
    all_bricks = " ".join(posix(brick) for brick in bricks)
    volume[FOLDER] = (
        f"(<DISTRIBUTE:distribute> {all_bricks}) (distribute-layout (client1 0 "
        "1073741822) (client2 1073741823 2147483645))"
    )
    for name, brick in files.items():
        volume[FOLDER / name] = f"<DISTRIBUTE:distribute> {posix(brick, f'/{name}')}"


def test_bricks_are_numbered_by_their_folders(volume):
    fill(volume, ["4", "10", "3", "1"], a="10", b="1", c="3")
    assert find_bricks(FOLDER, ["a", "b", "c"], 4) == [3, 0, 1]


def test_bricks_are_numbered_by_their_hosts_first(volume):
    bricks = [("server10", "1"), ("server2", "9")]
    volume[FOLDER] = " ".join(posix(brick, host=host) for host, brick in bricks)
    for name, (host, brick) in zip("ab", bricks, strict=True):
        volume[FOLDER / name] = posix(brick, f"/{name}", host)
    assert find_bricks(FOLDER, ["a", "b"], 2) == [1, 0]


def test_other_file_systems_do_not_tell(volume):
    assert find_bricks(FOLDER, ["a", "b"], 4) == [-1, -1]


def test_file_on_several_bricks_is_not_known(volume):
    fill(volume, ["1", "2", "3", "4"], a="1")
    volume[FOLDER / "b"] = f"<REPLICATE:replicate-0> {posix('1')} {posix('2')}"
    assert find_bricks(FOLDER, ["a", "b"], 2) == [-1, -1]


def test_other_number_of_bricks_than_the_system_file_says_is_refused(volume):
    fill(volume, ["1", "2", "3"], a="1")
    with pytest.raises(TierError, match=r"3 bricks, expected 4, as gfs\.n_osts of the"):
        find_bricks(FOLDER, ["a"], 4)
    assert find_bricks(FOLDER, ["a"], 0) == [0]  # the system file does not say
