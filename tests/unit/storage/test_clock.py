"""The clock of this machine, and what it shares with that of virtual time."""

import time
from inspect import isfunction, signature

from tierscope.storage.clock import RealClock, VirtualClock


def test_barrier_waits_for_all_processes_and_tells_the_time():
    waits = []
    clock = RealClock(lambda: waits.append(time.perf_counter()))
    before = time.perf_counter()
    instant = clock.barrier()
    (waited_until,) = waits
    assert before <= waited_until <= instant <= time.perf_counter()


def test_computing_sleeps_if_it_takes_any_time(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = RealClock(lambda: None)
    clock.compute(0)
    clock.compute(250_000_000)
    assert slept == [0.25]


def test_both_clocks_have_all_that_a_clock_of_epochs_must_have():
    shared = [name for name in vars(RealClock) if not name.startswith("_")]
    assert {"barrier", "next_batch", "compute", "take_turn", "told"} <= set(shared)
    for name in shared:
        real, virtual = getattr(RealClock, name), getattr(VirtualClock, name)
        if isfunction(vars(RealClock)[name]):
            assert signature(real).parameters == signature(virtual).parameters, name
