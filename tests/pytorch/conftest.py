"""PyTorch itself, in the process of a test: without it, these tests skip."""

import pytest
from tierscope.core.validation import ConfigError
from tierscope.storage.pytorch import use_pytorch

try:
    use_pytorch()
except ConfigError:
    pytest.skip("needs PyTorch: make programs-env", allow_module_level=True)


@pytest.fixture
def paths(tmp_path):
    """Return 24 files; file i has i + 1 bytes."""
    paths = [tmp_path / f"{i:02}" for i in range(24)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes(i + 1))
    return list(map(str, paths))
