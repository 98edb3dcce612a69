"""The rule of PyTorch's `DataLoader` beside the virtual run: orders, no times.

Both read the same files. An event is (actor, what it does, what with); the actor is the
consumer or a worker.
"""

import itertools
import json
from collections import defaultdict
from multiprocessing import get_context

import numpy as np
import pytest
from long.storage.emulated.test_virtual_time import Launch
from tierscope.storage.emulated.device import Device

N_FILES, BATCH_SIZE = 59, 3
FILES = np.random.default_rng(1).permutation(N_FILES).tolist()  # as they are read
BATCHES = [FILES[i : i + BATCH_SIZE] for i in range(0, N_FILES, BATCH_SIZE)]
SIZES = np.random.default_rng(2).integers(100, 20_000, N_FILES).tolist()
PATIENCE_S = 60  # with what never comes
CASES = list(itertools.product((0, 1, 2, 4), (1, 2, 4)))
# A file takes 10 ms on average: the consumer waits mostly, at times, or only at first.
SHORT, EVEN, LONG = STEPS_S = 0.001, 0.02, 100.0
CODE = """
import tierscope.benchmark.loaders.workers as workers_module

act, compute, file_sizes = clock.act, clock.compute, workers_module.file_sizes
of_thread, log, received = threading.local(), [], []

def add(actor, *event):
    log.append([clock.now_ns(), actor, *event])

def noted_act(rank, role):
    is_consumer = role == Role.CONSUMER
    of_thread.actor = "consumer" if is_consumer else f"worker {role - Role.WORKER}"
    return act(rank, role)

def noted_sizes(paths, *settings):
    (file,) = (int(os.path.basename(path)) for path in paths)
    add(of_thread.actor, "begins", file)
    yield from file_sizes(paths, *settings)
    add(of_thread.actor, "has read", file)

def noted_compute(time_ns):
    add("consumer", "receives", received[-1])
    compute(time_ns)
    add("consumer", "ends step", len(received) - 1)

def noted_batches(batches):
    for batch in batches:
        received.append(batch)
        yield batch

def epoch_of(workers, factor, step_s):
    log.clear(), received.clear()
    clock.plan_batches(N_BATCHES, workers, factor, 0.0)
    settings = LoaderSettings(0, 0, 0, workers, factor)
    loader = workers_module.WorkerLoader(BATCH_SIZE, settings, clock)
    batches = noted_batches(loader.epoch([f"{folder}/gfs.ep0/{i}" for i in FILES]))
    run_epoch(batches, clock, repeat(to_ns(step_s)))
    return log.copy()

clock.act, clock.compute = noted_act, noted_compute
workers_module.file_sizes = noted_sizes
print(json.dumps([epoch_of(*case) for case in CASES]))
"""
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
# Of one instant: causes before what they cause.
KINDS = "has read", "ends step", "receives", "begins"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder whose `gfs` has the files."""
    folder = tmp_path_factory.mktemp("rule")
    (folder / "gfs").mkdir()
    (folder / "gfs.ep0").symlink_to("gfs")
    for file, size in enumerate(SIZES):
        (folder / "gfs" / str(file)).write_bytes(bytes(size))
    return folder


@pytest.fixture(scope="module")
def virtual(folder, device_library):
    """Return the events of virtual runs in order, by workers, factor and step."""
    prefix = (str(folder / "gfs"),)
    device = Device(prefix, n_object_servers=2, bandwidth_bytes_per_s=1e6)
    cases = [(*case, step_s) for case in CASES for step_s in STEPS_S]
    given = f"FILES, BATCH_SIZE, N_BATCHES = {FILES}, {BATCH_SIZE}, {len(BATCHES)}\n"
    launch = Launch(folder, device_library, [device], 1)
    try:
        (logs,) = launch.run(f"{given}CASES = {cases}\n{CODE}")
    finally:
        for child in launch.children:
            child.kill()
            child.wait()
    return {case: in_order(log) for case, log in zip(cases, logs, strict=True)}


def in_order(log):
    """Return the events of [instant, actor, kind, what] by instant."""
    log.sort(key=lambda entry: (entry[0], KINDS.index(entry[2]), entry[1]))
    return [event_of(*event) for _, *event in log]


def event_of(actor, kind, what):
    """Return an event that is no other one: (samples, bytes) of a batch are a tuple."""
    return actor, kind, tuple(what) if isinstance(what, list) else what


class Events:
    """What several processes say that they do, one after the other.

    If the order is given, each waits for its turn.
    """

    def __init__(self, path, order=()):
        context = get_context("fork")
        self._path, self._changed = path, context.Condition()
        self._n_events, self._n_read = (
            context.RawArray("q", 1),
            context.RawArray("q", 1),
        )
        self._turns = {event: turn for turn, event in enumerate(order)}
        assert len(self._turns) == len(order)

    def add(self, *event):
        """Add an event when its turn comes."""
        with self._changed:
            if self._turns:
                turn = self._turns[event]
                self._wait(lambda: self._n_events[0] == turn, event)
            with self._path.open("a") as file:
                file.write(json.dumps(event) + "\n")
            self._n_events[0] += 1
            self._n_read[0] += event[1] == "has read"
            self._changed.notify_all()

    def await_reads(self, n_files):
        """Wait until so many files have been read."""
        with self._changed:
            self._wait(lambda: self._n_read[0] >= n_files, f"{n_files} files")

    def _wait(self, holds, what):
        """Wait for what comes, unless the rule is another one."""
        words = f"waits for ever: {what}, after {self._n_events[0]} events"
        assert self._changed.wait_for(holds, PATIENCE_S), words

    def so_far(self):
        """Return all events."""
        return [event_of(*json.loads(x)) for x in self._path.read_text().splitlines()]


class Files:
    """A dataset; a sample is the length of a file that was read."""

    def __init__(self, folder, events):
        self._folder, self._events = folder, events

    def __getitem__(self, file):
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        actor = "consumer" if info is None else f"worker {info.id}"
        self._events.add(actor, "begins", file)
        size = len((self._folder / "gfs" / str(file)).read_bytes())
        self._events.add(actor, "has read", file)
        return size


happened = []  # in the process of PyTorch's consumer


class Sampler:
    """Names the batches, and notes when PyTorch sends each."""

    def __iter__(self):
        for number, batch in enumerate(BATCHES):
            happened.append(("is sent", number))
            yield batch


class Result(tuple):
    """The (samples, bytes) of a batch; notes when the consumer's process has it."""

    def __reduce__(self):
        return arrived, tuple(self)


