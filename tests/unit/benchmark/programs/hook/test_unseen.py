import sys
from types import ModuleType, SimpleNamespace

import pytest
from epoch_hook import unseen


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/dev/nvidia0", True),
        ("/dev/dri/renderD128", True),
        ("/dev/accel/accel0", True),
        ("/dev/kfd", True),
        ("/dev/nvidiactl", False),  # a driver that was only asked how many there are
        ("/dev/null", False),
        ("/home/dev/nvidia0", False),
    ],
)
def test_open_files_of_devices_are_known_by_their_names(path, is_open, tmp_path):
    (tmp_path / "3").symlink_to(path)
    (tmp_path / "4").write_text("no link")
    assert unseen._has_open_device(str(tmp_path)) == is_open


@pytest.fixture
def frameworks(monkeypatch):
    """Return a function that sets which frameworks are loaded."""
    for name in ("torch", "tensorflow", "jax._src.xla_bridge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    context = "tensorflow.python.eager.context"
    monkeypatch.delitem(sys.modules, context, raising=False)

    def load(*names, tensorflow_on=(), backend=None, has_file=True):
        monkeypatch.setattr(unseen, "_has_open_device", lambda: has_file)
        for name in names:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        if backend:
            used = SimpleNamespace(is_initialized=lambda: True)
            setattr(sys.modules["torch"], backend, used)
        logical = [SimpleNamespace(device_type=one) for one in tensorflow_on]
        known = SimpleNamespace(_context=SimpleNamespace(_logical_devices=logical))
        monkeypatch.setitem(sys.modules, context, known)
        return unseen.may_use_unseen_devices()

    return load


def test_a_device_that_no_framework_explains_is_used(frameworks):
    assert not frameworks(has_file=False)
    assert frameworks()
    assert not frameworks("torch")


@pytest.mark.parametrize("backend", ["xpu", "hpu", "npu"])
def test_other_devices_of_pytorch_have_no_such_events(backend, frameworks):
    assert frameworks("torch", backend=backend, has_file=False)


def test_tensorflow_on_the_processor_of_a_machine_with_devices_is_exact(frameworks):
    assert not frameworks("tensorflow", tensorflow_on=["CPU"])
    assert frameworks("tensorflow", tensorflow_on=["CPU", "GPU"])
