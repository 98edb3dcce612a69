"""Keras: `fit` tells its epochs itself; of Keras 3 and of those before it."""

from __future__ import annotations

from functools import wraps

from epoch_hook.loops import LOOPS, note_wrapped, safely

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import ModuleType

_FACTS = {
    "workers": 0,
    "prefetch_factor": None,
    "batch_size": None,
    "persistent": False,
}


def wrap(module: ModuleType) -> None:
    """Wrap a module of callbacks, if it is the one that defines their list."""
    callbacks = getattr(module, "CallbackList", None)
    if callbacks is None or callbacks.__module__ != module.__name__:
        return
    package = module.__name__.partition(".")[0]
    versions = f"{package}.src.version.__version__", f"{package}.__version__"
    note_wrapped("keras", [], *versions)
    original = callbacks.on_epoch_begin

    @wraps(original)
    def on_epoch_begin(self: object, *arguments: object, **named: object) -> object:
        _begin()
        return original(self, *arguments, **named)

    callbacks.on_epoch_begin = on_epoch_begin


@safely
def _begin() -> None:
    LOOPS.begin_next("keras", _FACTS)
