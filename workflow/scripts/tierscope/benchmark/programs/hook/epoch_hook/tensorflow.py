"""TensorFlow: a `tf.data` dataset tells its iterations in eager mode.

Its threads read in the trainer's process, so a mark is enough.
"""

from __future__ import annotations

import sys
from functools import wraps

from epoch_hook.loops import LOOPS, note_wrapped, safely
from epoch_hook.streams import Loader, Stream, place_of_caller

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import ModuleType

LIBRARY = ("tensorflow.python.data.", "tensorflow.python.distribute.")


def wrap(module: ModuleType) -> None:
    """Wrap the module of datasets."""
    note_wrapped("tensorflow", [], "tensorflow.python.framework.versions.VERSION")
    _wrap_iter(module.DatasetV2)
    _wrap_next(module.iterator_ops.OwnedIterator)


def wrap_distributed(module: ModuleType) -> None:
    """Wrap the module of datasets that a strategy distributes over devices."""
    _wrap_iter(module.DistributedDataset)
    _wrap_iter(module.DistributedDatasetsFromFunction)


def _wrap_iter(dataset: type) -> None:
    original = dataset.__iter__

    @wraps(original)
    def __iter__(self: object) -> object:
        stream = _begin(self)
        iterator = original(self)
        if stream is not None:
            _connect(stream, iterator)
        return iterator

    dataset.__iter__ = __iter__


def _wrap_next(iterator: type) -> None:
    original = iterator.__next__

    @wraps(original)
    def __next__(self: object) -> object:
        stream = getattr(self, "_tierscope", None)
        if stream is None:
            return original(self)
        stream.ask()
        try:
            return original(self)
        except StopIteration:
            stream.end()
            raise

    iterator.__next__ = __next__


@safely
def _connect(stream: Stream, iterator: object) -> None:
    stream.follow(iterator)
    iterator._tierscope = stream


@safely
def _begin(dataset: object) -> Stream | None:
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None and not context.executing_eagerly():
        return None  # a function is traced: this runs once, whatever the function does
    chain = _chain(dataset)
    _, stream = LOOPS.begin(
        "tensorflow",
        Loader(
            dataset,
            kind=(*(type(one).__name__ for one in chain), _shape(dataset)),
            size=None,
            source=_origin,
        ),
        place_of_caller(LIBRARY),
        {
            "workers": 0,
            "prefetch_factor": None,
            "batch_size": next(filter(None, map(_batch_size, chain)), None),
            "persistent": False,
        },
    )
    stream.expect()  # `get_next` asks, too
    return stream


def _chain(dataset: object) -> list:
    """Return a dataset and those that it is made of, by their first inputs."""
    chain = [dataset]
    while True:
        inputs = getattr(chain[-1], "_inputs", list)()
        if not inputs:
            return chain
        chain.append(inputs[0])


def _origin(dataset: object) -> object:
    return _chain(dataset)[-1]


def _shape(dataset: object) -> str:
    return repr(getattr(dataset, "element_spec", None))


def _batch_size(dataset: object) -> int | None:
    size = getattr(dataset, "_batch_size", None)
    try:
        return None if size is None else int(size)
    except (TypeError, ValueError):
        return None
