"""PyTorch itself, in the process of a test."""

import pytest
from tierscope.core.validation import ConfigError
from tierscope.storage.pytorch import use_pytorch


@pytest.fixture(scope="session", autouse=True)
def pytorch():
    """Let tests import PyTorch."""
    try:
        use_pytorch()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def paths(tmp_path):
    """Return 24 files; file i has i + 1 bytes."""
    paths = [tmp_path / f"{i:02}" for i in range(24)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes(i + 1))
    return list(map(str, paths))
