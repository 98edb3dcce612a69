import json
import os

import pytest
from epoch_hook import loops
from epoch_hook.loops import Fetches, note_wrapped, rank, safely, take
from epoch_hook.streams import Loader, Place, Stream


class Batches:
    """A loader."""


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Return a function that gives the notes of this process so far."""
    monkeypatch.setenv("TIERSCOPE_HOOK_NOTES", str(tmp_path))
    path = tmp_path / f"{os.getpid()}.jsonl"
    return lambda: list(map(json.loads, path.read_text().splitlines()))


@pytest.fixture
def begin(made_loops):
    """Return a function that begins an iteration and returns its epoch."""

    def begin(loader, evaluation=False, keras=False, **facts):
        of = Loader(loader, kind=(), size=None, source=lambda one: None)
        place = Place((id(loader),), keras)
        epoch, stream = made_loops.begin("pytorch", of, place, facts, evaluation)
        stream.ask()
        return epoch

    begin.loops = made_loops
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
    begin.loops.end()
    begin.loops.end()
    assert begin(held, evaluation=True) == 0
    begin.loops.end()
    assert begin(train) == 1
    assert begin(held) == 1  # a second loop in this epoch
    begin.loops.end()
    assert marks == [0, "end", 0, "end", 1, "end"]


def test_loop_that_ends_in_another_one_ends_nothing(begin, marks):
    train, held, iterator = Batches(), Batches(), Batches()
    of = Loader(train, kind=(), size=None, source=lambda one: None)
    begin.loops.begin("pytorch", of, Place(("line",)), {})[1].follow(iterator)
    begin(held, evaluation=True)
    begin.loops.end()
    assert marks == [0]
    del iterator
    begin.loops.end()
    assert marks == [0, "end"]


def test_evaluation_of_a_process_that_trains_nothing_ends_in_this_one(begin, marks):
    held = Batches()
    begin(held, evaluation=True)
    begin.loops.end()
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
    monkeypatch.setattr(loops.time, "perf_counter_ns", lambda: now[0] * 10**9)
    return now


def test_a_whole_loop_says_how_long_it_waited_and_used_batches(notes, clock):
    def next_batch(iterator):
        clock[0] += 3  # to make a batch, or to find that there is none
        return next(iterator)

    stream, batches = Stream(4), iter("abc")
    stream.epoch, stream.is_evaluation = 7, True
    for _ in range(3):
        take(stream, next_batch, batches)
        clock[0] += 10  # to train
    with pytest.raises(StopIteration):
        take(stream, next_batch, batches)
    (note,) = notes()
    times = {"batches": 3, "wait_s": 12, "use_s": 30}
    times |= {"first_wait_s": 3, "first_use_s": 10}
    whose = {"pid": os.getpid(), "rank": rank(), "evaluation": True}
    assert note == {"kind": "loop", "stream": 4, "epoch": 7, **whose, **times}


def test_a_loop_that_is_left_says_nothing(notes, tmp_path):
    stream = Stream(0)
    assert take(stream, next, iter("ab")) == "a"
    assert not list(tmp_path.iterdir())
    with pytest.raises(StopIteration):
        take(Stream(1), next, iter(""))
    assert not list(tmp_path.iterdir())  # nor does one without batches


def test_fetches_are_noted_by_epoch_when_a_process_ends(notes):
    fetches = Fetches()
    for epoch, n_samples, time_ns in ((0, 8, 10**9), (1, 8, 10**9), (0, 4, 10**9)):
        fetches.add(epoch, n_samples, time_ns)
    fetches.note()
    assert [(one["epoch"], one["samples"], one["fetch_s"]) for one in notes()] == [
        (0, 12, 2.0),
        (1, 8, 1.0),
    ]
    fetches.forget()
    fetches.note()
    assert len(notes()) == 2
