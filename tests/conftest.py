"""What holds for all tests."""

import pytest
import sessions


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """End the commands that a test has started and not waited for."""
    yield
    sessions.end_all()
