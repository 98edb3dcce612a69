"""Times of devices in a loop, beside the account that a stand-in for one keeps."""

import random
import statistics
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest
from epoch_hook import devices, loops, streams, unseen
from epoch_hook.loops import Loops, take
from stand_in import Clock, Cuda, Queue, to_ns, used_percent

WORK_S, LAUNCH_S, AHEAD = 0.0904, 0.0294, 0.7  # a step of an H200; the latter in steps
FIRST_S = 4.0


class Training:
    """A program that trains on stand-ins for devices; a request takes no time."""

    def __init__(self, clock, cuda, queues, stream):
        self.clock, self.cuda, self.queues, self.stream = clock, cuda, queues, stream
        self.is_synchronised = False

    def loop(self, n_steps, every_s, first_s=0.0, random_s=0.0, seed=0):
        """Train in a loop whose batches are there at regular or random times."""
        random_ = random.Random(seed)
        ready_s, begun_ns = 0.0, self.clock.now_ns

        def next_batch(batches):
            nonlocal ready_s
            batch = next(batches)
            ready_s += every_s + random_s * random_.random()
            self.clock.wait_until(begun_ns + to_ns(ready_s))
            return batch

        self.stream.begin()
        batches = iter(range(n_steps))
        while True:
            try:
                step = take(self.stream, next_batch, batches)
            except StopIteration:
                return
            self.step(WORK_S + random_s * random_.random() + first_s * (step == 0))

    def step(self, work_s=WORK_S, launch_s=LAUNCH_S):
        """Launch a step on all devices, which have different work."""
        for i, queue in enumerate(reversed(self.queues)):
            is_last = i == len(self.queues) - 1
            queue.launch(work_s / (1 + i), launch_s if is_last else 0.0)
        if self.is_synchronised:
            self.queues[0].synchronise()


@pytest.fixture
def made(notes, monkeypatch):
    """Return a function that makes a training on some devices."""
    clock = Clock()
    monkeypatch.setattr(streams.time, "monotonic_ns", clock.read)
    monkeypatch.setattr(loops, "LOOPS", Loops(lambda *given: 0))
    monkeypatch.setattr(unseen, "_has_open_device", lambda: True)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # of other tests
    monkeypatch.setattr(devices, "_DEVICES", {})
    monkeypatch.setattr(devices, "_n_streams_made", 0)

    def make(n_devices=1, has_torch=True):
        queues = [Queue(clock, AHEAD * WORK_S) for _ in range(n_devices)]
        torch = ModuleType("torch")
        torch.cuda = Cuda(*queues)
        if has_torch:
            monkeypatch.setitem(sys.modules, "torch", torch)
        else:
            monkeypatch.delitem(sys.modules, "torch", raising=False)
        stream = loops.LOOPS._streams.new()
        return Training(clock, torch.cuda, queues, stream)

    return make


def told_of(notes, training):
    """Return the notes of loops when the devices have done all."""
    for queue in training.queues:
        queue.synchronise()
    loops.LOOPS.finish()
    return [one for one in notes() if one["kind"] == "loop"]


BOUNDS = {"storage": 0.15, "computation": 0.02}  # seconds from batch to batch


