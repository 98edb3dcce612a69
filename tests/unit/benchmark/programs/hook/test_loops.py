import json
import os
import threading

import pytest
from epoch_hook import loops
from epoch_hook.loops import Fetches, note_wrapped, rank, safely, take
from epoch_hook.streams import Loader, Place, Stream, Times


class Batches:
    """A loader."""


@pytest.fixture
def begin(made_loops):
    """Return a function that begins an iteration and returns its epoch."""

    def begin(loader, evaluation=False, keras=False, **facts):
        of = Loader(loader, kind=(), size=None, source=lambda one: None)
        place = Place((id(loader),), keras)
        epoch, stream = made_loops.begin("pytorch", of, place, facts, evaluation)
        stream.ask()
        begin.stream = stream
        return epoch

    begin.loops = made_loops
    begin.end = lambda: made_loops.end(begin.stream)
    return begin


def test_the_kth_iteration_of_a_stream_begins_epoch_k(begin, marks):
    train, held = Batches(), Batches()
    epochs = [(begin(train), begin(held)) for _ in range(3)]
    assert epochs == [(0, 0), (1, 1), (2, 2)]
    assert marks == [0, 1, 2]


def test_no_mark_goes_back(begin, marks):
    train, late = Batches(), Batches()
    assert [begin(train), begin(train), begin(late), begin(late)] == [0, 1, 1, 1]
    assert begin(late) == 2
    assert marks == [0, 1, 2]


def test_evaluation_is_of_the_epoch_under_way_and_begins_none(begin, marks, notes):
    train, held = Batches(), Batches()
    assert begin(held, evaluation=True) == 0  # before the first epoch, as Lightning
    assert begin(train) == 0
    assert [begin(held, evaluation=True) for _ in range(3)] == [0, 0, 0]
    assert begin(train) == 1
    assert marks == [0, 1]
    found = [one for one in notes() if one["kind"] == "begin"]
    assert [one["evaluation"] for one in found] == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    assert [one["marked"] for one in found] == [False, True, False, False, False, True]
    assert [one["stream"] for one in found] == [0, 1, 0, 0, 0, 1]
    assert found[0]["time_ns"] <= found[-1]["time_ns"]
    assert {(one["pid"], one["rank"]) for one in found} == {(os.getpid(), rank())}


def test_epochs_go_on_where_those_of_the_programs_before_ended(begin, marks, known):
    known |= {"tierscope_first_epoch": 3, "tierscope_epoch_under_way": 2}
    train, held = Batches(), Batches()
    assert begin(held, evaluation=True) == begin(held, keras=True) == 2
    assert [begin(train), begin(held, evaluation=True), begin(train)] == [3, 3, 4]
    assert begin(held, keras=True) == 4
    begin.loops.forget()
    known |= {"tierscope_first_epoch": 4}  # in a child
    assert begin.loops.begin_next("keras", {}) == 4
    assert marks == [3, 4, 4]


def test_evaluation_of_the_training_data_does_not_count(begin, marks):
    train = Batches()
    for epoch in range(3):
        assert begin(train) == epoch
        assert begin(train, evaluation=True) == epoch
    assert marks == [0, 1, 2]


def test_inside_keras_only_keras_says_what_begins(begin, marks, notes):
    data, held = Batches(), Batches()
    for epoch in range(2):
        assert begin.loops.begin_next("keras", {}) == epoch
        assert begin(data, keras=True) == epoch
        assert begin.loops.evaluate("keras") == epoch
        assert begin(held, keras=True) == epoch
    assert marks == [0, 1]
    assert begin.loops.begin_next("keras", {}) == 2  # of a second `fit`
    found = [one for one in notes() if one["kind"] == "begin"]
    assert [one["evaluation"] for one in found] == [False, True, False, True, False]


def test_what_follows_all_loops_is_of_none_until_the_next_one_begins(begin, marks):
    train, held = Batches(), Batches()
    assert begin(train) == 0
    begin.end()
    begin.end()
    assert begin(held, evaluation=True) == 0
    begin.end()
    assert begin(train) == 1
    assert begin(held) == 1  # a second loop in this epoch
    begin.end()
    assert marks == [0, "end", 0, "end", 1, "end"]


def test_loop_that_ends_in_another_one_ends_nothing(begin, marks):
    train, held, iterator = Batches(), Batches(), Batches()
    of = Loader(train, kind=(), size=None, source=lambda one: None)
    begin.loops.begin("pytorch", of, Place(("line",)), {})[1].follow(iterator)
    begin(held, evaluation=True)
    begin.end()
    assert marks == [0]
    del iterator  # as by a break
    assert marks == [0, "end"]


def test_loops_that_nobody_saw_end_end_with_the_process(begin, marks):
    train = Batches()
    begin.loops.begin_next("keras", {})
    begin(train)
    assert begin(train) == 1  # the first one was left
    begin.loops.finish()
    assert marks == [0, 1, "end"]


