"""What holds for all tests."""

import hypothesis
import pytest
import sessions

# The same examples in every run, and not more than a suite has time for.
hypothesis.settings.register_profile(
    "suite", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("suite")
FINISHED = "finished"  # a costly fixture
FOLDERS = ("slurm", "pjm", "darshan", "explorer", "lustre")  # with others
LONGEST = ("slurm", FINISHED, "pjm", "darshan", "explorer")


def group_of(item) -> str:
    """Return the name of the tests that run one after the other with this one.

    They share what is costly, such as a cluster or an experiment that has been run.
    """
    if FINISHED in item.fixturenames:
        return FINISHED
    folder = item.path.parent.name
    return folder if folder in FOLDERS else str(item.path)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Tell pytest-xdist which tests share a process; the longest begin first."""
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (*LONGEST, groups[item]).index(groups[item]))


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """End the commands that a test has started and not waited for."""
    yield
    sessions.end_all()
