"""What holds for all tests."""

import gc
import os
import sys

import hypothesis
import pytest
import sessions
import shared
from native import compiled_library
from xdist.scheduler import LoadScopeScheduling

# Of all that tests start: idle threads of NumPy spin for half of its import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.set_threshold(50_000, 20, 50)  # a tenth of the time of what makes many objects
# The same examples in every run, and not more than a suite has time for.
hypothesis.settings.register_profile(
    "suite", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("suite")
# Tests that share what is costly: a cluster, or an experiment that has been run. The
# longest begin first, and those that compile the simulator's loops, for all others.
WAITING = {  # mostly for jobs; a process that has had one of them ends
    "slurm programs": ("tests/slurm/test_program.py", "tests/slurm/test_cluster.py"),
    "slurm": "tests/slurm/",  # with a cluster of its own
}
GROUPS = WAITING | {
    "simulator": "tests/unit/model/",
    "workflow": "tests/integration/test_workflow.py",
    "pjm": "tests/pjm/",
    "darshan": "tests/darshan/",
    "explorer": "tests/explorer/",
    "lustre": "tests/lustre/",
}


def group_of(nodeid: str) -> str:
    """Return the name of the tests that run one after the other with this one."""
    for name, paths in GROUPS.items():
        if nodeid.startswith(paths):
            return name
    return nodeid.split("::")[0]


def pytest_configure(config):
    """Make the folder of what all processes share; the first one removes it."""
    if shared.begin():
        config.add_cleanup(shared.end)


class OneProcessAGroup(LoadScopeScheduling):
    """Give each group of tests to one process of pytest-xdist."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _reschedule(self, node) -> None:
        waited = WAITING.keys() & self.assigned_work[node].keys()
        if not waited or len(self.nodes) <= 2:
            super()._reschedule(node)
        elif not node.shutting_down:  # one more that computes delays the others
            node.shutdown()


def pytest_xdist_make_scheduler(config, log):
    """Return what deals the tests to processes."""
    return OneProcessAGroup(config, log)


def pytest_collection_modifyitems(items):
    """Let the longest groups begin first."""
    order = {name: place for place, name in enumerate(GROUPS)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid), len(order)))


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """End the commands that a test has started and not waited for."""
    yield
    sessions.end_all()


@pytest.fixture(scope="session")
def pydarshan():
    """Return PyDarshan, which reads logs independently of us."""
    reason = "PyDarshan has no wheel for this Python: they end at 3.12"
    pytest.importorskip("darshan.report", reason=reason)  # tests/darshan is no wheel
    return sys.modules["darshan"]


@pytest.fixture(scope="session")
def trace_library():
    """Return the path of the compiled tracer."""
    return compiled_library("trace")


@pytest.fixture(scope="session")
def device_library():
    """Return the path of the compiled device emulator."""
    return compiled_library("device")


@pytest.fixture(scope="session")
def redirect_library():
    """Return the path of the compiled library that redirects opens."""
    return compiled_library("redirect")
