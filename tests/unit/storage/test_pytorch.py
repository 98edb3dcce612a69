"""Where loader `pytorch` finds PyTorch."""

import sys

import pytest
from tierscope.core.validation import ConfigError
from tierscope.storage import pytorch as module
from tierscope.storage.pytorch import find_pytorch


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Return an optional environment that has PyTorch, which ours does not have."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    package = tmp_path / "lib" / version / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return tmp_path


def test_optional_environment_is_taken(environment):
    (folder,) = find_pytorch(environment)
    assert folder.endswith("site-packages")
    assert folder.startswith(str(environment))


def test_own_environment_comes_first(environment, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: name == "torch")
    assert find_pytorch(environment) == []


def test_nowhere_is_said_in_one_line_with_what_to_do(environment):
    other = environment / "other"
    with pytest.raises(ConfigError) as refusal:
        find_pytorch(other)
    line = str(refusal.value)
    assert "\n" not in line
    assert line.startswith("config: sweep.loaders: got pytorch, expected PyTorch in ")
    assert f"{other}: make programs-env" in line
