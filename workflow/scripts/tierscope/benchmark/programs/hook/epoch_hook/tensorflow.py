"""TensorFlow: a `tf.data` dataset tells its iterations in eager mode.

Its threads read in the trainer's process, so a mark is enough.
"""

from __future__ import annotations

import sys

from epoch_hook.loops import LOOPS, around, note_wrapped, safely, take
from epoch_hook.streams import Loader, Stream, place_of_caller

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LIBRARY = ("tensorflow.python.data.", "tensorflow.python.distribute.")
AUTOTUNE = -1


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
    @around(dataset, "__iter__")
    def __iter__(original: Callable, self: object) -> object:
        stream = _begin(self)
        iterator = original(self)
        if stream is not None:
            _connect(stream, iterator)
        return iterator


def _wrap_next(iterator: type) -> None:
    @around(iterator, "__next__")
    def __next__(original: Callable, self: object) -> object:
        stream = getattr(self, "_tierscope", None)
        return original(self) if stream is None else take(stream, original, self)


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
            "batch_size": _last_batch(chain),
            "persistent": False,
            "readers": _n_readers(chain),
            "prefetch_batches": _prefetched(chain),
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
    return _number(dataset, "_batch_size")


def _n_readers(chain: list) -> int:
    """Return how many calls of a pipeline may read at a time; -1: it tunes itself."""
    names = "_num_parallel_calls", "_num_parallel_reads"
    found = [_number(dataset, name) for dataset in chain for name in names]
    found = [number for number in found if number is not None]
    return AUTOTUNE if AUTOTUNE in found else max([1, *found])


def _prefetched(chain: list) -> int:
    """Return how many batches a pipeline reads ahead; -1: it tunes itself."""
    n_samples, batch_size = 0, _last_batch(chain) or 1
    for place, dataset in enumerate(chain):
        if "Prefetch" not in type(dataset).__name__:
            continue
        number = _number(dataset, "_buffer_size") or 0
        if number == AUTOTUNE:
            return AUTOTUNE
        is_of_batches = _last_batch(chain[place:]) is not None
        n_samples += number * batch_size if is_of_batches else number
    return n_samples // batch_size


def _last_batch(chain: list) -> int | None:
    return next(filter(None, map(_batch_size, chain)), None)


def _number(dataset: object, name: str) -> int | None:
    number = getattr(dataset, name, None)
    try:
        return None if number is None else int(number)
    except (TypeError, ValueError):
        return None
