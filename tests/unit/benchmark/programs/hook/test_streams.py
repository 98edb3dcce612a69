from epoch_hook.streams import Loader, Place, Streams, place_of_caller

HERE, THERE = Place(("main.py", 7)), Place(("main.py", 9))


class Data:
    """What a loader reads."""


class Batches:
    """A loader, or an iterator over one."""

    def __init__(self, data=None):
        self.data = data


def new_streams():
    """Return no streams yet; nobody is told of iterations that are left."""
    return Streams(lambda stream: None)


def begin(streams, loader, place=HERE, kind="shuffled", size=None):
    """Begin an iteration that is asked for a batch; return the stream's number."""
    made = Loader(loader, kind=(kind,), size=size, source=lambda one: one.data)
    stream = streams.find(made, place)
    stream.begin()
    stream.ask()
    return stream.number


def test_loader_continues_its_stream_wherever_it_begins():
    streams, train, held = new_streams(), Batches(Data()), Batches(Data())
    assert [begin(streams, train, HERE), begin(streams, held, HERE)] == [0, 1]
    assert [begin(streams, train, THERE), begin(streams, held, THERE)] == [0, 1]


def test_loaders_that_are_made_every_epoch_continue_their_streams():
    streams = new_streams()
    for _ in range(3):
        train = Batches(Data())
        held = Batches(Data())
        assert [begin(streams, train, HERE), begin(streams, held, THERE)] == [0, 1]
        del train, held


def test_new_loaders_of_one_line_are_told_apart_by_kind_and_size():
    streams = new_streams()
    for _ in range(3):
        both = [Batches(Data()), Batches(Data())]  # both live when the second begins
        kinds = zip(both, ["shuffled", "in order"], [48, 16], strict=True)
        assert [begin(streams, *one[:1], HERE, *one[1:]) for one in kinds] == [0, 1]
        del both
    for _ in range(3):
        both = [Batches(Data()), Batches(Data())]
        sizes = zip(both, [30, 10], strict=True)
        assert [begin(streams, one, THERE, size=n) for one, n in sizes] == [2, 3]
        del both, sizes


def test_new_loader_over_the_same_data_continues_unless_the_last_is_under_way():
    streams, data = new_streams(), Data()
    first, second, third = Batches(data), Batches(data), Batches(data)
    assert [begin(streams, first), begin(streams, second)] == [0, 0]
    iterator = Batches()
    streams.find(
        Loader(second, kind=("shuffled",), size=None, source=lambda one: one.data), HERE
    ).follow(iterator)
    assert begin(streams, third) == 1  # as in zip(second, third)
    del iterator
    assert begin(streams, Batches(data)) == 0


def test_first_epoch_may_begin_at_another_line_if_the_size_is_the_same():
    streams = new_streams()
    assert begin(streams, Batches(Data()), HERE, size=48) == 0
    assert begin(streams, Batches(Data()), THERE, size=48) == 0
    assert begin(streams, Batches(Data()), HERE, size=16) == 1


def test_iteration_that_nobody_asks_for_a_batch_does_not_count():
    stream = new_streams().new()
    assert [stream.begin(), stream.begin()] == [0, 0]
    stream.ask()
    assert stream.begin() == 1
    stream.expect()
    assert stream.begin() == 2


def begin_again(stream, *under_way, batches=3):
    """Return the number of an iteration of some batches that begins."""
    number = stream.begin(under_way)
    for _ in range(batches):
        stream.ask()
    return number


def test_validation_in_the_middle_of_an_epoch_does_not_count():
    train, held = new_streams().new(), new_streams().new()
    for epoch in range(3):
        assert begin_again(train) == epoch
        for _ in range(4):  # only the last one, which nothing follows, may be an epoch
            assert begin_again(held, train) == epoch
            train.ask()
            train.ask()
        assert begin_again(held, train) == epoch


def test_iterator_that_is_left_or_gives_samples_now_and_then_stops_no_counting():
    samples, train = new_streams().new(), new_streams().new()
    begin_again(samples, batches=1)
    for epoch in range(3):
        assert begin_again(train, samples) == epoch
        samples.ask()


def test_iteration_that_was_left_does_not_go_on_in_the_next_one():
    held, train = new_streams().new(), new_streams().new()
    begin_again(held)  # a check before the first epoch, with workers that stay
    for epoch in range(3):
        assert begin_again(train, held) == epoch
        begin_again(held)


def test_loaders_that_are_read_in_turn_both_count():
    one, other = new_streams().new(), new_streams().new()
    begin_again(one)
    for number in range(3):
        assert other.begin([one]) == number
        for _ in range(4):
            one.ask()
            other.ask()


def call_from(module, name):
    """Return a function of a module that gives the place that it sees."""
    space = {"__name__": module, "place": place_of_caller}
    code = f"def {name}():\n    return place(('torch.utils.',))"
    exec(compile(code, "<of a test>", "exec"), space)
    return space[name]


def has_text(lines):
    """Return whether a line is not of a file."""
    return any(file == "<of a test>" for file, _ in lines)


def test_place_has_no_frames_of_the_library_and_tells_if_keras_began_it():
    inside = call_from("torch.utils.data.dataloader", "__iter__")
    assert not has_text(inside().lines)
    assert has_text(call_from("train", "epoch")().lines)
    assert not inside().is_in_keras
    assert call_from("keras.src.backend.trainer", "fit")().is_in_keras
    assert call_from("tf_keras.src.training", "evaluate")().is_in_keras
    assert not call_from("kerastuner.main", "fit")().is_in_keras
