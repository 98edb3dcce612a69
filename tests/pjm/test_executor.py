"""Real snakemake, real jobs, a stand-in for PJM: documented formats, not Fugaku."""

import shutil
import signal

import pytest
from sessions import HANG_S

QUICK = "shell: 'echo $PJM_JOBID > {output}'"
ENDLESS = "shell: 'touch started-{rule}; sleep 600; touch {output}'"


def test_every_end_of_a_job_is_told_once_though_pjstat_stutters(cluster):
    cluster.write_rules(
        good=QUICK,
        # PJM has forgotten it, its exit-status file has not.
        forgotten=QUICK,
        lost=ENDLESS,
        down=ENDLESS,
        wrong="shell: 'echo the reason >&2; exit 3'",
        late=f"resources: pjm_extra='-L elapse=00:00:02'\n    {ENDLESS}",
    )
    cluster.switch(VANISH="forgotten", LOSE="lost", NODE_DOWN="down")
    cluster.switch(PJSTAT_FAIL=1, PJSTAT_EMPTY=1, PJSTAT_GARBAGE=1)
    output = cluster.snakemake("-k", "--pjm-missing-attempts", "5", expect=1)
    jobs = {name: jobs[0]["id"] for name, jobs in cluster.jobs().items()}
    assert (cluster.folder / "out/good").read_text() == f"{jobs['good']}\n"
    assert (cluster.folder / "out/forgotten").exists()
    for name, cause in {
        "lost": "PJM no longer knows job",
        "down": "a node went down (PJM code 20)",
        "wrong": "its command failed with exit code 1",
        "late": "it reached its elapse limit (PJM code 11)",
    }.items():
        error = cluster.error(name)
        assert f"PJM job {jobs[name]}, rule {name} (out/{name}): {cause}" in error
        assert f"{cluster.folder}/.snakemake/pjm_logs/{name}." in error
    assert "    the reason" in cluster.error("wrong")
    assert output.count("\nError in rule") == 4
    assert output.count("pjstat failed with exit code 1: [ERR.] PJM 0003") == 1
    # One call a cycle for all jobs, one more for those that it does not show.
    calls = (cluster.state / "pjstat-calls").read_text().splitlines()
    running = [call for call in calls if "-H" not in call]
    assert set(running) == {"-v"}
    assert len(calls) <= 2 * len(running)
    cluster.assert_nothing_left()


def test_refused_jobs_show_pjsub_words_and_wrong_resources(cluster):
    reason = "[ERR.] PJM 0071 pjsub Group not authorized to submit a job: group(59999)"
    cluster.write_rules(
        good=QUICK,
        wrong=f"resources: pjm_node='8x6,rscgrp=x'\n    {QUICK}",
    )
    cluster.switch(REJECT=reason)
    cluster.snakemake("-k", expect=1)
    error = cluster.error("good")
    assert reason in error
    assert "pjsub -L node=1 -g hp123456 -N good" in error
    assert "resource pjm_node='8x6,rscgrp=x': expected" in cluster.error("wrong")
    cluster.assert_nothing_left()
    assert cluster.jobs() == {}


def test_job_id_given_twice_is_refused(cluster):
    cluster.write_rules(
        first="shell: 'while ! test -e go; do sleep 0.1; done; touch {output}'",
        second=f"priority: -1\n    {QUICK}",
    )
    cluster.switch(SAME_ID=1)
    process = cluster.start("-k")
    cluster.wait_until(lambda: "Error in rule second" in cluster.output)
    (cluster.folder / "go").touch()
    cluster.end(process, expect=1)
    assert "gave it the ID 12345 of rule first" in cluster.error("second")
    assert (cluster.folder / "out/first").exists()
    cluster.assert_nothing_left()


def test_pjstat_that_never_works_ends_in_an_error_and_no_job(cluster):
    cluster.write_rules(job=ENDLESS)
    cluster.switch(PJSTAT_GARBAGE=1000)
    cluster.snakemake("--pjm-status-attempts", "3", expect=1)
    error = cluster.error("job")
    assert "PJM job 12345" in error
    assert "status has been unknown for 3 cycles" in error
    assert "Service temporarily unavailable" in error
    cluster.assert_nothing_left()


def start_jobs(cluster, *names):
    """Start a workflow, wait until these jobs are submitted and one of them runs."""
    process = cluster.start()
    cluster.wait_until(lambda: len(cluster.notes()) == len(names))
    cluster.wait_until(lambda: [*cluster.folder.glob("started-*")])
    return process


def kill(process):
    """Kill a snakemake."""
    process.kill()
    process.wait(timeout=HANG_S)