def test_evaluation_of_a_process_that_trains_nothing_ends_in_this_one(begin, marks):
    held = Batches()
    begin(held, evaluation=True)
    begin.end()
    begin(held, evaluation=True)
    assert marks == ["end", -1]


def test_loader_is_noted_once_with_what_it_is_set_to(begin, notes, monkeypatch):
    for name in loops.RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PMI_RANK", "3")
    train = Batches()
    begin(train, workers=2)
    begin(train, workers=2)
    begin(train, workers=4)
    found = [one for one in notes() if one["kind"] == "loader"]
    assert [one["workers"] for one in found] == [2, 4]
    assert found[0] == {
        "kind": "loader",
        "framework": "pytorch",
        "stream": 0,
        "workers": 2,
        "pid": os.getpid(),
        "rank": 3,
    }


@pytest.mark.parametrize("folder", ["", "/no/such/folder"])
def test_epochs_are_marked_where_nothing_can_be_noted(
    folder, begin, marks, monkeypatch
):
    monkeypatch.setenv("TIERSCOPE_HOOK_NOTES", folder)
    assert begin(Batches()) == 0
    assert marks == [0]


def test_forked_child_begins_anew(begin, marks):
    train = Batches()
    begin(train)
    begin(train)
    begin.loops.forget()
    assert begin(train) == 0
    assert marks == [0, 1, 0]


