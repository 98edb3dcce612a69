"""Snakemake's own tests of executors, through the stand-in for PJM.

They run Snakemake in the process that they are called in and leave things there, such
as its handler of SIGTERM. So each has a process of its own: this file, run as a script.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sessions
from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake.settings.types import ResourceSettings

TESTS = Path(__file__).parents[1]
# The PJM jobs of each test by name; a group is one job.
JOBS = {
    "test_simple_workflow": {"a": 1, "b": 1, "c": 1, "d": 2},
    "test_group_workflow": {"foo_a_b": 3, "c": 1},
}


class WorkflowsThroughPjm(TestWorkflowsLocalStorageBase):
    """Snakemake's tests, with executor pjm; pytest itself does not collect them."""

    def get_executor(self):
        """Return the name of the executor."""
        return "pjm"

    def get_executor_settings(self):
        """Return the executor's settings, all as they are by default."""
        from snakemake_executor_plugin_pjm import ExecutorSettings

        return ExecutorSettings()

    def get_resource_settings(self):
        """Return who pays, and a time limit that a busy machine keeps."""
        resources = {"pjm_group": "hp123456", "runtime": sessions.HANG_S // 60}
        return ResourceSettings(default_resources=resources)


def run(cluster, test, expect=0):
    """Run one of Snakemake's tests to its end and check its exit code."""
    paths = [str(TESTS), cluster.environment["PYTHONPATH"]]
    with (cluster.folder / "output").open("w") as output:
        process = sessions.start(
            [sys.executable, __file__, test],
            cluster.folder,
            env=cluster.environment | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    cluster.end(process, expect)


def test_no_test_of_snakemake_is_left_out():
    names = {name for name in dir(WorkflowsThroughPjm) if name.startswith("test_")}
    assert names == JOBS.keys()


@pytest.mark.parametrize("test", JOBS)
def test_snakemakes_test_passes_and_all_its_jobs_are_pjms(cluster, test):
    run(cluster, test)
    cluster.assert_nothing_left()
    (notes,) = cluster.folder.rglob("pjm_logs/submitted")
    assert not [*notes.iterdir()]
    jobs = cluster.jobs()
    assert {name: len(jobs[name]) for name in jobs} == JOBS[test]
    ends = [(job["state"], *job["codes"]) for name in jobs for job in jobs[name]]
    assert set(ends) == {("EXT", 0, 0, 0)}


def test_failed_group_says_why_and_fails_the_test(cluster):
    cluster.switch(REJECT="[ERR.] PJM 0071 pjsub Group not authorized")
    run(cluster, "test_group_workflow", expect=1)
    cluster.assert_faults_happened()
    assert "PJM 0071 pjsub Group not authorized" in cluster.output
    assert "At least one job did not complete successfully" in cluster.output
    assert cluster.jobs() == {}


if __name__ == "__main__":
    getattr(WorkflowsThroughPjm(), sys.argv[1])(Path.cwd())
