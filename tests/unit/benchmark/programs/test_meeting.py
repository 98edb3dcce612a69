import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs import meeting
from tierscope.benchmark.programs.meeting import (
    Meeting,
    OtherFailed,
    folder_in_memory,
    launched_rank,
    node_key,
    remove_folders_of_killed_launches,
)
from tierscope.storage.own_folder import FolderError


def meetings(folder, *, n_nodes=1, per_node=2):
    """Return the meetings of all ranks of a run, by rank."""
    (folder / "shared").mkdir()
    return [
        Meeting(
            folder / f"local-{rank // per_node}",
            folder / "shared",
            str(rank // per_node),
            rank,
            per_node,
            n_nodes,
        )
        for rank in range(n_nodes * per_node)
    ]


def at_once(function, *arguments):
    """Return what a function returns for each argument, called in threads."""
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))


@pytest.mark.parametrize(
    ("environ", "size", "rank"),
    [
        ({}, 1, 0),
        ({"PMI_RANK": "1"}, 2, 1),
        ({"SLURM_PROCID": "3", "RANK": "3"}, 4, 3),
        ({"RANK": "2", "PMI_RANK": ""}, 4, 2),
    ],
)
def test_rank_is_the_launchers(environ, size, rank):
    assert launched_rank(environ, size) == rank


@pytest.mark.parametrize(
    ("environ", "got"),
    [
        ({}, "got none of OMPI_COMM_WORLD_RANK, PMI_RANK, "),
        ({"PMI_RANK": "2"}, "got PMI_RANK=2, expected a rank below 2"),
        ({"RANK": "-1"}, "got RANK=-1, expected a rank below 2"),
        ({"PMI_RANK": "1", "RANK": "0"}, "got RANK=0 and PMI_RANK=1, expected the"),
    ],
)
def test_process_without_a_fitting_rank_is_refused(environ, got):
    with pytest.raises(BenchmarkError, match=got):
        launched_rank(environ, 2)


def test_node_is_virtual_or_the_schedulers_or_the_host():
    assert node_key({"SLURMD_NODENAME": "c3"}, 5, 2) == "2"
    assert node_key({"SLURMD_NODENAME": "c3"}, 5, None) == "c3"
    assert node_key({}, 5, None) == platform.node()


def test_first_rank_of_each_node_leads_and_numbers_it_whatever_its_name(tmp_path):
    ranks = meetings(tmp_path, n_nodes=2)
    for one in ranks:
        one.key = "same"
    at_once(Meeting.join, *ranks)
    assert [one.leads for one in ranks] == [True, False, True, False]
    assert at_once(Meeting.meet_nodes, ranks[0], ranks[2]) == [0, 1]


def test_rank_waits_for_what_its_leader_prepares(tmp_path):
    leader, other = meetings(tmp_path)
    at_once(Meeting.join, leader, other)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.await_go)
        leader.go({"table": "/a table"})
        assert waiting.result() == {"table": "/a table"}


def test_more_processes_than_expected_are_refused(tmp_path):
    ranks = meetings(tmp_path)
    for rank in (1, 2):
        (tmp_path / "local-0").mkdir(exist_ok=True)
        (tmp_path / "local-0" / f"rank-{rank}.json").touch()
    with pytest.raises(BenchmarkError, match="got 3 processes on node 0, expected 2 "):
        ranks[0].join()


def test_second_process_of_a_rank_is_refused(tmp_path):
    ranks = meetings(tmp_path)
    at_once(Meeting.join, *ranks)
    with pytest.raises(BenchmarkError, match="got two processes of rank 1 on node 0,"):
        ranks[1].join()


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_folder_to_which_others_may_write_is_not_joined(tmp_path, mode):
    alone = meetings(tmp_path, per_node=1)[0]
    alone.local.mkdir()
    alone.local.chmod(mode)
    with pytest.raises(FolderError, match=f"{alone.local}: others may write to it"):
        alone.join()
    assert os.listdir(alone.local) == []