def arrived(*result):
    """Return the result that a worker has delivered."""
    happened.append(("arrives", result))
    return Result(result)


def run_pytorch(folder, events, workers, factor, ends_step):
    """Run an epoch of the real `DataLoader`; `ends_step` says when a step may end."""
    from torch.utils.data import DataLoader

    happened.clear()
    loader = DataLoader(
        Files(folder, events),
        batch_sampler=Sampler(),
        num_workers=workers,
        prefetch_factor=factor if workers else None,
        multiprocessing_context="fork" if workers else None,
        collate_fn=lambda sizes: Result((len(sizes), sum(sizes))),
    )
    for step, result in enumerate(loader):
        happened.append(("is received", tuple(result)))
        events.add("consumer", "receives", tuple(result))
        ends_step()
        events.add("consumer", "ends step", step)


def by_step(events):
    """Return what each actor does, in its order, until each step ends."""
    steps, done = [], defaultdict(list)
    for actor, *event in events:
        done[actor].append(event)
        if event[0] == "ends step":
            steps.append(dict(done))
            done.clear()
    assert not done
    return steps


@pytest.mark.parametrize(("workers", "factor"), CASES)
def test_what_workers_read_in_long_steps_is_what_they_read_in_the_virtual_run(
    virtual, folder, tmp_path, workers, factor
):
    events = Events(tmp_path / "events")

    def all_that_was_sent_is_read():
        numbers = [what for kind, what in happened if kind == "is sent"]
        events.await_reads(sum(len(BATCHES[number]) for number in numbers))

    run_pytorch(folder, events, workers, factor, all_that_was_sent_is_read)
    assert by_step(events.so_far()) == by_step(virtual[workers, factor, LONG])


@pytest.mark.parametrize("step_s", STEPS_S)
@pytest.mark.parametrize(("workers", "factor"), CASES)
def test_pytorch_can_do_all_in_the_order_of_the_virtual_run(
    virtual, folder, tmp_path, workers, factor, step_s
):
    order = virtual[workers, factor, step_s]
    events = Events(tmp_path / "events", order)
    run_pytorch(folder, events, workers, factor, lambda: None)
    assert events.so_far() == order
    assert len(order) == 2 * N_FILES + 2 * len(BATCHES)
    # Nor does it send a batch before it has the one whose receipt sends it.
    results = [(len(batch), sum(SIZES[i] for i in batch)) for batch in BATCHES]
    ahead = workers * factor
    for number in range(ahead, len(BATCHES) if workers else 0):
        cause = results[number - ahead]
        events = ("arrives", cause), ("is sent", number), ("is received", cause)
        places = list(map(happened.index, events))
        assert places == sorted(places)


@pytest.mark.parametrize("workers", [2, 4])
def test_in_virtual_runs_batches_are_ready_before_others_that_are_received_first(
    virtual, workers
):
    order = virtual[workers, 1, SHORT]
    ready = [order_of_last(order, batch) for batch in BATCHES]
    assert ready != sorted(ready)


def order_of_last(order, batch):
    """Return the place at which the last file of a batch has been read."""
    places = {what: i for i, (_, kind, what) in enumerate(order) if kind == "has read"}
    return places[batch[-1]]
