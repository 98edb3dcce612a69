"""Wraps frameworks right after a program has imported them."""

from __future__ import annotations

import sys

from epoch_hook import devices, keras, pytorch, tensorflow
from epoch_hook.loops import safely

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

WRAPPERS = {
    pytorch.MODULE: pytorch.wrap,
    "torch.cuda.streams": devices.wrap_streams,
    "tensorflow.python.data.ops.dataset_ops": tensorflow.wrap,
    "tensorflow.python.distribute.input_lib": tensorflow.wrap_distributed,
    "keras.src.callbacks.callback_list": keras.wrap,
    "keras.src.callbacks": keras.wrap,
    "keras.callbacks": keras.wrap,
    "tf_keras.src.callbacks": keras.wrap,
    "tensorflow.python.keras.callbacks": keras.wrap,
}


class Finder:
    """Finds modules as all others do, and wraps those of frameworks once they ran."""

    def __init__(self, wrappers: dict[str, Callable[[ModuleType], None]]) -> None:
        self._wrappers = wrappers

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> object:
        """Return the spec that another finder gives; None for most modules."""
        wrap = self._wrappers.get(name)
        if wrap is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _wrap_after(spec.loader, safely(wrap))
                return spec
        return None


@safely
def _wrap_after(loader: object, wrap: Callable[[ModuleType], None]) -> None:
    """Let a loader wrap the next module that it executes."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the class's own again
        execute(module)
        wrap(module)

    loader.exec_module = exec_module


def watch() -> None:
    """Wrap what is imported from now on, and what a site has imported before."""
    for name, wrap in WRAPPERS.items():
        if name in sys.modules:
            safely(wrap)(sys.modules[name])
    sys.meta_path.insert(0, Finder(WRAPPERS))
