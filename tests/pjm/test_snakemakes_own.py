"""Snakemake's own tests of executors, through the stand-in for PJM.

They run Snakemake in the process of the test and leave its handler of SIGTERM there, so
each runs in a process of its own: this file, started with the name of a test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake.settings.types import ResourceSettings
from snakemake_executor_plugin_pjm import ExecutorSettings

TESTS = Path(__file__).parents[1]


class WorkflowsOnPjm(TestWorkflowsLocalStorageBase):
    """Snakemake's tests; ``__test__`` is off: pytest does not run them here."""

    def get_executor(self):
        """Return the name of the executor."""
        return "pjm"

    def get_executor_settings(self):
        """Return the settings of the executor."""
        return ExecutorSettings()

    def get_resource_settings(self):
        """Return the resource that PJM needs."""
        return ResourceSettings(default_resources={"pjm_group": "hp123456"})


def run(cluster, test, expect=0):
    """Run one of Snakemake's tests to its end and check its exit code."""
    import sessions

    paths = [str(TESTS), cluster.environment["PYTHONPATH"]]
    with (cluster.folder / "output").open("w") as output:
        process = sessions.start(
            [sys.executable, __file__, test],
            cluster.folder,
            env=cluster.environment | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return cluster.end(process, expect)


def test_x(cluster):
    run(cluster, "test_simple_workflow")
    print(cluster.output)
    print(cluster.jobs())
    assert 0


def test_y(cluster):
    run(cluster, "test_group_workflow")
    print(cluster.output)
    print(cluster.jobs())
    assert 0

def test_z(cluster):
    cluster.switch(REJECT="[ERR.] PJM 0071 pjsub nope")
    run(cluster, "test_group_workflow")
    assert 0

if __name__ == "__main__":
    import signal, threading, logging
    def show():
        print("STATE", os.getcwd(), signal.getsignal(signal.SIGTERM), sys.path, threading.enumerate(), logging.getLogger().handlers, logging.getLogger("snakemake.logging").handlers, logging.getLogger("snakemake.logging").level, {k for k in os.environ}-E0)
    E0 = set(os.environ)
    show()
    getattr(WorkflowsOnPjm(), sys.argv[1])(Path.cwd())
    show()
