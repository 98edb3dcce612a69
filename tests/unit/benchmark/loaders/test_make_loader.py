"""Which loader is made for the epochs of a clock."""

from tierscope.benchmark.loaders import make_loader
from tierscope.benchmark.loaders.posix import PosixLoader
from tierscope.benchmark.loaders.workers import WorkerLoader
from tierscope.storage.clock import RealClock, VirtualClock

SETTINGS = {"read_threads": 1, "prefetch_batches": 1, "buffer_bytes": 128}


class Late(RealClock):
    """A clock of real time that is none of ours."""


class Emulated(VirtualClock):
    """A clock of virtual time that needs no library."""

    def __init__(self):
        pass


def test_clock_says_itself_whether_its_time_is_real():
    real = make_loader("posix", batch_size=4, clock=Late(lambda: None), **SETTINGS)
    assert type(real) is PosixLoader
    virtual = make_loader("pytorch", batch_size=4, clock=Emulated(), **SETTINGS)
    assert type(virtual) is WorkerLoader