def test_interrupt_cancels_running_and_waiting_jobs(cluster):
    cluster.write_rules(one=ENDLESS, two=ENDLESS)
    cluster.switch(SLOTS=1)
    process = start_jobs(cluster, "one", "two")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=HANG_S) != 0
    assert "Error in rule" not in cluster.output
    cluster.assert_nothing_left()
    assert cluster.states() == {"CCL"}


UNTIL_GO = (
    "shell: 'echo $PJM_JOBID >> started-{rule}; echo half > {output};"
    " while ! test -e go; do sleep 0.1; done; echo all >> {output}'"
)


def test_killed_snakemake_finds_its_running_and_waiting_jobs_again(cluster):
    cluster.write_rules(one=UNTIL_GO, two=UNTIL_GO)
    cluster.switch(SLOTS=1)
    kill(start_jobs(cluster, "one", "two"))
    # The next start may do so: nothing of it must be needed.
    for folder in cluster.folder.glob(".snakemake/tmp.*"):
        shutil.rmtree(folder)
    process = cluster.start()
    again = "of an earlier start continues as rule"
    cluster.wait_until(lambda: cluster.output.count(again) == 2)
    (cluster.folder / "go").touch()
    cluster.end(process)
    for name in ("one", "two"):
        assert len(cluster.jobs()[name]) == 1
        assert len((cluster.folder / f"started-{name}").read_text().split()) == 1
        assert (cluster.folder / "out" / name).read_text() == "half\nall\n"
    cluster.assert_nothing_left()
    assert "Nothing to be done" in cluster.snakemake()


def test_after_a_kill_other_work_waits_and_ended_work_is_submitted_anew(cluster):
    values = "params: config.get('word', 'a')\n    shell: "
    cluster.write_rules(job=f"{values}'touch started-{{params}}; sleep 600'")
    kill(start_jobs(cluster, "job"))
    cluster.snakemake("--config", "word=b", expect=1)
    error = cluster.error("job")
    assert "PJM job 12345 of an earlier start has not ended" in error
    assert "pjdel 12345" in error
    cluster.run("pjdel", "12345")
    cluster.wait_until(lambda: cluster.jobs()["job"][0]["state"] == "CCL")
    cluster.write_rules(job=QUICK)
    cluster.snakemake()
    assert len(cluster.jobs()["job"]) == 2
    cluster.assert_nothing_left()


@pytest.mark.parametrize(
    ("name", "code"), [('it\'s a "dir" $(touch pwned)', 0), ("a %j b", 1)]
)
def test_hostile_path_works_or_is_refused(make_cluster, tmp_path, name, code):
    cluster = make_cluster(name)
    cluster.write_rules(job=QUICK)
    cluster.snakemake(expect=code)
    if code:
        assert "expected a log folder" in cluster.error("job")
    assert not [*tmp_path.rglob("pwned")]
    cluster.assert_nothing_left()


def test_hostile_wildcards_arrive_or_are_refused(cluster):
    (cluster.folder / "Snakefile").write_text(
        "rule job:\n    output: 'out/{name}'\n    shell: 'touch {output:q}'\n"
    )
    cluster.snakemake("out/it's", "out/a $(touch pwned)")
    assert {path.name for path in cluster.folder.glob("out/*")} == {
        "it's",
        "a $(touch pwned)",
    }
    cluster.snakemake("out/it's $(touch pwned)", expect=1)
    assert "the shell would change the letters" in cluster.error("job")
    assert not (cluster.folder / "pwned").exists()
    cluster.assert_nothing_left()


def test_print_only_prints_script_and_command_and_changes_nothing(cluster):
    cluster.write_rules(
        job="resources: nodes=768, tasks=3072, pjm_rscgrp='large', runtime=90,"
        " pjm_node='8x6x16:torus:strict-io'\n"
        f"    {QUICK}"
    )
    result = cluster.folder / "out/job"
    result.parent.mkdir()
    result.write_text("expensive")
    (cluster.folder / "first.sh").write_text("module load lang\n")
    settings = ["--pjm-python", "/vol/env/bin/python", "--pjm-preamble", "first.sh"]
    output = cluster.snakemake(*settings, "--pjm-print-only", "-f", "out/job", expect=1)
    assert "#!/bin/bash\n# rule job (out/job)\n" in output
    assert "\nmodule load lang\nexport PATH=/vol/env/bin:" in output
    assert "\n/vol/env/bin/python -m snakemake" in output
    limits = "node=8x6x16:torus:strict-io,rscgrp=large,elapse=01:30:00"
    assert f"\npjsub -L {limits} --mpi proc=3072,max-proc-per-node=4 -g hp" in output
    assert "printed, not submitted" in cluster.error("job")
    assert result.read_text() == "expensive"
    assert cluster.jobs() == {}


def test_fault_of_the_stand_in_that_never_happens_is_seen(cluster):
    cluster.switch(VANISH="nobody")
    with pytest.raises(AssertionError, match="VANISH"):
        cluster.assert_faults_happened()
