"""What holds for all tests."""

import hypothesis
import pytest
import sessions

# The same examples in every run, and not more than a suite has time for.
hypothesis.settings.register_profile(
    "suite", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("suite")
# Fixtures of a session, which are costly: their tests share a process.
SHARED = ("finished",)
FOLDERS = ("slurm", "pjm", "darshan", "explorer", "lustre")


def group_of(item) -> str:
    """Return the name of the tests that run one after the other with this one.

    They share what is costly, such as a cluster or an experiment that has been run.
    """
    for name in SHARED:
        if name in item.fixturenames:
            return name
    folder = item.path.parent
    if folder.name in FOLDERS:
        return folder.name
    return str(item.path)


def pytest_collection_modifyitems(items):
    """Tell pytest-xdist which tests share a process."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """End the commands that a test has started and not waited for."""
    yield
    sessions.end_all()
