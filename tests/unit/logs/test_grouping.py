"""Which logs form a job, and which process each is of."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.logs.grouping import NO_PROCESS, LogFacts, command_times_s, group_logs

TRAIN = "/usr/bin/python3 -u train.py --epochs 2"
SPAWNED = (
    "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; "
    "spawn_main(tracker_fd=5, pipe_handle=7) --multiprocessing-fork"
)
TRACKER = (
    "/usr/bin/python3 -c from multiprocessing.resource_tracker import main;main(4)"
)


def darshans(pid, started_s=0, ended_s=100, exe=TRAIN, job_id=None, **more):
    """Return the facts of a log of Darshan, of no scheduler unless it has a job id."""
    job_id = pid if job_id is None else job_id
    values = {"uid": 1000, "n_processes": 1, "metadata": {}} | more
    return LogFacts(
        path=Path(f"/logs/me_python3_id{job_id}-{pid}_11-23-0-1.darshan"),
        job_id=job_id,
        started_s=started_s,
        ended_s=ended_s,
        exe=exe,
        **values,
    )


def ours(pid, *parents, rank=None, group="a", host="n0", process="", **more):
    """Return the facts of a log of our tracer; of an old one without `process`."""
    metadata = {"group": group, "host": host, "pid": str(pid)}
    if process:
        metadata |= {"process": process, "program": "dl.py"}
    if parents:
        metadata["parents"] = ",".join(map(str, parents))
    if rank is not None:
        metadata["rank"] = str(rank)
    return darshans(pid, job_id=7, metadata=metadata, **more)


def pids(groups):
    """Return the process ids of the logs of each group."""
    return [
        [int(re.search(r"-(\d+)_", log.name)[1]) for log in group.logs]
        for group in groups
    ]


# Which logs form a job


def test_log_of_several_processes_is_a_job_even_with_the_job_id_of_another():
    step = {"job_id": 7, "n_processes": 4, "exe": "/bin/ior -a POSIX"}
    groups = group_logs([darshans(1, **step), darshans(2, **step)])
    assert [one.name for one in groups] == ["ior-7", "ior-7-2"]
    assert {one.n_processes for one in groups} == {4}
    assert {one.processes for one in groups} == {(0,)}
    assert {one.grouped_by for one in groups} == {"one log of all processes"}


def test_logs_of_a_scheduler_s_job_that_overlap_are_a_job():
    facts = [darshans(pid, 10 * pid, 60, job_id=7) for pid in (1, 2, 3)]
    (group,) = group_logs(reversed(facts))
    assert group.name == "train.py-7"
    assert pids([group]) == [[1, 2, 3]]
    assert group.processes == (0, 1, 2)
    assert group.n_processes == 3
    assert group.grouped_by == (
        "job id and time; workers cannot be told from trainers: each log is a process"
    )


def test_runs_of_a_scheduler_s_job_that_follow_each_other_are_jobs():
    facts = [darshans(pid, 10 * pid, 10 * pid + 9, job_id=7) for pid in (1, 2)]
    groups = group_logs(facts)
    assert [one.name for one in groups] == ["train.py-7", "train.py-7-2"]
    assert pids(groups) == [[1], [2]]


@pytest.mark.parametrize("has_io", [False, True])
def test_shell_does_not_make_its_programs_one_run(has_io):
    """It reads its script, which may be on a tier."""
    facts = [darshans(pid, 10 * pid, 10 * pid + 9, job_id=7) for pid in (1, 2)]
    shell = darshans(9, 0, 50, exe="/bin/bash job.sh", job_id=7, has_io=has_io)
    groups = group_logs([shell, *facts])
    assert pids(groups) == [[9, 1], [2]]
    assert groups[0].processes == (NO_PROCESS, 0)
    driver = darshans(9, 0, 50, exe="/bin/driver", job_id=7)
    assert pids(group_logs([driver, *facts])) == [[9, 1, 2]]


def test_runs_of_whole_seconds_that_follow_each_other_are_jobs():
    """Logs of old formats: one ends in the second in which the next one begins."""
    facts = [darshans(pid, 5 * pid, 5 * pid + 5, job_id=7) for pid in (1, 2, 3)]
    assert pids(group_logs(facts)) == [[1], [2], [3]]
    short = [darshans(pid, 5, 5, job_id=7) for pid in (1, 2)]
    assert pids(group_logs(short)) == [[1, 2]]


def of_a_step(pid, began_s, ended_s, rank):
    """Return the facts of a log of a rank that calls `tierscope trace` itself."""
    log = ours(pid, rank=rank, group="88.0", started_s=began_s, ended_s=ended_s)
    log.metadata.update(command_began=f"{began_s:.6f}", command_ended=f"{ended_s:.6f}")
    return log


def test_calls_of_one_rank_that_follow_each_other_are_jobs():
    """The ranks of a step need not overlap; a shell in a step calls again and again."""
    step = [of_a_step(pid, 10 * pid, 10 * pid + 5, rank=pid) for pid in (0, 1, 2)]
    assert pids(group_logs(step)) == [[0, 1, 2]]
    again = [of_a_step(10 + pid, 50 + pid, 52 + pid, rank=pid) for pid in (0, 1, 2)]
    assert pids(group_logs(step + again)) == [[0, 1, 2], [10, 11, 12]]


def test_a_number_that_is_no_rank_makes_no_processes():
    (group,) = group_logs([ours(1, rank=0), ours(2, rank=999_999_999_999)])
    assert group.n_processes == 2
    pattern = {"job": "(id7)", "process": "-([0-9]+)_"}
    facts = [darshans(pid, job_id=7) for pid in (0, 3_116_902)]
    (group,) = group_logs(facts, pattern)
    assert (group.processes, group.n_processes) == ((0, 1), 2)


def test_helpers_are_with_the_run_in_which_they_start():
    runs = [darshans(pid, 100 * pid, 100 * pid + 50, job_id=7) for pid in (1, 2)]
    helpers = [
        darshans(pid, start_s, start_s + 5, exe="/bin/uname", job_id=7, has_io=False)
        for pid, start_s in ((11, 90), (12, 110), (13, 210), (14, 145), (15, 96))
    ]
    groups = group_logs([*runs, *helpers])
    assert pids(groups) == [[11], [15, 1, 12, 14], [2, 13]]


def test_job_ids_of_other_users_are_other_jobs():
    facts = [darshans(pid, job_id=7, uid=pid) for pid in (1, 2)]
    assert len(group_logs(facts)) == 2


def test_processes_without_scheduler_are_a_job_if_they_start_together():
    facts = [darshans(11, 0), darshans(12, 60), darshans(13, 61)]
    groups = group_logs(facts)
    assert pids(groups) == [[11, 12], [13]]
    assert [one.name for one in groups] == ["train.py-11", "train.py-13"]
    assert groups[0].grouped_by.startswith("user, program and time, as no log")
    assert groups[1].grouped_by == "a log of its own"


@pytest.mark.parametrize(
    "other",
    [
        {"uid": 1001},
        {"exe": "/usr/bin/python3 other.py"},
        {"exe": "/usr/bin/uname"},
        {"started_s": 101, "ended_s": 110},
    ],
)
def test_processes_without_scheduler_are_jobs_if_they_differ(other):
    assert pids(group_logs([darshans(11), darshans(12, **other)])) == [[11], [12]]


def test_array_jobs_that_run_at_once_are_jobs():
    facts = [darshans(pid, job_id=100 + pid) for pid in (1, 2)]
    assert [one.name for one in group_logs(facts)] == ["train.py-101", "train.py-102"]


def test_each_call_of_our_tracer_is_a_job():
    facts = [ours(1), ours(2, group="b"), ours(3, started_s=200, ended_s=300)]
    groups = group_logs(facts)
    assert pids(groups) == [[1, 3], [2]]
    assert [one.name for one in groups] == ["train.py-7", "train.py-7-2"]
    assert groups[1].grouped_by == "call of tierscope trace"


def test_each_log_is_a_job_if_asked_for():
    groups = group_logs([ours(1), ours(2)], "one")
    assert pids(groups) == [[1], [2]]
    assert [one.name for one in groups] == ["train.py-7", "train.py-7-2"]
    assert groups[0].grouped_by == "each log is a job"


# Which process a log is of


def test_ranks_of_a_launcher_are_kept_with_what_their_workers_did():
    groups = group_logs(
        [
            ours(10, 1, rank=1),
            ours(11, 10, 1, rank=1),  # a worker inherits its trainer's rank
            ours(20, 1, rank=3, started_s=-1),
            ours(21, 20, 1, exe="/usr/bin/tar x"),
        ]
    )
    (group,) = groups
    assert pids(groups) == [[20, 10, 11, 21]]
    assert group.processes == (3, 1, 1, 3)
    assert group.n_processes == 4
    assert group.grouped_by == (
        "call of tierscope trace; ranks of the launcher; "
        "2 logs of workers count with their process"
    )


def test_launcher_with_io_stands_behind_the_ranks():
    launcher = ours(1, exe="/usr/bin/python3 -m torch.distributed.run", started_s=-1)
    (group,) = group_logs([launcher, ours(2, 1, rank=0), ours(3, 1, rank=1)])
    assert group.processes == (2, 0, 1)


def test_workers_count_with_their_trainer_and_trainers_apart():
    """A script starts two trainers, which have two workers each."""
    launch = "/usr/bin/python3 launch.py"
    (group,) = group_logs(
        [
            ours(1, exe=launch, started_s=-1),
            ours(10, 1),
            ours(11, 10, 1),
            ours(12, 99, 10, 1, exe=SPAWNED),  # its parent, a server, made no call
            ours(20, 1),
            ours(21, 20, 1),
            ours(22, 20, 1),
        ]
    )
    assert group.processes == (0, 1, 1, 1, 2, 2, 2)
    assert group.name == "train.py-7"


def test_processes_that_python_starts_are_no_workers_if_they_have_workers():
    (group,) = group_logs(
        [
            ours(1),
            ours(10, 1, exe=SPAWNED),
            ours(11, 10, 1, exe=SPAWNED),
            ours(20, 1, exe=SPAWNED),
            ours(21, 20, 1, exe=SPAWNED),
            ours(30, 1, exe=TRACKER),
        ]
    )
    assert group.processes == (0, 1, 1, 2, 2, 0)


@pytest.mark.parametrize("exe", [TRAIN, SPAWNED])
def test_workers_of_a_process_without_a_log_count_with_it(exe):
    (group,) = group_logs([ours(i, 1, exe=exe, process="1-500") for i in (2, 3, 4)])
    assert group.processes == (0, 0, 0)
    assert group.name == "dl.py-7"
    assert group.grouped_by == (
        "call of tierscope trace; 3 logs of workers count with their process"
    )


def test_process_with_which_a_log_counts_is_told_by_start_and_host():
    facts = [
        ours(1, process="1-500"),
        ours(2, 1, process="1-500"),
        ours(3, 1, process="1-900"),  # the kernel has given the id again
        ours(4, 1, process="1-500", host="n1"),
        ours(5, 1, process="5-501"),  # no worker, as its tracer knows
    ]
    (group,) = group_logs(facts)
    assert group.processes == (0, 0, 1, 2, 3)
    assert "3 logs of workers count" in group.grouped_by


def test_ranks_stand_above_the_process_with_which_a_log_counts():
    facts = [ours(i, 1, rank=i % 2, process="1-500") for i in (2, 3, 4)]
    (group,) = group_logs(facts)
    assert group.processes == (0, 1, 0)
    assert group.grouped_by == (
        "call of tierscope trace; ranks of the launcher; "
        "1 log of a worker counts with its process"
    )


def test_logs_without_a_command_line_are_not_of_workers():
    facts = [ours(1, exe=""), ours(2, 1, exe="")]
    assert group_logs(facts)[0].processes == (0, 1)


def test_command_that_ended_before_it_began_tells_no_times():
    times = {"command_began": "20.5", "command_ended": "10.5"}
    assert command_times_s(times) is None
    assert command_times_s(times | {"command_ended": "21.5"}) == (20.5, 21.5)


def test_tracker_of_resources_does_not_make_a_worker_a_trainer():
    logs = [ours(1), ours(2, 1), ours(3, 2, 1, exe=TRACKER)]
    (group,) = group_logs(logs)
    assert group.processes == (0, 0, 0)


def test_process_ids_of_other_hosts_are_other_processes():
    (group,) = group_logs([ours(1), ours(1, host="n1"), ours(2, 1, host="n1")])
    assert group.processes == (0, 1, 1)


def test_forked_workers_of_darshan_are_found_by_their_parents():
    forked = {"metadata": {"fork_parent": "11"}, "started_s": 1}
    groups = group_logs(
        [
            darshans(11),
            darshans(12, job_id=11, **forked),
            darshans(21),
            darshans(22, job_id=21, metadata={"fork_parent": "21"}, started_s=1),
            darshans(13, job_id=11, **forked),
        ]
    )
    assert pids(groups) == [[11, 21, 12, 13, 22]]
    assert groups[0].processes == (0, 1, 0, 0, 1)
    assert groups[0].grouped_by == (
        "user, program and time, as no log names its job; "
        "3 logs of workers count with their process"
    )


@pytest.mark.parametrize("has_io", [False, True])
def test_workers_that_python_starts_are_of_no_known_trainer_in_darshan_s_logs(has_io):
    """The tracker reads modules, which may be on a tier."""
    facts = [
        *(darshans(pid, 0, job_id=7) for pid in (1, 2)),
        *(darshans(pid, 20, exe=SPAWNED, job_id=7) for pid in (3, 4, 5)),
        darshans(6, 20, exe=TRACKER, job_id=7, has_io=has_io),
    ]
    (group,) = group_logs(facts)
    assert group.name == "train.py-7"
    assert group.processes == (0, 1, 2, 3, 4, NO_PROCESS)
    assert group.grouped_by == (
        "job id and time; 3 logs are of workers, and none names its trainer: each is a "
        "process; 1 log of a helper"
    )


def test_workers_that_python_starts_join_their_job_without_a_scheduler():
    facts = [darshans(1), darshans(2, 70, 90, exe=SPAWNED)]
    assert pids(group_logs(facts)) == [[1, 2]]
    facts = [darshans(1), darshans(2, 101, 110, exe=SPAWNED)]
    assert pids(group_logs(facts)) == [[1], [2]]


def test_helper_without_io_is_no_process_but_a_trainer_without_io_is():
    uname = darshans(3, 1, exe="/usr/bin/uname -p", has_io=False)
    groups = group_logs([darshans(1), darshans(2, has_io=False), uname])
    assert pids(groups) == [[1, 2, 3]]
    assert groups[0].processes == (0, 1, NO_PROCESS)
    assert groups[0].n_processes == 2


def test_job_without_io_has_its_processes():
    (group,) = group_logs([darshans(1, has_io=False)])
    assert (group.processes, group.n_processes) == ((0,), 1)


# By patterns


def patterned(*names, **more):
    """Return facts of logs in folders of these names."""
    return [
        LogFacts(Path(f"/logs/{name}.darshan"), 1, 1, 1, i, 99, TRAIN, {}, **more)
        for i, name in enumerate(names)
    ]


def test_patterns_name_jobs_and_processes():
    facts = patterned("a/rank1-x", "a/rank0", "a/rank1-y", "b/rank10", "b/rank9", "odd")
    groups = group_logs(facts, {"job": r"/logs/(\w)/", "process": r"rank(\d+)"})
    assert [one.name for one in groups] == ["a", "b", "train.py-1"]
    assert groups[0].processes == (1, 0, 1)
    assert groups[0].grouped_by == "pattern; processes by pattern"
    assert groups[1].processes == (1, 0)  # 9 and 10: no ranks, but in this order
    assert groups[2].grouped_by.startswith("its path does not match the pattern")


def test_logs_that_do_not_match_the_pattern_of_processes_are_processes():
    facts = patterned("a/odd", "a/t2", "a/t1", "a/t2-w")
    (group,) = group_logs(facts, {"job": "/a/", "process": r"t\d"})
    assert group.name == "a-"
    assert group.processes == (2, 1, 0, 1)
    assert "1 log does not match it: it is a process" in group.grouped_by


def test_pattern_without_processes_uses_what_the_logs_say():
    (group,) = group_logs([ours(1), ours(2, 1), ours(3)], {"job": "me_(python3)"})
    assert group.name == "python3"
    assert group.processes == (0, 0, 1)


# Names


def test_number_behind_a_name_is_free():
    exes = ["a", "a-5", "a", "a", "a-5-2", "a-5"]
    facts = [
        darshans(i, i, exe=exe, job_id=5, n_processes=2) for i, exe in enumerate(exes)
    ]
    names = [one.name for one in group_logs(facts)]
    assert names == ["a-5", "a-5-5", "a-5-2", "a-5-3", "a-5-2-5", "a-5-5-2"]
    clash = [
        darshans(i, i, exe=exe, job_id=2, n_processes=2)
        for i, exe in enumerate(["a-2", "a", "a"])
    ]
    assert [one.name for one in group_logs(clash)] == ["a-2-2", "a-2", "a-2-3"]


@pytest.mark.parametrize(
    ("exe", "name"),
    [
        ("/opt/bin/ior -a POSIX", "ior-5"),
        ("python3", "python3-5"),
        ("/usr/bin/python3.11 -W ignore -u a/train.py x.py", "train.py-5"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run-5"),
        ("python -c import os; print(1) a.py", "python-5"),
        ("/bin/sh ./job.sh", "job.sh-5"),
        ("bash -c set -e\ncd /scratch/run1\n./solve", "bash-5"),
        ("/bin/bash -lc cd /x && python a.py", "bash-5"),
        ("bash -euo pipefail -O extglob +x job\t1.sh", "job-1.sh-5"),
        ("bash --rcfile a b.sh", "b.sh-5"),
        ("-bash", "bash-5"),
        ("sh - a", "sh-5"),
        ("python -Bc import os\nos.x()", "python-5"),
        ("python  -um my.module a", "my.module-5"),
        ("python -mmy.module", "my.module-5"),
        ("python -Wonce -Xdev -- a.py", "a.py-5"),
        ('python "it\'s\n1.py" a', "it-s-1.py--5"),
        ("python <unknown args>", "python-5"),
        ("perl -I lib -ne print", "perl-5"),
        ("perl -MData::Dumper a.pl", "a.pl-5"),
        ("Rscript --vanilla -e 1", "Rscript-5"),
        ("/a\tb/so\nlve x", "so-lve-5"),
        ("pythonic a.py", "pythonic-5"),
        ("", "5"),
        ("/x/we?rd\u00fc 1", "we-rd--5"),
        ("/x/" + 200 * "a", 100 * "a"),
    ],
)
def test_job_has_the_name_of_its_program(exe, name):
    assert group_logs([darshans(5, exe=exe)])[0].name == name


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),  # job id
            st.integers(0, 3),  # process id
            st.integers(0, 9),  # start
            st.integers(0, 200),  # duration
            st.sampled_from([TRAIN, SPAWNED, TRACKER, "/bin/ls", "", "../.."]),
            st.sampled_from([1, 1, 1, 4]),
            st.dictionaries(
                st.sampled_from(
                    ["group", "pid", "parents", "rank", "fork_parent", "process"]
                ),
                st.sampled_from(["0", "1", "2", "3"]),
            ),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.sampled_from(["auto", "one", {"job": r"id(\d)"}, {"job": "9", "process": "."}]),
)
def test_every_log_is_in_one_job_with_its_own_safe_name(rows, group):
    facts = [
        LogFacts(
            path=Path(f"/{i}/u_p_id{job}-{pid}_1.darshan"),
            uid=1,
            job_id=job,
            n_processes=n_processes,
            started_s=start,
            ended_s=start + duration,
            exe=exe,
            metadata=metadata,
            has_io=has_io,
        )
        for i, (job, pid, start, duration, exe, n_processes, metadata, has_io) in (
            enumerate(rows)
        )
    ]
    groups = group_logs(facts, group)
    assert sorted(log for one in groups for log in one.logs) == sorted(
        one.path for one in facts
    )
    names = [one.name for one in groups]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*", name) for name in names)
    for one in groups:
        assert len(one.processes) == len(one.logs)
        assert max(one.processes) < one.n_processes
        assert min(one.processes) >= NO_PROCESS
    assert group_logs(reversed(facts), group) == groups
