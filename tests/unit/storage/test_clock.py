"""The clock of this machine."""

import time

from tierscope.storage.clock import RealClock


def test_barrier_waits_for_all_processes_and_tells_the_time():
    waits = []
    clock = RealClock(lambda: waits.append(time.perf_counter()))
    before = time.perf_counter()
    instant = clock.barrier()
    (waited_until,) = waits
    assert before <= waited_until <= instant <= time.perf_counter()
    assert not clock.is_virtual


def test_computing_sleeps_if_it_takes_any_time(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = RealClock(lambda: None)
    clock.compute(0)
    clock.compute(250_000_000)
    assert slept == [0.25]
