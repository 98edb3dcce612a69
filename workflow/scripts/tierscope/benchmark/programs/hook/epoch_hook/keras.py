"""Keras tells epochs and evaluations itself; of Keras 3 and of those before it."""

from __future__ import annotations

from epoch_hook.loops import LOOPS, around, note_wrapped, safely

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
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
    _call_before(callbacks, "on_epoch_begin", _begin)
    _call_before(callbacks, "on_test_begin", _evaluate)
    _call_before(callbacks, "on_predict_begin", _evaluate)
    _call_before(callbacks, "on_train_end", _end)
    _call_before(callbacks, "on_test_end", _end_evaluation)
    _call_before(callbacks, "on_predict_end", _end_evaluation)


def _call_before(callbacks: type, name: str, tell: Callable[[], object]) -> None:
    """Let a method of the list of callbacks call a function first."""
    if not hasattr(callbacks, name):
        return

    @around(callbacks, name)
    def method(original: Callable, *arguments: object, **named: object) -> object:
        tell()
        return original(*arguments, **named)


@safely
def _begin() -> None:
    LOOPS.begin_next("keras", _FACTS)


@safely
def _evaluate() -> None:
    LOOPS.evaluate("keras")


@safely
def _end() -> None:
    LOOPS.end_told("keras")


@safely
def _end_evaluation() -> None:
    LOOPS.end_told("keras", is_evaluation=True)
