import errno
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread, Timer

import pytest
from tierscope.core.machine import TierError
from tierscope.storage import local_folder
from tierscope.storage.lease import Holder
from tierscope.storage.local_folder import MARKER, LocalStorage
from tierscope.storage.tier import make_epoch_aliases


def node_of(tmp_path, node=0, launch="a"):
    return LocalStorage(tmp_path / "lfs" / "data", node, 1, launch)


def kill(storage, **changes):
    """Let the process that claimed a node's folder be one that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    dead = Holder.this_process("launch x of tierscope", storage.launch)
    path = storage.data_root.with_name(f"{storage.node_name}.lease")
    content = asdict(replace(dead, pid=child.pid, started=1, **changes))
    path.write_text(json.dumps(content))


def test_nodes_share_a_root_and_the_last_one_removes_it(tmp_path):
    nodes = [node_of(tmp_path, node) for node in (0, 1)]
    for node in nodes:
        node.claim()
        (node.folder / "file").write_text("x")
    make_epoch_aliases(tmp_path / "lfs" / "data", 1)
    nodes[0].release()
    assert not nodes[0].folder.exists()
    assert (nodes[1].folder / "file").exists()
    nodes[1].release()
    assert not (tmp_path / "lfs").exists()


def test_root_is_for_this_user_only(tmp_path):
    node_of(tmp_path).claim()
    for path in ("lfs", "lfs/data", "lfs/data/node-00000"):
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "lfs" / MARKER).stat().st_mode & 0o777 == 0o600


def test_root_that_is_claimed_while_it_is_removed_is_whole(tmp_path, monkeypatch):
    leaving, coming = (node_of(tmp_path, node) for node in (0, 1))
    leaving.claim()
    claim, unlink = Thread(target=coming.claim), os.unlink

    def let_the_other_come(path, **options):
        if path == MARKER:
            claim.start()
            claim.join(0.1)  # it has to wait
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", let_the_other_come)
    leaving.release()
    claim.join()
    assert (tmp_path / "lfs" / MARKER).is_file()
    assert coming.folder.is_dir()


def test_root_is_not_removed_while_another_node_claims_it(tmp_path, monkeypatch):
    leaving, coming = (node_of(tmp_path, node) for node in (0, 1))
    leaving.claim()
    rmdir = os.rmdir

    def come_too_late(path, **options):
        if path == tmp_path / "lfs":
            coming.claim()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", come_too_late)
    leaving.release()
    assert (tmp_path / "lfs" / MARKER).is_file()
    assert coming.folder.is_dir()


def test_root_with_foreign_files_is_neither_used_nor_emptied(tmp_path):
    (tmp_path / "lfs" / "data" / "node-00000").mkdir(parents=True)
    storage = node_of(tmp_path)
    with pytest.raises(TierError, match=rf"holds 'data' but no marker {MARKER}"):
        storage.claim()
    storage.release()
    assert storage.folder.exists()


@pytest.mark.parametrize("target", ["victim", "absent"])
def test_marker_that_is_a_link_is_not_written_through(tmp_path, target):
    (tmp_path / "lfs").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lfs" / MARKER).symlink_to(tmp_path / target)
    with pytest.raises(TierError, match="cannot use it: File exists"):
        node_of(tmp_path).claim()
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "absent").exists()


def test_root_that_is_a_link_is_refused_and_not_emptied(tmp_path):
    victim = LocalStorage(tmp_path / "victim" / "data", 0, 1, "a")
    victim.claim()
    (victim.folder / "file").write_text("precious")
    (tmp_path / "lfs").symlink_to("victim")
    with pytest.raises(TierError, match="is a link"):
        node_of(tmp_path).claim()
    node_of(tmp_path).release()
    assert (victim.folder / "file").exists()


def test_folder_that_is_a_link_is_not_emptied(tmp_path):
    node_of(tmp_path, 1).claim()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("precious")
    storage = node_of(tmp_path)
    storage.folder.symlink_to(tmp_path / "victim")
    with pytest.raises(TierError, match="cannot use it"):
        storage.claim()
    assert (tmp_path / "victim" / "file").exists()


def test_root_that_was_swapped_after_the_claim_is_left_alone(tmp_path):
    storage = node_of(tmp_path)
    storage.claim()
    (tmp_path / "lfs").rename(tmp_path / "moved")
    other = node_of(tmp_path, launch="b")
    other.claim()
    (other.folder / "file").write_text("precious")
    storage.release()
    assert (other.folder / "file").exists()


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr("tierscope.storage.local_folder._CLAIM_S", 0.3)


def test_launch_that_just_ends_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("tierscope.storage.local_folder._CLAIM_S", 60)
    ending = node_of(tmp_path)
    ending.claim()
    end = Timer(0.2, ending.release)
    end.start()
    node_of(tmp_path, launch="b").claim()
    end.join()


def test_folder_in_which_another_launch_works_is_refused(tmp_path):
    working = node_of(tmp_path)
    working.claim()
    (working.folder / "file").write_text("x")
    with pytest.raises(TierError, match=r"launch a of tierscope .* wait until it has"):
        node_of(tmp_path, launch="b").claim()
    node_of(tmp_path, launch="b").release()
    assert (working.folder / "file").exists()


def test_claim_removes_what_killed_launches_left_on_this_machine(tmp_path):
    left = [node_of(tmp_path, node, "killed") for node in (0, 1, 2)]
    for storage in left:
        storage.claim()
        (storage.folder / "left over").write_text("x")
    kill(left[0])
    kill(left[1])
    kill(left[2], host="there")  # shares the root, nobody here knows whether it runs
    storage = node_of(tmp_path)
    storage.claim()
    data = tmp_path / "lfs" / "data"
    assert sorted(os.listdir(data)) == ["node-00000", "node-00002"]
    assert os.listdir(storage.folder) == []
    storage.release()
    assert os.listdir(data) == ["node-00002"]


def test_folder_of_a_killed_launch_is_not_kept_while_another_node_removes_it(
    tmp_path, monkeypatch
):
    left = node_of(tmp_path, 0, "killed")
    left.claim()
    kill(left)
    here, kept = node_of(tmp_path, 0), []
    remove = shutil.rmtree

    def removing(path, **options):
        if path == here._relative:
            kept.append(here.keep())
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", removing)
    node_of(tmp_path, 1).claim()
    assert kept == [False]


def test_launch_that_waits_for_another_says_at_once_for_whom(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr("tierscope.storage.local_folder._CLAIM_S", 0.2)
    node_of(tmp_path, launch="first").claim()
    with pytest.raises(TierError) as refusal:
        node_of(tmp_path, launch="second").claim()
    said = capfd.readouterr().err
    assert said == f"waiting for the LFS, 0 s at most: {refusal.value}\n"
    assert f"launch first of tierscope (process {os.getpid()} on" in said
    assert "works here since" in said


def test_folder_of_a_launch_elsewhere_is_refused_with_what_to_type(tmp_path):
    node_of(tmp_path, launch="killed").claim()
    kill(node_of(tmp_path, launch="killed"), host="there")
    with pytest.raises(TierError, match=r"on there\) works here, or was killed.*rm "):
        node_of(tmp_path).claim()


def test_claim_again_empties_the_own_folder(tmp_path):
    storage = node_of(tmp_path)
    storage.claim()
    (storage.folder / "file").write_text("x")
    storage.claim()
    assert os.listdir(storage.folder) == []


def test_another_process_releases_for_one_that_is_gone(tmp_path):
    storage = node_of(tmp_path)
    storage.claim()
    kill(storage)
    storage.release()
    assert not (tmp_path / "lfs").exists()


def test_who_was_replaced_removes_nothing(tmp_path):
    killed = node_of(tmp_path, launch="killed")
    killed.claim()
    kill(killed)
    following = node_of(tmp_path, launch="following")
    following.claim()
    (following.folder / "file").write_text("x")
    killed.release()
    assert (following.folder / "file").exists()


def test_root_whose_removal_was_killed_is_used_again(tmp_path):
    storage = node_of(tmp_path, 1, "killed")
    storage.claim()
    kill(storage)
    lease = tmp_path / "lfs" / "node-00001.lease"
    lease.rename(lease.with_name(".removing.lease"))
    storage = node_of(tmp_path)
    storage.claim()
    storage.release()
    assert sorted(os.listdir(tmp_path / "lfs")) == [MARKER, "data"]


def test_release_is_repeated_until_nobody_writes_any_more(tmp_path, monkeypatch):
    storage, rmtree, removals = node_of(tmp_path), __import__("shutil").rmtree, []
    storage.claim()

    def remove_while_another_writes(path, *, dir_fd, ignore_errors=False):
        removals.append(path)
        if len(removals) == 3:
            rmtree(path, dir_fd=dir_fd)
        elif not ignore_errors:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)

    monkeypatch.setattr("shutil.rmtree", remove_while_another_writes)
    monkeypatch.setattr(local_folder, "_REFUSED_S", -1)
    storage.release_together(lambda: True, 10)
    assert len(removals) == 3
    assert not (tmp_path / "lfs").exists()


def test_release_that_the_file_system_refuses_is_given_up(tmp_path, monkeypatch):
    storage, removals = node_of(tmp_path), []
    storage.claim()

    def refuse(path, *, dir_fd, ignore_errors=False):
        removals.append(path)
        assert len(removals) <= 2
        if not ignore_errors:
            raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr("shutil.rmtree", refuse)
    monkeypatch.setattr(local_folder, "_REFUSED_S", -1)
    storage.release_together(lambda: True, 10)
    storage.release_together(lambda: False, 10, is_over=lambda: True)
    assert storage.folder.exists()


def test_next_process_releases_if_the_first_one_is_gone(tmp_path):
    storage = node_of(tmp_path)
    storage.claim()
    mine = iter([False, False, True])
    storage.release_together(lambda: next(mine), 10)
    assert not (tmp_path / "lfs").exists()


def test_release_that_nobody_does_is_not_waited_for_without_end(tmp_path):
    storage = node_of(tmp_path)
    storage.claim()
    storage.release_together(lambda: False, 0.1)
    assert storage.folder.exists()


def test_roots_that_killed_jobs_have_left_are_removed(tmp_path, monkeypatch):
    def of_job(job, node=0):
        root = tmp_path / f"tierscope-me-{job}"
        return LocalStorage(root / "data", node, 1, f"launch-{job}")

    for job in (1, 2, 3):
        of_job(job).claim()
        (of_job(job).folder / "left over").write_text("x")
    kill(of_job(1))
    kill(of_job(2), host="there")
    (tmp_path / "tierscope-me-77").mkdir()  # not ours: no marker
    (tmp_path / "tierscope-me-10x").mkdir()
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    of_job(4).claim()
    names = sorted(path.name for path in tmp_path.iterdir())
    jobs = [name.removeprefix("tierscope-me-") for name in names]
    assert jobs == ["10x", "2", "3", "4", "77"]


def test_roots_of_other_names_are_not_looked_at(tmp_path, monkeypatch):
    left = LocalStorage(tmp_path / "lfs1" / "data", 0, 1, "killed")
    left.claim()
    kill(left)
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    node_of(tmp_path).claim()
    assert left.folder.exists()


@pytest.fixture
def shared_folder():
    """Return a folder as /tmp is, in which all users may make files."""
    folder = Path(tempfile.mkdtemp(prefix="tierscope-test-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_two_users_of_a_node_leave_each_others_lfs_alone(shared_folder):
    mine = node_of(shared_folder)
    mine.claim()
    (mine.folder / "file").write_text("mine")
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(65534)
            with pytest.raises(TierError) as refusal:
                node_of(shared_folder, node=1).claim()
            os.write(writes, str(refusal.value).encode())
            theirs = LocalStorage(shared_folder / "lfs2" / "data", 0, 1, "b")
            theirs.claim()
            (theirs.folder / "file").write_text("theirs")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    os.close(writes)
    with open(reads, encoding="utf-8") as said:
        line = said.read()
    assert str(shared_folder / "lfs") in line
    assert len(line.splitlines()) == 1
    assert (mine.folder / "file").read_text() == "mine"
    mine.release()
    assert [path.name for path in shared_folder.iterdir()] == ["lfs2"]
    assert (shared_folder / "lfs2" / "data" / "node-00000" / "file").exists()
