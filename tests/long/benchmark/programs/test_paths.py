"""Which file a program's path reaches, and in which call."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest
import sessions
from hypothesis import strategies

CASES = {
    "absolute": ("opened(f'{data}/train/2.png')", "lfs/train/2.png"),
    "not on the LFS": ("opened(f'{data}/train/1.png')", "gfs/train/1.png"),
    "space": ("opened(f'{data}/deep/one/a b')", "lfs/deep/one/a b"),
    "real path": ("opened(f'{real}/train/2.png')", "lfs/train/2.png"),
    "slashes": ("opened(f'/{data}//train///2.png')", "lfs/train/2.png"),
    "dots": ("opened(f'{data}/./train/./2.png')", "lfs/train/2.png"),
    "parent inside": ("opened(f'{data}/train/../train/2.png')", "lfs/train/2.png"),
    "two parents": ("opened(f'{data}/deep/one/../../train/2.png')", "lfs/train/2.png"),
    "parent of a link": (
        "opened(f'{data}/linked/../deep/one/a b')",
        "lfs/deep/one/a b",
    ),
    "out and in again": (
        "opened(f'{data}/../{os.path.basename(data)}/train/2.png')",
        "lfs/train/2.png",
    ),
    "from outside": ("opened(f'/usr/../{data}/train/2.png')", "lfs/train/2.png"),
    "parent of what is not there": (
        "opened(f'{data}/none/../train/2.png')",
        "No such file or directory",
    ),
    "parent of a file": (
        "opened(f'{data}/train/2.png/../2.png')",
        {"Not a directory", "No such file or directory"},
    ),
    "slash behind a file": ("opened(f'{data}/train/2.png/')", "Not a directory"),
    "dot behind a file": ("opened(f'{data}/train/2.png/.')", "Not a directory"),
    "link inside to a file": ("opened(f'{data}/link.png')", "lfs/link.png"),
    "link inside to a folder": ("opened(f'{data}/linked/2.png')", "lfs/train/2.png"),
    "link outside to the folder": (
        "opened(f'{beside}/other/train/2.png')",
        "lfs/train/2.png",
    ),
    "link outside to a file": ("opened(f'{beside}/file')", "lfs/train/2.png"),
    "made later": ("opened(f'{data}/later')", "gfs/later"),
    "not there": ("opened(f'{data}/none')", "No such file or directory"),
    "folder": ("opened(f'{data}/train')", "gfs/train"),
    "root": ("opened(data)", "gfs"),
    "root with a slash": ("opened(data + '/')", "gfs"),
    "prefix of another name": (
        "opened(f'{beside}/set-of-another/a').endswith('set-of-another/a')",
        True,
    ),
    "relative": (
        "(os.chdir(data), opened('train/2.png'), os.chdir('/'))[1]",
        "lfs/train/2.png",
    ),
    "relative to a folder": (
        "(os.chdir(f'{data}/train'), opened('2.png'), os.chdir('/'))[1]",
        "lfs/train/2.png",
    ),
    "relative with a parent": (
        "(os.chdir(f'{data}/deep'), opened('../train/2.png'), os.chdir('/'))[1]",
        "lfs/train/2.png",
    ),
    "relative to a folder's descriptor": ("at(data, 'train/2.png')", "lfs/train/2.png"),
    "relative to one of O_PATH": (
        "at(f'{data}/train', '2.png', os.O_PATH)",
        "lfs/train/2.png",
    ),
    "relative to one by another link": (
        "at(f'{beside}/other/train', '2.png')",
        "lfs/train/2.png",
    ),
    "O_PATH": ("opened(f'{data}/train/2.png', os.O_PATH)", "lfs/train/2.png"),
    "O_NOFOLLOW": ("opened(f'{data}/train/2.png', os.O_NOFOLLOW)", "lfs/train/2.png"),
    "O_NOFOLLOW of a link": (
        "opened(f'{data}/link.png', os.O_NOFOLLOW)",
        "Too many levels of symbolic links",
    ),
    "O_DIRECTORY": (
        "opened(f'{data}/train/2.png', os.O_DIRECTORY)",
        "Not a directory",
    ),
    "O_TMPFILE": (
        "opened(data, os.O_TMPFILE | os.O_RDWR).startswith('gfs/#')",
        True,
    ),
    "too long": ("opened(f'{data}/' + 'x' * 5000)", "File name too long"),
    "long": ("opened(f'{data}/' + './' * 1900 + 'train/2.png')", "lfs/train/2.png"),
    "long, with parents": (
        "opened(f'{data}/' + 'train/../' * 400 + 'train/2.png')",
        "lfs/train/2.png",
    ),
    "empty": ("opened('')", "No such file or directory"),
    "stat": ("content(os.stat(f'{data}/train/2.png'))", "lfs"),
    "lstat": ("content(os.lstat(f'{data}/train/2.png'))", "lfs"),
    "lstat of a link": ("os.path.islink(f'{data}/link.png')", True),
    "stat of a link": ("os.stat(f'{data}/link.png').st_size", len("lfs link.png")),
    "entry's stat": ("entry_stat(f'{data}/train', '2.png')", "lfs"),
    "readlink": ("os.readlink(f'{data}/link.png')", "train/1.png"),
    "access": ("os.access(f'{data}/train/2.png', os.R_OK)", True),
    "no access": ("os.access(f'{data}/none', os.R_OK)", False),
    "listing": ("sorted(os.listdir(f'{data}/train'))", [f"{i}.png" for i in range(6)]),
    "exists": ("os.path.isdir(data)", True),
}
HELPERS = """
import json
def at(folder, name, flags=os.O_RDONLY):
    fd = os.open(folder, flags | os.O_DIRECTORY)
    try:
        return opened(name, dir_fd=fd)
    finally:
        os.close(fd)

