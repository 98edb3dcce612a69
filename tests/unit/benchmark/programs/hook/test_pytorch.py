import json
import os
import pickle
import sys
from types import ModuleType, SimpleNamespace

import pytest
from epoch_hook import loops, pytorch
from epoch_hook.loops import Fetches
from epoch_hook.pytorch import Batch, wrap


def fake_module():
    """Return what the hook knows of PyTorch's DataLoader, with one batch of indices."""
    module = ModuleType("torch.utils.data.dataloader")

    class Fetcher:
        def __init__(self, dataset):
            self.dataset = dataset

        def fetch(self, indices):
            return [self.dataset[i] for i in indices]

    class MapFetcher(Fetcher):
        def fetch(self, indices):
            return super().fetch(indices)

    class IterableFetcher(Fetcher):
        def __init__(self, dataset):
            super().__init__(dataset)

        def fetch(self, indices):
            return super().fetch(indices)

    class Iterator:
        def __init__(self, loader):
            self.fetcher = MapFetcher(loader.dataset)
            self._reset(loader, first_iter=True)

        def _reset(self, loader, first_iter=False):
            self.left = [[0, 1]]

        def _next_index(self):
            return self.left.pop()

        def __next__(self):
            if not self.left:
                raise StopIteration
            return self.fetcher.fetch(self._next_index())

    class DataLoader:
        batch_size, num_workers, prefetch_factor, persistent_workers = 2, 0, None, False
        sampler, made = None, None

        def __init__(self, dataset):
            self.dataset = dataset

        def __iter__(self):
            if self.persistent_workers and self.made:
                self.made._reset(self)
            else:
                self.made = Iterator(self)
            return self.made

    fetch = SimpleNamespace(
        _MapDatasetFetcher=MapFetcher, _IterableDatasetFetcher=IterableFetcher
    )
    module._utils = SimpleNamespace(fetch=fetch)
    module._BaseDataLoaderIter, module.DataLoader = Iterator, DataLoader
    return module


@pytest.fixture
def marks(made_loops, marks, monkeypatch):
    """Let the hook mark into a list, in a process that is no worker."""
    monkeypatch.setattr(pytorch, "LOOPS", made_loops)
    data = SimpleNamespace(get_worker_info=lambda: None)
    torch = ModuleType("torch")
    torch.utils = SimpleNamespace(data=data)
    torch.is_grad_enabled = lambda: True
    monkeypatch.setitem(sys.modules, "torch", torch)
    return marks


@pytest.fixture
def entered(monkeypatch):
    """Return the list of epochs that this process alone reads for."""
    entered = []
    monkeypatch.setattr(pytorch, "_here", entered.append)
    return entered


def test_batch_is_read_in_the_epoch_in_which_it_was_drawn(marks, entered):
    module = fake_module()
    wrap(module)
    loader = module.DataLoader("ab")
    first = iter(loader)
    second = iter(loader)  # nobody has asked the first one for a batch
    assert marks == [0]
    assert next(second) == ["a", "b"]
    third = iter(loader)
    assert marks == [0, 1]
    assert next(first) == next(third) == ["a", "b"]
    assert entered == [0, -1, 0, -1, 1, -1]  # a trainer reads other things afterwards


def test_worker_stays_in_the_epoch_of_its_batch_and_marks_nothing(marks, entered):
    module = fake_module()
    wrap(module)
    sys.modules["torch"].utils.data.get_worker_info = lambda: "worker 1"
    drawn = Batch(4, [1, 0], pid=os.getppid())
    fetcher = module._utils.fetch._MapDatasetFetcher("ab")
    assert fetcher.fetch(pickle.loads(pickle.dumps(drawn))) == ["b", "a"]
    assert entered == [4]
    module._utils.fetch._IterableDatasetFetcher("ab")
    assert entered == [4, -1]  # a new iteration has begun
    assert next(iter(module.DataLoader("cd"))) == ["c", "d"]
    assert marks == []
    assert entered == [4, -1]