@pytest.mark.parametrize("is_synchronised", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
def test_device_is_told_as_it_counts_itself(bound, is_synchronised, made, notes):
    training = made()
    training.is_synchronised = is_synchronised
    for seed in range(5):
        training.loop(40, BOUNDS[bound], FIRST_S, random_s=0.02, seed=seed)
    told = told_of(notes, training)
    errors, shares = [], []
    for epoch, note in enumerate(told):
        true = training.queues[0].account(40 * epoch, 40 * (epoch + 1))
        seen = note["device"]
        errors.append(abs(used_percent(seen) - used_percent(true)))
        shares.append(seen["busy_s"] / true["busy_s"])
        assert seen["first_busy_s"] == pytest.approx(true["first_busy_s"], rel=1e-3)
    assert len(errors) == 5
    assert statistics.median(errors) < 2
    assert statistics.median(shares) == pytest.approx(1, rel=0.02)
    words = {note["least_because"] for note in told}
    assert words == {devices.NEVER_BEHIND if is_synchronised else ""}


@pytest.mark.parametrize("is_synchronised", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
def test_without_events_the_loop_bounds_the_device(bound, is_synchronised, made, notes):
    training = made(has_torch=False)
    training.is_synchronised = is_synchronised
    training.loop(40, BOUNDS[bound], FIRST_S, random_s=0.02)
    (note,) = told_of(notes, training)
    true = training.queues[0].account()
    assert (note["device"], note["least_because"]) == (None, devices.NO_EVENTS)
    later_s = note["wait_s"] - note["first_wait_s"]
    loop = {"busy_s": note["use_s"], "first_busy_s": note["first_use_s"]}
    assert used_percent(loop | {"idle_s": later_s}) <= used_percent(true) + 1e-3
    assert note["use_s"] <= true["busy_s"] + 1e-6
    assert later_s >= true["idle_s"] - 1e-6


def test_the_loop_of_an_asynchronous_program_says_far_less(made, notes):
    training = made()
    training.loop(40, BOUNDS["storage"])
    (note,) = told_of(notes, training)
    assert note["use_s"] / 40 == pytest.approx(LAUNCH_S, rel=0.1)
    assert used_percent(note["device"]) == pytest.approx(100 * WORK_S / 0.15, abs=0.5)


def test_how_far_a_device_is_behind_is_told_by_the_program_clock(made, notes):
    training = made()
    training.loop(40, BOUNDS["storage"])
    training.loop(40, BOUNDS["computation"], first_s=1.0)
    stored, computed = told_of(notes, training)
    assert stored["device"]["behind_s"] == pytest.approx(WORK_S - LAUNCH_S, rel=1e-3)
    # As far as the program may run ahead of it: a launch waits for that.
    assert computed["device"]["behind_s"] == pytest.approx(AHEAD * WORK_S, rel=1e-3)


def test_clocks_that_were_joined_long_ago_say_nothing(made, notes):
    training = made()
    for n_steps in (2000, 5):  # the device is never idle again
        training.loop(n_steps, BOUNDS["computation"])
    behind_s = [one["device"]["behind_s"] for one in told_of(notes, training)]
    assert behind_s == [pytest.approx(AHEAD * WORK_S, rel=1e-2), None]


def test_a_device_that_was_never_seen_idle_has_no_common_clock(made, notes):
    training = made()
    training.queues[0].launch(10.0, 0.0, counts=False)  # before the loop
    training.queues[0].free_ns += to_ns(60)
    training.clock.now_ns = 0
    training.queues[0].ahead_s = 1000.0
    training.loop(5, BOUNDS["computation"])
    (note,) = told_of(notes, training)
    assert note["device"]["behind_s"] is None
    assert note["device"]["busy_s"] == pytest.approx(5 * WORK_S, rel=1e-3)
    assert note["least_because"] == ""


@pytest.mark.parametrize(("n_loops", "n_steps"), [(3, 200), (200, 3)])
def test_events_are_used_again_and_read_when_the_device_has_passed_them(
    n_loops, n_steps, made, notes
):
    training = made()
    for _ in range(n_loops):
        training.loop(n_steps, BOUNDS["computation"])
    assert len(training.cuda.events) < 12
    assert len(told_of(notes, training)) == n_loops


def test_a_loop_is_noted_when_its_device_has_done_all(made, notes):
    training = made()
    training.loop(3, BOUNDS["computation"])
    assert notes() == []
    training.loop(3, BOUNDS["computation"])
    assert len(notes()) == 1
    assert len(told_of(notes, training)) == 2


def test_a_device_that_hangs_is_given_up_at_the_end(made, notes, monkeypatch):
    monkeypatch.setattr(loops, "PATIENCE_S", 0.0)
    training = made()
    training.loop(3, BOUNDS["computation"])
    loops.LOOPS.finish()
    (note,) = notes()
    assert (note["device"], note["least_because"]) == (None, devices.NO_EVENTS)
    assert note["batches"] == 3


def test_devices_of_a_process_count_by_their_mean(made, notes):
    training = made(n_devices=2)
    training.queues[1].ahead_s = 10.0  # only the other one lets the program wait
    training.loop(10, BOUNDS["storage"])
    (note,) = told_of(notes, training)
    true = [queue.account() for queue in training.queues]
    busy_s = statistics.mean(one["busy_s"] for one in true)
    assert note["device"]["busy_s"] == pytest.approx(busy_s, rel=1e-3)


def test_device_without_memory_of_the_program_is_left_alone(made, notes):
    training = made(n_devices=2)
    training.cuda.has_memory[1] = False  # the stand-in refuses to be asked for a stream
    training.loop(4, BOUNDS["storage"])
    (note,) = told_of(notes, training)
    assert note["device"]["busy_s"] > 0


def test_a_program_on_the_processor_is_exact_though_it_has_looked_for_devices(
    made, notes
):
    training = made()
    training.cuda.was_initialised = False
    training.loop(4, BOUNDS["storage"])
    assert training.cuda.events == []
    (note,) = told_of(notes, training)
    assert (note["device"], note["least_because"]) == (None, "")


def test_a_device_that_the_first_step_initialises_is_told(made, notes):
    training = made()
    training.cuda.was_initialised = False
    step = training.step

    def initialise(work_s):
        training.cuda.was_initialised = True
        step(work_s)

    training.step = initialise
    training.loop(6, BOUNDS["storage"])
    (note,) = told_of(notes, training)
    true = training.queues[0].account()
    assert note["device"]["first_busy_s"] == pytest.approx(note["first_use_s"])
    assert used_percent(note["device"]) == pytest.approx(used_percent(true), abs=2)
    assert note["least_because"] == ""


def test_a_device_that_comes_later_leaves_a_least(made, notes):
    training = made(n_devices=2)
    training.cuda.has_memory[1] = False
    training.loop(2, BOUNDS["storage"])
    step = training.step

    def use(work_s):
        training.cuda.has_memory[1] |= len(training.queues[0].steps) > 4
        step(work_s)

    training.step = use
    training.loop(4, BOUNDS["storage"])
    words = [one["least_because"] for one in told_of(notes, training)]
    assert words == ["", devices.OTHER_STREAMS]


def test_nothing_is_recorded_while_a_graph_is_captured(made, notes):
    training = made()
    training.cuda.is_capturing = True
    training.loop(4, BOUNDS["storage"])
    assert training.cuda.events == []
    (note,) = told_of(notes, training)
    assert (note["device"], note["least_because"]) == (None, devices.NO_EVENTS)


def test_capture_within_a_step_is_no_matter(made, notes):
    training = made()
    step = training.step

    def capture(work_s):
        training.cuda.is_capturing = True
        step(work_s)
        training.cuda.is_capturing = False

    training.step = capture
    training.loop(4, BOUNDS["storage"])
    assert told_of(notes, training)[0]["device"]["busy_s"] > 0


@pytest.mark.parametrize("how", ["made", "changed", "cupy", "jax"])
def test_work_on_other_streams_leaves_a_least(how, made, notes, monkeypatch):
    training = made()
    devices.wrap_streams(training.cuda)
    step, streams_ = training.step, training.cuda.streams

    def other(work_s):
        if how == "changed":
            streams_[0] = training.cuda._stream_of(training.queues[0])
        elif how == "made":
            training.cuda.Stream()
        step(work_s)

    training.step = other
    if how == "cupy":
        monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    if how == "jax":
        bridge = SimpleNamespace(_backends={"cpu": object()})
        monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    training.loop(4, BOUNDS["storage"])
    (note,) = told_of(notes, training)
    assert note["least_because"] == devices.OTHER_STREAMS
    assert note["device"]["busy_s"] > 0


def test_streams_of_an_id_are_none_that_were_made(made):
    training = made()
    devices.wrap_streams(training.cuda)
    training.cuda.Stream(stream_id=7, device_index=0)
    assert devices._n_streams_made == 0
    training.cuda.Stream(0)
    assert devices._n_streams_made == 1


def test_an_error_of_a_device_ends_its_times_and_nothing_else(made, notes):
    training = made()

    def fail(device):
        raise RuntimeError("CUDA error: device-side assert triggered")

    training.cuda.current_stream = fail
    training.loop(4, BOUNDS["storage"])
    training.loop(4, BOUNDS["storage"])
    loops.LOOPS.finish()
    found = notes()
    assert [one["kind"] for one in found] == ["loop", "error"] * 2
    assert found[0]["batches"] == 4
    assert found[0]["least_because"] == devices.NO_EVENTS
    assert "device-side assert" in found[1]["text"]


def test_a_device_that_waits_for_another_loader_is_idle(made, notes):
    training = made()
    make = loops.LOOPS._streams.new
    outer, inner = training.stream, make()
    both = [outer, inner]
    loops.LOOPS.others = lambda of: [one.times for one in both if one is not of]

    def next_batch(batches):
        training.clock.wait_until(training.clock.now_ns + to_ns(0.15))
        return next(batches)

    outer.begin()
    batches = iter("abc")
    for _ in range(3):
        take(outer, next_batch, batches)
        training.step()
        inner.begin()
        held = iter("ab")
        for _ in range(2):
            take(inner, next_batch, held)
            training.step()
        with pytest.raises(StopIteration):
            take(inner, next_batch, held)
    with pytest.raises(StopIteration):
        take(outer, next_batch, batches)
    whole = told_of(notes, training)[-1]
    true = training.queues[0].account()
    assert whole["stream"] == outer.number
    assert whole["device"]["busy_s"] == pytest.approx(9 * WORK_S, rel=1e-3)
    assert true["busy_s"] == pytest.approx(9 * WORK_S)


def test_idle_in_the_first_step_of_two_loaders_is_no_part_of_utilisation(made, notes):
    training = made()
    outer, clock = training.stream, training.clock

    def next_batch(batches):
        clock.wait_until(clock.now_ns + to_ns(0.15))
        return next(batches)

    outer.begin()
    batches = iter("abcd")
    for _ in range(4):
        take(outer, next_batch, batches)
        outer.times.ask()
        clock.wait_until(clock.now_ns + to_ns(0.4))
        outer.times.give(is_own=False)
        training.step()
    with pytest.raises(StopIteration):
        take(outer, next, batches)
    (note,) = told_of(notes, training)
    true, seen = training.queues[0].account(), note["device"]
    assert seen["first_idle_s"] == pytest.approx(0.4)
    assert seen["idle_s"] == pytest.approx(true["idle_s"] + 0.4, rel=1e-3)
    assert used_percent(seen) == pytest.approx(used_percent(true), rel=1e-3)


def test_a_thread_that_hands_batches_on_leaves_a_least(made, notes):
    training = made()
    thread = threading.Thread(target=training.loop, args=(4, BOUNDS["storage"]))
    thread.start()
    thread.join()
    (note,) = told_of(notes, training)
    assert note["least_because"] == devices.OTHER_STREAMS


def test_a_loop_that_is_left_counts_until_it_asks_for_its_last_batch(made, notes):
    training = made()
    training.stream.begin()

    def next_batch(batches):
        training.clock.wait_until(training.clock.now_ns + to_ns(0.15))
        return next(batches)

    batches = iter("abcd")
    for _ in range(3):
        take(training.stream, next_batch, batches)
        training.step()
    times = training.stream.times  # a validation follows, as with Lightning
    times.ask()
    training.clock.wait_until(training.clock.now_ns + to_ns(0.3))
    times.give(is_own=False)
    training.step()
    loops.LOOPS.leave(training.stream)
    (note,) = told_of(notes, training)
    true = training.queues[0].account(0, 2)
    assert (note["batches"], note["left"], note["end_s"]) == (3, True, 0.0)
    assert note["device"]["busy_s"] == pytest.approx(true["busy_s"], rel=1e-3)
    assert note["device"]["idle_s"] == pytest.approx(true["idle_s"], rel=1e-3)


def test_forked_child_leaves_the_events_of_its_parent_alone(made, notes, monkeypatch):
    kept = []
    monkeypatch.setattr(devices, "_OF_PARENT", kept)
    training = made()
    training.stream.begin()
    batches = iter("abc")
    take(training.stream, next, batches)
    training.step()
    asked = len(training.cuda.events)
    loops.LOOPS.forget()
    training.cuda.was_initialised = False  # as PyTorch says in a child
    streams_ = loops.LOOPS._streams
    assert streams_.begun() == []
    take(training.stream, next, batches)  # the parent's iterator, in the child
    loops.LOOPS.finish()
    assert len(training.cuda.events) == asked
    assert kept
