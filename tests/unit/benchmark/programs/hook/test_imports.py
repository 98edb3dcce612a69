import importlib
import sys

import pytest
from epoch_hook.imports import Finder


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Watch a package of a folder; return the list of modules that were wrapped."""
    package = tmp_path / "a_framework"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "data.py").write_text("VALUE = 1\n")
    (package / "other.py").write_text("VALUE = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = []

    def wrap(module):
        found.append((module.__name__, module.VALUE))
        raise RuntimeError("a fault of the hook")

    finder = Finder({"a_framework.data": wrap, "a_framework.none": wrap})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield found
    for name in [name for name in sys.modules if name.startswith("a_framework")]:
        del sys.modules[name]


def test_module_is_wrapped_once_it_has_run_and_stays_as_others_are(wrapped):
    module = importlib.import_module("a_framework.data")
    assert wrapped == [("a_framework.data", 1)]
    assert "exec_module" not in vars(module.__spec__.loader)
    importlib.reload(module)
    assert len(wrapped) == 2


def test_other_modules_are_not_touched(wrapped):
    assert importlib.import_module("a_framework.other").VALUE == 2
    with pytest.raises(ModuleNotFoundError, match=r"a_framework\.none"):
        importlib.import_module("a_framework.none")
    assert wrapped == []
