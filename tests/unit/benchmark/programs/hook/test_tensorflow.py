import sys
from types import ModuleType, SimpleNamespace

import pytest
from epoch_hook import tensorflow


class Dataset:
    """What the hook knows of a dataset of TensorFlow."""

    element_spec = "uint8"

    def __init__(self, made_of=None, batch_size=None):
        self.made_of, self._batch_size = made_of, batch_size

    def _inputs(self):
        return [self.made_of] if self.made_of else []

    def __iter__(self):
        return Iterator()


class Iterator:
    """What the hook knows of an iterator of TensorFlow."""

    def __init__(self):
        self.left = list("hgfedcba")

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop()


@pytest.fixture
def marks(made_loops, marks, monkeypatch):
    """Wrap the class above; return the list of marks."""
    monkeypatch.setattr(tensorflow, "LOOPS", made_loops)
    monkeypatch.setattr(Dataset, "__iter__", Dataset.__iter__)
    monkeypatch.setattr(Iterator, "__next__", Iterator.__next__)
    iterator_ops = SimpleNamespace(OwnedIterator=Iterator)
    module = SimpleNamespace(DatasetV2=Dataset, iterator_ops=iterator_ops)
    tensorflow.wrap(module)
    return marks


def test_each_iteration_of_a_dataset_is_an_epoch(marks):
    train, held = Dataset(), Dataset()
    for _ in range(3):
        assert list(train) == list(held) == list("abcdefgh")
    assert marks == [0, 1, 2]


def test_dataset_that_is_derived_anew_each_epoch_continues(marks):
    names, kept = Dataset(), []
    for _ in range(3):
        kept.append(Dataset(Dataset(names)))
        list(kept[-1])
    assert marks == [0, 1, 2]


def test_validation_between_two_batches_is_no_epoch(marks):
    train, held = Dataset(), Dataset()
    for epoch in range(3):
        for step, _ in enumerate(train):
            if step in (1, 5):
                list(held)
        assert marks == list(range(epoch + 1))


def test_batch_size_is_that_of_the_last_batching(monkeypatch, marks):
    noted = []
    monkeypatch.setattr(
        tensorflow.LOOPS, "_note_loader", lambda *given: noted.append(given[2])
    )
    list(Dataset(Dataset(Dataset(), batch_size=8)))
    list(Dataset(Dataset(), batch_size="?"))
    assert [one["batch_size"] for one in noted] == [8, None]


def pipeline(*stages):
    """Return datasets made of each other; each stage is a kind and its numbers."""
    dataset = None
    for kind, numbers in stages:
        dataset = type(kind, (Dataset,), numbers)(dataset)
    return dataset


@pytest.mark.parametrize(
    ("stages", "readers", "prefetched"),
    [
        ([("Map", {})], 1, 0),
        ([("Map", {"_num_parallel_calls": 4})], 4, 0),
        ([("Records", {"_num_parallel_reads": -1}), ("Map", {})], -1, 0),
        ([("Batch", {"_batch_size": 8}), ("Prefetch", {"_buffer_size": 2})], 1, 2),
        ([("Prefetch", {"_buffer_size": 20}), ("Batch", {"_batch_size": 8})], 1, 2),
        ([("Batch", {"_batch_size": 8}), ("Prefetch", {"_buffer_size": -1})], 1, -1),
    ],
)
def test_pipeline_says_how_many_read_and_how_far_ahead(stages, readers, prefetched):
    for _, numbers in stages:
        numbers.setdefault("__init__", lambda self, of: setattr(self, "made_of", of))
    chain = tensorflow._chain(pipeline(*stages))
    assert tensorflow._n_readers(chain) == readers
    assert tensorflow._prefetched(chain) == prefetched


def test_tracing_of_a_function_is_no_iteration(marks, monkeypatch):
    context = ModuleType("tensorflow.python.eager.context")
    context.executing_eagerly = lambda: False
    monkeypatch.setitem(sys.modules, context.__name__, context)
    assert list(Dataset()) == list("abcdefgh")
    assert marks == []


def test_datasets_of_a_strategy_are_wrapped_too(marks, monkeypatch):
    kinds = [type(f"Of{i}", (), {"__iter__": lambda self: iter("a")}) for i in (1, 2)]
    names = ("DistributedDataset", "DistributedDatasetsFromFunction")
    tensorflow.wrap_distributed(SimpleNamespace(**dict(zip(names, kinds, strict=True))))
    assert list(kinds[0]()) == ["a"]
    assert marks == [0]