def test_link_in_place_of_the_nodes_folder_is_not_joined(tmp_path):
    alone = meetings(tmp_path, per_node=1)[0]
    (tmp_path / "mine").mkdir()
    alone.local.symlink_to(tmp_path / "mine")
    with pytest.raises(FolderError, match=f"{alone.local}: is a link, expected a dir"):
        alone.join()
    assert os.listdir(tmp_path / "mine") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_folder_that_another_user_has_made_is_not_joined(tmp_path):
    alone = meetings(tmp_path, per_node=1)[0]
    tmp_path.chmod(0o1777)
    alone.local.mkdir(mode=0o700)
    (alone.local / "go.json").write_text('{"library": "/of/b.so"}')
    os.chown(alone.local, 4321, 4321)
    with pytest.raises(FolderError, match=f"{alone.local}: belongs to user 4321, exp"):
        alone.join()


def test_memory_whose_folders_all_users_may_replace_is_refused(tmp_path):
    alone = meetings(tmp_path, per_node=1)[0]
    tmp_path.chmod(0o777)
    with pytest.raises(FolderError, match=f"{tmp_path}: all users may replace what it"):
        alone.join()


def test_missing_ranks_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Meeting._wait, "__defaults__", (0.0, 0.0))
    alone = meetings(tmp_path)[0]
    with pytest.raises(BenchmarkError, match="waited 0 s for the ranks of its node; "):
        alone.join()


def test_rank_that_waits_ends_if_another_fails(tmp_path):
    leader, other = meetings(tmp_path)
    at_once(Meeting.join, leader, other)
    leader.fail()
    with pytest.raises(OtherFailed):
        other.await_go()


def test_rank_that_waits_seldom_asks_the_file_system_of_all_nodes(
    tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(Meeting, "has_failed", lambda _: asked.append(1))
    go = iter([False] * 9 + [True])
    meetings(tmp_path)[0]._wait(lambda: next(go), "nobody")
    assert asked == [1]


def test_rank_that_was_killed_has_ended(tmp_path):
    leader, other = meetings(tmp_path)
    at_once(Meeting.join, leader, other)
    leader.end(0)
    assert not leader.all_have_ended()
    path = other.local / "rank-1.json"
    path.write_text(path.read_text().replace('"ticks": ', '"ticks": 1'))
    assert leader.all_have_ended()


def killed(memory, launch):
    """Leave the folder of a launch whose only rank was killed; return it."""
    folder = folder_in_memory("0", launch, memory)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tierscope.benchmark.programs.meeting import Meeting\n"
        "folder = Path(sys.argv[2])\n"
        "Meeting(folder, folder.parent, '0', 0, 1, 1).join()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    modules = str(meeting.__file__).partition("/tierscope/")[0]
    words = [sys.executable, "-c", code, modules, str(folder)]
    assert subprocess.run(words, check=False).returncode == -9
    return folder


def test_only_folders_of_killed_launches_are_removed(tmp_path):
    left = killed(tmp_path, "1-1")
    assert left.exists()
    here = folder_in_memory("0", f"{os.getpid()}-2", tmp_path)
    running = Meeting(here, tmp_path, "0", 0, 1, 1)
    running.join()
    (tmp_path / "tierscope-program-0-3-3.d").mkdir()  # whose first rank begins
    (tmp_path / "tierscope-other").mkdir()
    remove_folders_of_killed_launches(tmp_path)
    assert not left.exists()
    assert here.exists()
    assert len(list(tmp_path.glob("tierscope-*"))) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_what_others_have_put_into_the_memory_stays(tmp_path):
    """A folder of another user, and links to folders of this user."""
    mine, theirs = tmp_path / "mine", folder_in_memory("0", "1", tmp_path)
    for folder in (mine, theirs):
        folder.mkdir()
        (folder / "rank-0.json").touch()
    os.chown(theirs, 4321, 4321)
    folder_in_memory("0", "2", tmp_path).symlink_to(mine)
    remove_folders_of_killed_launches(tmp_path)
    assert (mine / "rank-0.json").exists()
    assert (theirs / "rank-0.json").exists()
