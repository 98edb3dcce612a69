"""Changes of files, copies that are missing, and descriptors that are closed."""

import pytest
from tierscope.benchmark.programs.table import (
    ALTERED,
    CLOSED,
    FELL_BACK,
    OPENED_GFS,
    OPENED_LFS,
    OPENED_TO_WRITE,
    REUSED,
)

FILE = "train/2.png"
CHANGES = {
    "write": "open(path, 'r+').close()",
    "append": "open(path, 'a').close()",
    "create": "open(path, 'w').write('anew')",
    "C stream": "libc.fclose(ctypes.c_void_p(stream(path, 'r+')))",
    "truncate": "os.truncate(path, 1)",
    "unlink": "os.unlink(path)",
    "rename": "os.rename(path, data + '/elsewhere')",
    "replace": "os.rename(data + '/later', path)",
    "touch": "os.utime(path)",
    "mode": "os.chmod(path, 0o600)",
    "another link": "open(beside + '/other/train/2.png', 'r+').close()",
    "real path": "open(real + '/train/2.png', 'r+').close()",
}
PATH = "path = data + '/train/2.png'\n"
CLOSES = """
other = data + '/train/1.png'
fds = [os.open(path, 0), os.open(other, 0), os.open('/dev/null', 0)]
os.close(fds[2])
os.close(fds[0])
copy = os.dup(fds[1])
os.close(fds[1])
os.close(copy)
fd = os.open(path, 0)
os.dup2(os.open(other, 0), fd)
os.close(fd + 1)
os.close(fd)
libc.fclose(ctypes.c_void_p(stream(path, 'r')))
os.open(path, 0)
os.open(other, 0)
os.closerange(3, 9)
import subprocess
fd = os.open(path, 0)
subprocess.run(['true'])  # by vfork; the child closes its descriptors
os.close(fd)
"""


@pytest.mark.parametrize("change", CHANGES)
def test_changed_file_leaves_the_lfs(any_node, change):
    code = f"{PATH}{CHANGES[change]}\nprint(opened(path))"
    found = any_node.run(code).strip()
    is_gone = change in ("unlink", "rename")
    assert found == ("No such file or directory" if is_gone else f"gfs/{FILE}")
    by_name = ("truncate", "unlink", "rename", "replace", "touch", "mode")
    kinds = [ALTERED if change in by_name else OPENED_TO_WRITE]
    kinds += [] if is_gone else [OPENED_GFS]
    if change == "create":  # Python's open of mode w truncates at the open
        assert (any_node.folder / "set" / FILE).read_text() == "anew"
    assert any_node.events() == [(kind, FILE, 0) for kind in kinds]
    assert not any_node.table.on_lfs()[2]
    assert any_node.table.written().tolist() == [i == 2 for i in range(8)]


def test_change_that_fails_leaves_the_copy_in_use(any_node):
    code = f"{PATH}print(opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))\n"
    code += "print(opened(path, os.O_RDWR | os.O_DIRECTORY))\nprint(opened(path))"
    lines = any_node.run(code).splitlines()
    assert lines == ["File exists", "Not a directory", f"lfs/{FILE}"]
    assert any_node.events() == [(OPENED_LFS, FILE, 0)]


def test_renamed_folder_is_told_of_without_a_file(any_node):
    any_node.run("os.rename(data + '/deep', data + '/deeper')")
    assert any_node.events() == [(ALTERED, "", 0)]
    any_node.run("os.mkdir(beside + '/x'); os.rename(beside + '/x', beside + '/y')")
    assert any_node.events() == []


@pytest.mark.parametrize("reason", ["missing", "a link that leads nowhere"])
def test_gfs_serves_what_the_lfs_lacks_and_it_is_counted(any_node, reason):
    copy = any_node.folder / "lfs" / FILE
    copy.unlink()
    if reason != "missing":
        copy.symlink_to("nowhere")
    code = f"{PATH}print(opened(path, os.O_RDONLY))\nos.stat(path)"
    assert any_node.run(code).strip() == f"gfs/{FILE}"
    assert any_node.events() == [(FELL_BACK, FILE, 0), (OPENED_GFS, FILE, 0)]
    counts = any_node.table.counts()
    assert counts == dict.fromkeys(counts, 0) | {"fallbacks": 1, "look_fallbacks": 1}


def test_file_that_is_on_no_tier_has_the_error_of_the_programs_own_call(any_node):
    for tier in ("set", "lfs"):
        (any_node.folder / tier / FILE).unlink()
    code = f"{PATH}print(opened(path)); print(os.path.exists(path), stream(path, 'r'))"
    expected = ["No such file or directory", "False None"]
    assert any_node.run(code).splitlines() == expected
    assert any_node.events() == []


def test_every_close_of_a_dataset_file_is_told_of_once(make_node):
    node = make_node(wants_closes=True)
    node.run(PATH + CLOSES)
    assert [name for _, name, _ in node.events(CLOSED)] == [
        *[FILE, "train/1.png"],
        *[FILE, "train/1.png"],  # replaced by dup2, and the last descriptor of two
        FILE,
        *[FILE, "train/1.png"],
        FILE,
    ]


def test_close_that_libc_does_not_see_is_told_of_when_the_number_is_another_files(
    make_node,
):
    """As in Node.js. What has a second descriptor is still open."""
    node = make_node(wants_closes=True)
    node.run(
        f"""{PATH}
CLOSE = {{"x86_64": 3, "aarch64": 57}}[os.uname().machine]
fd = os.open(path, 0)
copy = os.dup(fd)
libc.syscall(CLOSE, fd)
assert os.open("/dev/null", 0) == fd  # the copy is still of the file
os.close(fd)
libc.syscall(CLOSE, copy)
assert os.open(data + "/train/1.png", 0) == fd
assert os.dup(fd) == copy
libc.syscall(CLOSE, fd)
libc.syscall(CLOSE, copy)
for number in (fd, copy):
    assert os.open("/dev/null", 0) == number
"""
    )
    assert [name for _, name, _ in node.events(REUSED)] == [FILE, "train/1.png"]
    assert node.events(CLOSED) == []