def test_fetches_and_facts_are_noted(marks, entered, tmp_path, monkeypatch):
    monkeypatch.setenv("TIERSCOPE_HOOK_NOTES", str(tmp_path))
    monkeypatch.setattr(pytorch, "FETCHES", Fetches())
    sys.modules["torch"].utils.data.IterableDataset = bytes
    module = fake_module()
    wrap(module)
    list(module.DataLoader("ab"))
    list(module.DataLoader(b"ab"))
    pytorch.FETCHES.note()
    text = (tmp_path / f"{os.getpid()}.jsonl").read_text()
    notes = list(map(json.loads, text.splitlines()))
    loaders = [one for one in notes if one["kind"] == "loader"]
    assert [one["style"] for one in loaders] == ["map", "iterable"]
    assert [one["in_steps"] for one in loaders] == [False, False]
    (fetch,) = [one for one in notes if one["kind"] == "fetch"]
    assert (fetch["epoch"], fetch["samples"]) == (0, 4)
    assert [one["batches"] for one in notes if one["kind"] == "loop"] == [1, 1]


@pytest.mark.parametrize("is_left", [False, True])
def test_end_of_the_workers_of_a_loop_that_is_left_is_told(
    is_left, marks, notes, monkeypatch, entered
):
    clock_ns = [0]
    monkeypatch.setattr(pytorch.time, "monotonic_ns", lambda: clock_ns[0])
    monkeypatch.setattr(loops, "LOOPS", pytorch.LOOPS)
    module = fake_module()

    class Iterator(module._BaseDataLoaderIter):
        def _shutdown_workers(self):
            clock_ns[0] += 4 * 10**9

        def __del__(self):
            self._shutdown_workers()

    module._MultiProcessingDataLoaderIter = Iterator
    wrap(module)
    iterator = Iterator(module.DataLoader("ab"))
    next(iterator)
    clock_ns[0] += 7 * 10**9
    if not is_left:
        assert next(iterator, None) is None
    del iterator
    (loop,) = [one for one in notes() if one["kind"] == "loop"]
    assert (loop["left"], loop["end_s"]) == (is_left, 4 * is_left)


def test_persistent_workers_begin_an_epoch_at_each_iteration(marks, entered):
    module = fake_module()
    wrap(module)
    loader = module.DataLoader("ab")
    loader.persistent_workers = True
    for _ in range(3):
        assert next(iter(loader)) == ["a", "b"]
    assert marks == [0, 1, 2]
    assert entered == [0, -1, 1, -1, 2, -1]


def test_without_gradients_it_is_an_evaluation(marks, entered):
    module = fake_module()
    wrap(module)
    train, held = module.DataLoader("ab"), module.DataLoader("cd")
    next(iter(train))
    sys.modules["torch"].is_grad_enabled = lambda: False
    next(iter(held))
    next(iter(held))
    assert marks == [0]
    assert entered == [0, -1, 0, -1, 0, -1]


@pytest.mark.parametrize("missing", ["_next_index", "_reset"])
def test_of_another_version_only_marks_are_left(missing, marks, tmp_path, monkeypatch):
    monkeypatch.setenv("TIERSCOPE_HOOK_NOTES", str(tmp_path))
    module = fake_module()
    monkeypatch.setattr(
        pytorch, "_INTERNAL", (f"_BaseDataLoaderIter.{missing}_of_old",)
    )
    wrap(module)
    loader = module.DataLoader("ab")
    assert [next(iter(loader)), next(iter(loader))] == [["a", "b"]] * 2
    assert marks == [0, 1]
    note = json.loads((tmp_path / f"{os.getpid()}.jsonl").read_text().splitlines()[0])
    assert note["missing"] == [f"_BaseDataLoaderIter.{missing}_of_old"]


def test_batches_stay_plain_if_a_worker_would_start_without_the_hook(
    marks, entered, monkeypatch
):
    module = fake_module()
    wrap(module)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert next(iter(module.DataLoader("ab"))) == ["a", "b"]
    assert marks == [0, "end"]
    assert entered == []


def test_error_of_the_hook_does_not_reach_the_program(marks, entered, monkeypatch):
    module = fake_module()
    wrap(module)
    monkeypatch.setattr(pytorch, "LOOPS", None)
    loader = module.DataLoader("ab")
    iterator = iter(loader)
    assert list(iter(lambda: next(iterator, None), None)) == [["a", "b"]]