def test_error_of_ours_is_a_note_and_nothing_else(notes):
    @safely
    def fails():
        raise KeyError("none")

    assert fails() is None
    assert notes() == [{"kind": "error", "of": "fails", "text": "KeyError('none')"}]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"RANK": "5", "PMI_RANK": "1"}, 5),
        ({"RANK": "x", "PMI_RANK": "1"}, 1),
        ({"SLURM_PROCID": "2"}, None),
        ({"SLURM_PROCID": "2", "SLURM_STEP_ID": "0"}, 2),
    ],
)
def test_rank_is_that_of_the_tracer(variables, expected, monkeypatch):
    for name in (*loops.RANKS, "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert rank() == expected


def test_version_is_that_of_the_first_module_that_is_loaded(notes):
    note_wrapped("json", [], "no.such.module.VERSION", "json.__version__")
    note_wrapped("none", ["a.b"], "no.such.module.VERSION")
    assert notes()[0]["version"] == json.__version__
    assert notes()[1] == {
        "kind": "hook",
        "framework": "none",
        "version": None,
        "missing": ["a.b"],
    }


def test_without_the_library_a_mark_does_nothing():
    assert loops.library_function("tierscope_no_such_function")(3) == 0


@pytest.fixture
def clock(monkeypatch):
    """Return a list of one time in seconds, which the hook reads."""
    now = [0]
    monkeypatch.setattr(loops.time, "monotonic_ns", lambda: now[0] * 10**9)
    return now


def test_a_whole_loop_says_how_long_it_waited_and_used_batches(notes, clock):
    def next_batch(iterator):
        clock[0] += 3  # to make a batch, or to find that there is none
        return next(iterator)

    stream, batches = Stream(4, loops.LOOPS.leave), iter("abc")
    stream.begin()
    stream.epoch, stream.is_evaluation = 7, True
    for _ in range(3):
        take(stream, next_batch, batches)
        clock[0] += 10  # to train
    for _ in range(2):  # the second time nothing is left to be said
        with pytest.raises(StopIteration):
            take(stream, next_batch, batches)
    (note,) = notes()
    times = {"batches": 3, "wait_s": 9, "use_s": 30, "end_s": 3, "left": False}
    times |= {"first_wait_s": 3, "first_use_s": 10}
    times |= {"first_idle_s": 0, "device": None, "least_because": ""}
    whose = {"pid": os.getpid(), "rank": rank(), "evaluation": True}
    assert note == {"kind": "loop", "stream": 4, "epoch": 7, **whose, **times}


def test_a_loop_that_is_left_has_as_many_waits_as_uses(clock):
    times = Times()
    for _ in range(4):
        times.ask()
        clock[0] += 30
        times.give()
        clock[0] += 10
    told = times.end(is_left=True)
    later_s = told["wait_s"] - told["first_wait_s"], told["use_s"] - told["first_use_s"]
    assert later_s == (60, 20)  # of the second and the third; the fourth is cut off


def test_first_batch_of_another_loader_is_waited_for_in_the_first_step(clock):
    times = Times()
    for waited_s in (40, 30, 20):
        times.ask()
        clock[0] += 1
        times.give()
        times.ask()  # as in a zip of two loaders
        clock[0] += waited_s
        times.give(is_own=False)
        clock[0] += 10
    times.ask()
    told = times.end()
    assert (told["first_wait_s"], told["first_idle_s"], told["wait_s"]) == (1, 40, 93)
    assert (told["first_use_s"], told["use_s"]) == (10, 30)


class Iterator:
    """An iterator that may be followed."""


@pytest.fixture
def leave(made_loops, clock, monkeypatch):
    """Return the loops of a process, and a function that takes two batches of one."""
    monkeypatch.setattr(loops, "LOOPS", made_loops)

    def leave(loader):
        of = Loader(loader, kind=(), size=None, source=lambda one: None)
        _, stream = made_loops.begin("pytorch", of, Place((1,)), {})
        iterator = Iterator()
        stream.follow(iterator)
        batches = iter("abc")
        for _ in range(2):
            take(stream, lambda _: next(batches), iterator)
            clock[0] += 10
        return iterator

    leave.loops = made_loops
    return leave


@pytest.mark.parametrize("how", ["gone", "anew", "exit"])
def test_a_loop_that_is_left_counts_until_it_asks_for_its_last_batch(
    how, leave, clock, notes
):
    loader = Batches()
    iterator = leave(loader)
    assert not [one for one in notes() if one["kind"] == "loop"]
    if how == "gone":
        del iterator
    elif how == "anew":  # as with persistent workers
        iterator = leave(loader), iterator
    else:
        leave.loops.finish()
    (note,) = [one for one in notes() if one["kind"] == "loop"]
    assert (note["batches"], note["use_s"], note["end_s"]) == (2, 10, 0)
    assert note["left"]
    assert note["epoch"] == 0
    # Its end is known if its iterator is gone; else the last batch is all that is.
    leave.loops.finish()
    n_loops = 2 if how == "anew" else 1
    assert len([one for one in notes() if one["kind"] == "loop"]) == n_loops


def test_a_program_that_waits_for_another_loader_uses_nothing(leave, clock, notes):
    def next_batch(batches):
        clock[0] += 5
        return next(batches)

    first = leave(Batches())  # whose second batch is in use, since 10 s
    second = Batches()
    of = Loader(second, kind=(), size=None, source=lambda one: None)
    _, stream = leave.loops.begin("pytorch", of, Place((2,)), {})
    batches = iter("ab")
    for _ in range(2):
        take(stream, next_batch, batches)
        clock[0] += 7
    with pytest.raises(StopIteration):
        take(stream, next_batch, batches)
    (outer,) = leave.loops.others(stream)
    outer.ask()
    told = outer.end()
    # 10 s of each batch of its own, and 14 s of those of the other loader.
    assert (told["wait_s"], told["use_s"], told["batches"]) == (15, 34, 2)
    del first  # a loop that was left counts until it asked for its last batch
    inner, outer = [one for one in notes() if one["kind"] == "loop"]
    assert (inner["wait_s"], inner["use_s"], inner["end_s"]) == (10, 14, 5)
    assert (outer["wait_s"], outer["use_s"], outer["batches"]) == (0, 10, 2)


@pytest.mark.parametrize(("first_s", "told_s"), [(0, 40), (2, 2), (40, 40)])
def test_first_step_of_a_loader_that_looks_ahead_is_in_its_second_use(
    first_s, told_s, clock
):
    times = Times()
    for used_s in (first_s, 40 - first_s % 40, 10, 10):
        times.ask()
        clock[0] += 3
        times.give()
        clock[0] += used_s
    times.ask()
    told = times.end()
    assert told["first_use_s"] == told_s
    assert told["use_s"] == first_s + 40 - first_s % 40 + 20


def test_a_loop_of_another_thread_lets_nobody_wait(leave):
    first, stream = leave(Batches()), Stream(5, loops.LOOPS.leave)
    seen = []
    look = threading.Thread(target=lambda: seen.append(leave.loops.others(stream)))
    look.start()
    look.join()
    assert seen == [[]]
    assert first
    assert len(leave.loops.others(stream)) == 1


def test_a_loop_without_batches_says_nothing(tmp_path, notes):
    stream = Stream(1, loops.LOOPS.leave)
    stream.begin()
    with pytest.raises(StopIteration):
        take(stream, next, iter(""))
    assert not list(tmp_path.iterdir())


def test_whoever_sees_the_end_of_a_loop_tells_it_at_one_place(made_loops, monkeypatch):
    ended = []
    monkeypatch.setattr(made_loops, "end", lambda stream, **how: ended.append(stream))
    made_loops.begin_next("keras", {})
    made_loops.evaluate("keras")
    made_loops.end_told("keras", is_evaluation=True)
    made_loops.end_told("keras")
    assert [one.number for one in ended] == [1, 0]


def test_fetches_are_noted_by_epoch_when_a_process_ends(notes):
    fetches = Fetches()
    for epoch, n_samples, time_ns in ((0, 8, 10**9), (1, 8, 10**9), (0, 4, 10**9)):
        fetches.add(epoch, n_samples, time_ns)
    fetches.note()
    assert [(one["epoch"], one["samples"], one["fetch_s"]) for one in notes()] == [
        (0, 12, 2.0),
        (1, 8, 1.0),
    ]
    firsts = [(one["first_samples"], one["first_fetch_s"]) for one in notes()]
    assert firsts == [(8, 1.0), (0, 0.0)]  # the process's first one
    fetches.forget()
    fetches.note()
    assert len(notes()) == 2
