"""Whether a process may use devices that have no events of PyTorch."""

from __future__ import annotations

import os
import re
import sys

_FILES = re.compile(
    r"/dev/(nvidia\d+|kfd|dxg|nvmap|dri/render\w+|accel(/accel)?\d*|davinci\d+|"
    r"neuron\d+|hl\d+|vfio/\d+)"
)
_LIBRARIES = ("cupy", "numba.cuda", "paddle", "pycuda.driver", "torch_xla")
_BACKENDS = ("xpu", "hpu", "npu", "mtia", "musa", "mlu")  # of PyTorch, beside CUDA


def may_use_unseen_devices() -> bool:
    """Return whether this process may use one; nothing is imported or initialised.

    PyTorch and TensorFlow open files of devices to count these, and then say whether
    they use them.
    """
    torch = sys.modules.get("torch")
    if any(_is_initialized(getattr(torch, name, None)) for name in _BACKENDS):
        return True
    if _jax_runs() or _tensorflow_has_devices():
        return True
    if not _has_open_device():
        return False
    says = "torch" in sys.modules or "tensorflow" in sys.modules
    return not says or any(name in sys.modules for name in _LIBRARIES)


def _is_initialized(backend: object) -> bool:
    ask = getattr(backend, "is_initialized", None)
    return ask is not None and bool(ask())


def _jax_runs() -> bool:
    """Return whether JAX computes: its calls return early on a processor, too."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def _tensorflow_has_devices() -> bool:
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    devices = getattr(context, "_logical_devices", None) or ()
    return any("CPU" not in one.device_type for one in devices)


def _has_open_device(folder: str = "/proc/self/fd") -> bool:
    """Return whether this process has a device's file open."""
    for name in os.listdir(folder):
        try:
            path = os.readlink(os.path.join(folder, name))
        except OSError:  # closed since, as that of the folder itself
            continue
        if _FILES.fullmatch(path):
            return True
    return False
