"""Two real file systems on one machine: GlusterFS, and ext4 on a loop device."""

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sessions
import yaml
from integration.conftest import TINY_SYSTEM, Project
from tierscope.core.tables import read_table
from tierscope.storage.parallel.glusterfs import find_bricks

SCRIPT = Path(__file__).parents[2] / "resources" / "realfs" / "realfs.sh"
TOOLS = ("glusterfsd", "fusermount3", "mkfs.ext4", "losetup", "setfattr")
READ_US = 20_000


def why_not():
    """Return why this machine cannot have these file systems, None if it can."""
    if os.geteuid() != 0:
        return "needs root, for mounts"
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not Path(device).exists():
            return f"needs {device}"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}: see TEST_PACKAGES in the Makefile"
    return None


needs_mounts = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def realfs(command, folder, expect=0, **environment):
    """Run the script and return what it printed."""
    done = subprocess.run(
        [SCRIPT, command, folder],
        env={
            **os.environ,
            "REALFS_READ_US": str(READ_US),
            "REALFS_LFS_MIB": "32",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with both tiers mounted."""
    folder = tmp_path_factory.mktemp("realfs") / "tiers"
    realfs("up", folder)
    yield folder
    realfs("down", folder)


@pytest.fixture
def own_folder(tmp_path):
    """Return the name of a folder; whatever comes up there is taken down."""
    yield tmp_path / "tiers"
    realfs("down", tmp_path / "tiers")


def traces(folder):
    """Return what is mounted, attached or running below a folder."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True)
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if command.startswith("gluster"):
            commands.append(command)
    lines = [*mounts, *loops.stdout.splitlines(), *commands]
    return [line for line in lines if f"{folder}/" in line]


def servers(folder):
    """Return the process id of each server by name."""
    lines = (folder / "servers").read_text().splitlines()
    return {name: int(pid) for pid, _, name in map(str.split, lines)}


def kinds(folder):
    """Return the kind of file system of each mount below a folder."""
    mounts = [line.split() for line in Path("/proc/self/mounts").open()]
    below = [line for line in mounts if line[1].startswith(f"{folder}/")]
    return {Path(line[1]).name: line[2] for line in below}


def read(path):
    """Open and read a file; return its content."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


@needs_mounts
def test_gfs_is_glusterfs_and_lfs_is_ext4(folder):
    assert kinds(folder)["gfs"] == "fuse.glusterfs"
    assert kinds(folder)["lfs"] == "ext4"


@needs_mounts
def test_every_file_lies_on_one_of_several_bricks(folder):
    names = [f"{number:07d}.tfrecord" for number in range(64)]
    (folder / "gfs" / "spread").mkdir()
    for name in names:
        (folder / "gfs" / "spread" / name).write_bytes(b"x")
    found = {
        path.name: int(path.parts[-3])
        for path in (folder / "bricks").glob("*/spread/*")
        if path.stat().st_size
    }
    assert sorted(found) == names
    assert len(set(found.values())) > 1
    told = find_bricks(folder / "gfs" / "spread", names, 4)
    assert told == [found[name] - 1 for name in names]


@needs_mounts
def test_no_read_of_a_newly_opened_file_comes_from_this_kernels_cache(folder):
    path = folder / "gfs" / "again"
    path.write_bytes(b"x" * 4096)
    started_s = time.monotonic()
    for _ in range(3):
        assert read(path) == b"x" * 4096
    assert time.monotonic() - started_s >= 3 * READ_US / 1e6


@needs_mounts
def test_a_brick_serves_one_read_at_a_time(folder):
    paths = [folder / "gfs" / f"file{number}" for number in range(32)]
    for path in paths:
        path.write_bytes(b"x")
    most = max(
        (
            {path.name for path in brick.glob("file*")}
            for brick in folder.glob("bricks/*")
        ),
        key=len,
    )
    started_s = time.monotonic()
    with ThreadPoolExecutor(len(most)) as pool:
        list(pool.map(lambda name: read(folder / "gfs" / name), most))
    assert len(most) >= 8  # 32 files on four bricks
    assert time.monotonic() - started_s >= len(most) * READ_US / 1e6


@needs_mounts
def test_second_up_changes_nothing(folder):
    before = servers(folder)
    assert "is up at" in realfs("up", folder)
    assert servers(folder) == before


@needs_mounts
def test_up_with_other_settings_is_refused(folder):
    output = realfs("up", folder, expect=1, REALFS_BRICKS="2")
    assert "GFS of 4 bricks" in output
    assert "expected GFS of 2 bricks" in output


@needs_mounts
def test_down_leaves_nothing(own_folder):
    realfs("up", own_folder, REALFS_BRICKS="2")
    assert len(traces(own_folder)) >= 2 + 2 + 4  # mounts, loop device, servers
    realfs("down", own_folder)
    assert traces(own_folder) == []
    assert not own_folder.exists()
    assert "nothing is up" in realfs("down", own_folder)


@needs_mounts
def test_up_that_fails_half_way_leaves_nothing(own_folder, tmp_path):
    broken = tmp_path / "bin" / "mkfs.ext4"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    path = f"{broken.parent}:{os.environ['PATH']}"
    output = realfs("up", own_folder, expect=1, PATH=path)
    assert "mkfs.ext4 failed" in output
    assert traces(own_folder) == []
    assert not own_folder.exists()


@needs_mounts
def test_up_mends_what_lost_a_server(own_folder):
    realfs("up", own_folder, REALFS_BRICKS="2")
    victim = servers(own_folder)["brick1"]
    os.kill(victim, 9)
    sessions.wait_until_ended(victim)
    assert "is not up" in realfs("status", own_folder, expect=1)
    realfs("up", own_folder, REALFS_BRICKS="2")
    (own_folder / "gfs" / "file").write_bytes(b"x")
    assert "is up" in realfs("status", own_folder)


@needs_mounts
def test_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "not made by this script" in realfs("up", tmp_path, expect=1)
    assert "nothing is up" in realfs("down", tmp_path)
    assert (tmp_path / "file").read_text() == "mine"


@needs_mounts
def test_experiment_reads_from_the_devices_of_both_tiers(folder, tmp_path):
    project = Project(tmp_path)
    system = yaml.safe_load(
        (project.folder / "resources/systems/realfs.yaml").read_text()
    )
    system["gfs"]["root"] = str(folder / "gfs" / "tiny")
    system["lfs"]["root"] = str(folder / "lfs" / "tiny")
    (project.folder / TINY_SYSTEM).write_text(yaml.safe_dump(system))
    sweep = {"datasets": ["tiny"], "n_osts": [4], "cache_rates_percent": [0, 50]}
    scenario = {"dataset": "tiny", "n_osts": 4, "loader": "posix"}
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {**sweep, "loaders": ["posix"], "exclude": {}, "repetitions": 1},
            "figures": {"scenario": scenario, "methods": ["rule"]},
        },
    )
    output = project.snakemake("results/tiny/tables/verdicts.parquet")
    assert "2 of 2 points" in output
    verdicts = read_table(project.path("tables", "verdicts.parquet"), "verdicts")
    half = verdicts[verdicts["cache_rate_percent"] == 50]
    found = half.groupby("tier")[["verdict", "told_by"]].agg(lambda one: set(one))
    assert found.loc["gfs"].tolist() == [{"device"}, {"resident pages"}]
    assert found.loc["lfs"].tolist() == [{"device"}, {"block device"}]
    assert (folder / "gfs" / "tiny" / "data").is_dir()
    assert list((folder / "lfs").glob("tiny/data/*")) == []


def test_user_without_rights_is_told_so(tmp_path):
    standin = tmp_path / "bin" / "id"
    standin.parent.mkdir()
    standin.write_text("#!/bin/sh\necho 1000\n")
    standin.chmod(0o755)
    path = f"{standin.parent}:{os.environ['PATH']}"
    output = realfs("up", tmp_path / "tiers", expect=1, PATH=path)
    assert "expected root: mounts need it" in output
    assert not (tmp_path / "tiers").exists()


def test_missing_packages_are_named(tmp_path):
    """The tools of a machine without GlusterFS, and a root."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sed", "realpath", "mkfs.ext4", "losetup", "setfattr"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/true")
    (tools / "id").write_text("#!/bin/bash\necho 0\n")
    (tools / "id").chmod(0o755)
    output = realfs("up", tmp_path / "tiers", expect=1, PATH=str(tools))
    assert "apt-get install glusterfs-server fuse3" in output


@pytest.mark.parametrize("value", ["", "four", "0", "-1"])
def test_impossible_setting_is_refused(value, tmp_path):
    output = realfs("up", tmp_path / "tiers", expect=1, REALFS_BRICKS=value or " ")
    assert "REALFS_BRICKS: got" in output
    assert not (tmp_path / "tiers").exists()


def test_path_with_a_blank_is_refused(tmp_path):
    assert "expected one without" in realfs("up", tmp_path / "two tiers", expect=1)


@pytest.mark.parametrize("words", [[], ["sideways"], ["up", "a", "b"]])
def test_commands_are_listed(words):
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "realfs.sh down [FOLDER]" in done.stderr