def content(info):
    for tier, folder in (("gfs", real), ("lfs", lfs)):
        for root, _, names in os.walk(folder):
            if info.st_ino in (os.DirEntry.inode(e) for e in os.scandir(root)):
                return tier

def entry_stat(folder, name):
    return next(content(e.stat()) for e in os.scandir(folder) if e.name == name)
"""


def test_every_spelling_of_a_path_reaches_the_file_on_its_tier(any_node):
    cases = ", ".join(f"{name!r}: {code}" for name, (code, _) in CASES.items())
    found = json.loads(any_node.run(f"{HELPERS}\nprint(json.dumps({{{cases}}}))"))
    expected = {name: value for name, (_, value) in CASES.items()}
    wrong = {
        name: (found[name], value)
        for name, value in expected.items()
        if found[name] not in (value if isinstance(value, set) else [value])
    }
    assert wrong == {}
    assert any_node.table.counts()["undirected"] == 0


def test_tools_make_folders_files_and_programs_in_the_real_dataset(node):
    script = node.folder / "set" / "tool"
    script.write_text("#!/bin/sh\necho ran $0\n")
    script.chmod(0o755)
    code = f"""
set -e
mkdir -p {node.data}/made/deep
cp {node.data}/train/2.png {node.data}/made/copy
cat < {node.data}/made/copy
ls {node.data}/made
mv {node.data}/made/copy {node.data}/made/moved
cd {os.path.dirname(node.data)}
! cat etc/hostname 2> /dev/null
cd {os.path.basename(node.data)}/made && cat moved
rm -r {node.data}/made
{node.data}/tool
readlink -e {node.data}/train/2.png
"""
    found = node.execute(["sh", "-c", code]).stdout
    assert found.split("\n") == [
        "lfs train/2.pngcopy",
        "deep",
        f"lfs train/2.pngran {node.folder}/set/tool",
        f"{node.data}/train/2.png",
        "",
    ]
    assert not (node.folder / "set" / "made").exists()


# Components that say most in few steps; the shortest paths come first.
PARTS = ["train", "..", "2.png", ".", "", "linked", "deep", "one", "1.png", "link.png"]
SERVER = """
for line in sys.stdin:
    print(opened(line[:-1]), flush=True)
"""


@pytest.fixture
def servers(make_node):
    """Return a node in place, and two programs that open paths: one is redirected."""
    node = make_node(is_virtual=False)
    started = [
        sessions.start(
            node.command(SERVER),
            node.folder,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for environment in (node.environment, {})
    ]

    def ask(path):
        for server in started:
            server.stdin.write(f"{path}\n")
            server.stdin.flush()
        return tuple(server.stdout.readline().rstrip("\n") for server in started)

    yield node, ask
    for server in started:
        server.communicate()


def test_any_path_reaches_the_file_that_the_kernel_would_open(servers):
    node, ask = servers
    on_lfs = node.table.on_lfs().tolist()
    tiers = {
        name: "lfs" if one else "gfs"
        for name, one in zip(node.table.names, on_lfs, strict=True)
    }

    @hypothesis.settings(
        suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
        max_examples=300,
    )
    @hypothesis.given(strategies.lists(strategies.sampled_from(PARTS), max_size=8))
    def check(parts):
        path = f"{node.data}/{'/'.join(parts)}"
        found, real = ask(path)
        name = real.partition("/")[2]
        expected = {f"{tiers[name]}/{name}"} if name in tiers else {real}
        if parts and parts[-1] == "link.png" and name == "train/1.png":
            expected.add("lfs/link.png")  # a file of its own
        assert found in expected

    check()


def test_open_of_an_absolute_path_makes_no_other_system_call(node):
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    program = node.folder / "only_opens"
    subprocess.run(
        [compiler, "-o", program, Path(__file__).with_name("only_opens.c")], check=True
    )
    files = [f"{node.data}/train/{i}.png" for i in range(6)]
    done = node.execute([str(program), *files], check=False)
    if done.returncode == 3:
        pytest.skip("needs seccomp")
    assert done.stdout == "6\n"
    assert len(node.events()) == 7  # the client opens the first one before, too
    done = node.execute([str(program), f"{node.data}/./train/../link.png"], check=False)
    assert done.returncode != 0  # killed: this path needs more
