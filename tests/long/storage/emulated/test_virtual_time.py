"""Real processes in virtual time: instants computed by hand, whatever the machine does.

Each child is a process of a launch. It makes real calls through the preloaded devices
and prints when they began and ended, in milliseconds of virtual time.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.storage.clock import create_virtual_state, is_in_epoch
from tierscope.storage.emulated.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    write_device_config,
)

SCRIPTS = Path(__file__).parents[4] / "workflow" / "scripts"
PRELUDE = """
import ctypes, json, os, sys, threading, time
from itertools import repeat
from tierscope.benchmark.epoch import run_epoch
from tierscope.benchmark.loaders.posix import PosixLoader
from tierscope.core.description import LoaderSettings
from tierscope.storage.clock import Role, Turn, VirtualClock, to_ns

rank, folder = int(sys.argv[1]), sys.argv[2]
class Processes:
    rank, dead_ranks = int(sys.argv[1]), staticmethod(list)
    raise_if_failed = note_failure_printed = staticmethod(lambda: None)

clock = VirtualClock(Processes)
library, calls = ctypes.CDLL(None), []

def note(result):
    times = ctypes.c_int64(), ctypes.c_int64()
    library.tierscope_clock_call(*map(ctypes.byref, times))
    calls.append([time.value / 1e6 for time in times])
    return result

def read(tier, number, size):
    path = f"{folder}/{tier}.ep0/f{number}.bin"
    descriptor = note(os.open(path, os.O_RDONLY))
    note(os.pread(descriptor, size, 0))
    os.close(descriptor)
    note(None)

def reads(tier, *numbers, sample_s=0.0):
    # One batch, which is not full, so that the reader is never blocked.
    clock.plan(len(numbers), 1000, len(numbers) + 1, 0, sample_s)
    clock.barrier()
    library.tierscope_clock_ask()
    for number in numbers:
        read(tier, number, 1000)
    library.tierscope_clock_take()
    clock.barrier()

def epoch(numbers, batch, prefetch, compute_s=0.0, sample_s=0.0, tier="gfs"):
    clock.plan(len(numbers), 1000, batch, prefetch, sample_s)
    paths = [f"{folder}/{tier}.ep0/f{number}.bin" for number in numbers]
    batches = PosixLoader(batch, LoaderSettings(1, prefetch, 1000)).epoch(paths)
    return run_epoch(batches, clock, repeat(to_ns(compute_s)))[:3]
"""


class Launch:
    """Processes that share emulated devices."""

    def __init__(self, folder, library, devices, n_processes):
        self.folder, self.n_processes = folder, n_processes
        self.library, self.devices = library, devices
        made = folder / str(len(list(folder.iterdir())))
        made.mkdir()
        config, state = made / "devices.tsv", made / "state"
        write_device_config(devices, config)
        create_virtual_state(library, config, state, n_processes)
        self.environment = dict(
            os.environ,
            LD_PRELOAD=str(library),
            PYTHONPATH=str(SCRIPTS),
            **{DEVICES_VARIABLE: str(config), STATE_VARIABLE: str(state)},
        )
        self.children = []

    def start(self, rank, code):
        """Start a process of the launch."""
        arguments = [str(rank), str(self.folder)]
        child = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.append(child)
        return child

    def run(self, code):
        """Run all processes with the same code; return what each one prints last."""
        children = [self.start(rank, code) for rank in range(self.n_processes)]
        return [self.finish(child) for child in children]

    @staticmethod
    def finish(child, expect=0):
        output, errors = child.communicate(timeout=60)
        assert child.returncode == expect, errors
        return json.loads(output.splitlines()[-1]) if expect == 0 else errors


@pytest.fixture
def launch(tmp_path, device_library):
    """Return a function that makes a launch; ``/gfs`` and ``/lfs`` have ten files."""
    launches = []

    def make(n_processes, *devices):
        for tier in ("gfs", "lfs"):
            (tmp_path / tier).mkdir()
            (tmp_path / f"{tier}.ep0").symlink_to(tier)
            for number in range(10):
                (tmp_path / tier / f"f{number}.bin").write_bytes(bytes(1000))
        devices = [
            replace(one, prefixes=tuple(f"{tmp_path}{p}" for p in one.prefixes))
            for one in devices
        ]
        launches.append(Launch(tmp_path, device_library, devices, n_processes))
        return launches[-1]

    yield make
    for one in launches:
        for child in one.children:
            if child.poll() is None:
                child.kill()
                child.wait()


GFS = Device(
    ("/gfs",), open_s=0.002, close_s=0.001, metadata_latency_s=0.01, request_s=0.003
)


def test_two_processes_share_one_metadata_queue(launch):
    first, second = launch(2, GFS).run("reads('gfs', rank); print(json.dumps(calls))")
    # Rank 0 is served first, and each call has 10 ms of latency.
    assert first == [[0, 12], [12, 15], [15, 26]]
    # The object server is free at 15, the metadata server has closed rank 0's file.
    assert second == [[0, 14], [14, 18], [18, 29]]


def test_ties_are_broken_by_kind_then_rank(launch):
    device = Device(("/gfs",), open_s=0.001, close_s=0.004)
    code = """
        if rank == 1:
            clock.plan(1, 1000, 2, 0, 0.0)
        else:
            clock.plan(2, 1000, 3, 0, 0.0)
        clock.barrier(); library.tierscope_clock_ask()
        read("gfs", rank, 1000)
        if rank == 0:
            read("gfs", 2, 1000)
        library.tierscope_clock_take(); clock.barrier()
        print(json.dumps(calls))
    """
    first, second = launch(2, device).run(code)
    # Rank 0 opens first. At 1 ms it closes, which waits for rank 1's open.
    assert first == [[0, 1], [1, 1], [1, 6], [6, 11], [11, 11], [11, 15]]
    assert second == [[0, 2], [2, 2], [2, 10]]


def test_at_one_instant_a_close_goes_before_an_open(launch):
    device = Device(("/gfs",), open_s=0.002, close_s=0.001)
    code = """
        if rank == 0:
            clock.plan(0, 1000, 1, 0, 0.0)
            clock.barrier()
            clock.compute(to_ns(0.002))
            library.tierscope_clock_act(rank, Role.CONSUMER)
            descriptor = note(os.open(f"{folder}/gfs/f5.bin", os.O_RDONLY))
            library.tierscope_clock_act(-1, 0)
            clock.barrier()
            print(json.dumps(calls))
        else:
            reads("gfs", 1)
            print(json.dumps(calls))
    """
    first, second = launch(2, device).run(code)
    assert second == [[0, 2], [2, 2], [2, 3]]
    assert first == [[2, 5]]


def test_read_is_cut_into_requests_that_pass_server_and_link(launch):
    device = Device(
        ("/gfs",),
        request_bytes=400,
        request_s=0.001,
        bandwidth_bytes_per_s=1e5,
        link_bytes_per_s=2e5,
        read_latency_s=0.01,
    )
    (calls,) = launch(1, device).run("reads('gfs', 0); print(json.dumps(calls))")
    # 400 bytes: 1 + 4 at the server, 2 on the link, 10 of latency; 200: 3 + 1 + 10.
    assert calls == [[0, 0], [0, 17 + 17 + 14], [48, 48]]


def test_link_is_shared_by_two_object_servers(launch):
    device = Device(
        ("/gfs",), n_object_servers=2, request_s=0.004, link_bytes_per_s=1e5
    )
    found = launch(2, device).run("reads('gfs', rank); print(json.dumps(calls[1]))")
    # Both servers take 4 ms at the same time, then each 1000 bytes need 10 ms.
    assert found == [[0, 14], [0, 24]]


def test_four_processes_share_a_local_file_system(launch):
    device = Device(("/lfs",), metadata_latency_s=0.005, request_s=0.002)
    found = launch(4, device).run("reads('lfs', 0); print(json.dumps(calls))")
    # Opens ask nobody, closes are answered at once.
    assert [calls[0] for calls in found] == [[0, 5]] * 4
    assert [calls[1] for calls in found] == [[5, 7], [5, 9], [5, 11], [5, 13]]
    assert [calls[2] for calls in found] == [[t, t] for t in (7, 9, 11, 13)]


def test_reader_is_blocked_while_the_buffer_is_full_and_woken_when_a_batch_is_taken(
    launch,
):
    # Reads of 3 ms, steps of 10 ms, one batch of one file held ready.
    device = Device(("/gfs",), request_s=0.003, close_s=0.001)
    code = "print(json.dumps(epoch(range(3), 1, 1, compute_s=0.01)))"
    ((time_s, samples, n_bytes),) = launch(1, device).run(code)
    # Read 0-3, taken at 3; closed 3-4, read 4-7, ready 7, taken 13; closed 13-14, read
    # 14-17, taken 23; step until 33; closed 23-24.
    assert (samples, n_bytes) == (3, 3000)
    assert time_s == pytest.approx(0.033, abs=1e-12)


def test_without_prefetch_reading_and_computing_alternate(launch):
    device = Device(("/gfs",), request_s=0.003, close_s=0.001)
    code = "print(json.dumps(epoch(range(4), 2, 0, compute_s=0.01)))"
    ((time_s, *_),) = launch(1, device).run(code)
    # 3 + 1 + 3, step, 1 + 3 + 1 + 3, step, 1 for the last close.
    assert time_s == pytest.approx((7 + 10 + 8 + 10 + 1) / 1e3, abs=1e-12)


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_last_batch_that_is_not_full_is_ready_after_its_last_close(launch, prefetch):
    device = Device(("/gfs",), request_s=0.003, close_s=0.001)
    code = f"print(json.dumps(epoch(range(5), 3, {prefetch}, compute_s=0.01)))"
    ((time_s, *_),) = launch(1, device).run(code)
    first_ms = 3 + 4 + 4
    second_ms = {0: first_ms + 10 + 1 + 4 + 4}.get(prefetch, first_ms + 10)
    assert time_s == pytest.approx((second_ms + 10) / 1e3, abs=1e-12)


def test_processor_time_is_no_part_of_a_call_and_delays_the_next_one(launch):
    device = Device(("/gfs",), request_s=0.003, close_s=0.001)
    code = "reads('gfs', 0, 1, sample_s=0.1); print(json.dumps(calls))"
    (found,) = launch(1, device).run(code)
    assert found == [[0, 0], [0, 3], [103, 104], [104, 104], [104, 107], [207, 208]]


def test_calls_outside_of_epochs_and_aliases_take_no_time(launch):
    code = """
        for tier in ("gfs", "gfs.ep0"):
            os.close(os.open(f"{folder}/{tier}/f0.bin", os.O_RDONLY))
        print(json.dumps(clock.barrier()))
    """
    assert launch(1, GFS).run(code) == [0.0]


def test_bound_thread_pays_for_calls_below_the_plain_path(launch):
    code = """
        clock.barrier()
        library.tierscope_clock_act(rank, Role.CONSUMER)
        os.close(os.open(f"{folder}/gfs/f0.bin", os.O_RDONLY))
        library.tierscope_clock_act(-1, 0)
        print(json.dumps([clock.now_s(), clock.counts(1)]))
    """
    ((now_s, (counts,)),) = launch(1, GFS).run(code)
    assert now_s == pytest.approx(0.012 + 0.011, abs=1e-12)
    assert counts == {"n_opens": 1, "n_closes": 1, "n_requests": 0, "n_bytes": 0}


def test_barrier_sets_all_clocks_to_the_largest(launch):
    code = """
        clock.barrier()
        clock.compute(to_ns(0.5 * (rank + 1)))
        print(json.dumps([clock.barrier(), clock.now_s()]))
    """
    assert launch(3, GFS).run(code) == [[1.5, 1.5]] * 3


def test_meeting_sets_the_clocks_of_its_group_to_the_largest(launch):
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        for step in range(2):
            clock.compute(to_ns(0.001 * (rank + 1) * (step + 1)))
            if rank < 4:
                clock.meet(rank // 2, 2, None)
            calls.append(clock.now_ns() / 1e6)
        print(json.dumps(calls))
        clock.barrier()
    """
    found = launch(5, GFS).run(code)
    # Ranks 0 and 1 come at 1 and 2 ms, then at 2 + 2 and 2 + 4; the last meets nobody.
    assert found == [[2, 6], [2, 6], [4, 12], [4, 12], [5, 15]]


def test_process_at_a_meeting_holds_nobody(launch):
    device = Device(("/gfs",), open_s=0.002, close_s=0.001)
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        if rank > 0:
            library.tierscope_clock_act(rank, Role.CONSUMER)
            clock.compute(to_ns(0.001 * rank))
            read("gfs", rank, 1000)
        if rank < 2:
            clock.meet(7, 2, None)
        print(json.dumps([calls, clock.now_ns() / 1e6]))
        clock.barrier()
    """
    idle, member, stranger = launch(3, device).run(code)
    assert member == [[[1, 3], [3, 3], [3, 6]], 6]
    assert stranger[0] == [[2, 5], [5, 5], [5, 7]]
    assert idle == [[], 6]


def test_tokens_are_passed_on_one_after_the_other(launch):
    device = Device(("/gfs",), request_s=0.003)
    code = """
        turns = []
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        library.tierscope_clock_act(rank, Role.CONSUMER)
        for _ in range(3):
            if rank > 0:
                clock.await_token(rank - 1)
            begun = clock.now_ns() / 1e6
            read("gfs", rank, 1000)
            turns.append([begun, clock.now_ns() / 1e6])
            clock.give_token()
            clock.compute(to_ns(0.001 * (1 + rank)))
        print(json.dumps(turns))
        clock.barrier()
    """
    # The server has 3 ms for each: ranks 0, 1, 0 (came at 4), 2 (at 6), 1 (at 9), 0 (at
    # 10), 2 (at 15), 1 (at 18), 2 (at 24).
    assert launch(3, device).run(code) == [
        [[0, 3], [4, 9], [10, 18]],
        [[3, 6], [9, 15], [18, 24]],
        [[6, 12], [15, 21], [24, 27]],
    ]


def test_token_that_was_given_before_is_received_in_order(launch):
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        if rank == 0:
            for _ in range(3):
                clock.compute(to_ns(0.002))
                clock.give_token()
        elif rank == 1:
            clock.compute(to_ns(0.005))
            for _ in range(3):
                clock.await_token(0)
                calls.append(clock.now_ns() / 1e6)
        else:
            clock.await_token(0)
            calls.append(clock.now_ns() / 1e6)
        print(json.dumps(calls))
        clock.barrier()
    """
    assert launch(3, GFS).run(code) == [[], [5, 5, 6], [2]]


def test_more_tokens_than_are_remembered_are_refused(launch):
    code = """
        for _ in range(2):
            clock.plan(0, 1000, 1, 0, 0.0)
            for _ in range(4096):
                clock.give_token()
        try:
            clock.give_token()
        except ValueError as error:
            print(json.dumps(str(error)))
    """
    (message,) = launch(1, GFS).run(code)
    assert message == "virtual time: got more tokens than are remembered."


def test_reset_makes_devices_idle_at_instant_zero(launch):
    code = """
        reads("gfs", 0)
        clock.reset()
        calls.clear()
        reads("gfs", 0)
        print(json.dumps(calls))
    """
    assert launch(1, GFS).run(code) == [[[0, 12], [12, 15], [15, 26]]]


# ---- turns, copiers and peers --------------------------------------------------------


def test_turns_are_taken_in_the_order_of_the_clock_and_last_until_something_is_done(
    launch,
):
    # Rank 1 comes first in real time and last in virtual time.
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.reset() if rank == 0 else time.sleep(0.3)
        clock.barrier()
        clock.compute(to_ns(0.002 - 0.001 * rank))
        shared = f"{folder}/order"
        clock.take_turn(Role.CONSUMER, Turn.ENDING_EPOCH)
        time.sleep(0.1)
        with open(shared, "a") as file:
            file.write(str(rank))
        clock.barrier()
        print(json.dumps(open(shared).read()))
    """
    assert launch(2, GFS).run(code) == ["10", "10"]


def test_turns_of_one_instant_are_taken_by_kind_before_rank(launch):
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        clock.take_turn(Role.CONSUMER, list(Turn)[3 - rank])
        time.sleep(0.1)
        with open(f"{folder}/order", "a") as file:
            file.write(str(rank))
        clock.barrier()
        print(json.dumps(open(f"{folder}/order").read()))
    """
    assert launch(4, GFS).run(code) == ["3210"] * 4


def test_copier_goes_on_beside_the_epoch_and_who_waits_for_it_goes_on_at_its_end(
    launch,
):
    # The copier reads 10 files of 3 ms; the process waits for it from 1 ms on.
    device = Device(("/gfs",), request_s=0.003)
    code = """
        clock.plan(0, 1000, 1, 0, 0.0)
        clock.barrier()
        clock.begin_copy(0, 0)
        def copy():
            with clock.act(0, Role.COPIER):
                for number in range(10):
                    read("gfs", number, 1000)
            ended_ns = clock.take_turn(Role.COPIER, Turn.COPIED)
            clock.copies_ended(ended_ns)
            clock.rest(0)
        thread = threading.Thread(target=copy)
        thread.start()
        clock.compute(to_ns(0.001))
        clock.await_copies()
        thread.join()
        print(json.dumps([clock.now_ns(), clock.barrier(), calls[-1]]))
    """
    ((now_ns, barrier_s, last),) = launch(1, device).run(code)
    assert now_ns == 30_000_000
    assert barrier_s == pytest.approx(0.03, abs=1e-12)
    assert last == [30, 30]


def test_copier_does_not_run_ahead_of_a_process_on_its_way_to_the_barrier(launch):
    # It has planned its epoch: its reader will begin at 0, and so does the copier.
    code = """
        clock.reset()
        clock.plan(1, 1000, 2, 0, 0.0, Role.READER)
        clock.begin_copy(0, 0)
        def copy():
            with clock.act(0, Role.COPIER):
                read("gfs", 0, 1000)
            clock.take_turn(Role.COPIER, Turn.COPIED)
            clock.rest(0)
        thread = threading.Thread(target=copy)
        thread.start()
        time.sleep(0.3)
        print(json.dumps(calls), flush=True)
        clock.barrier()
        library.tierscope_clock_ask()
        clock.take_turn(Role.READER, Turn.STARTING)
        calls.clear()
        read("gfs", 1, 1000)
        clock.told()
        library.tierscope_clock_take()
        thread.join()
        print(json.dumps(calls))
    """
    device = Device(("/gfs",), open_s=0.002)
    one = launch(1, device)
    child = one.start(0, code)
    assert json.loads(child.stdout.readline()) == []
    assert [2, 4] not in json.loads(child.stdout.readline())
    assert child.wait(60) == 0


def test_files_of_a_peer_need_one_of_its_threads_and_both_links(launch):
    # A way takes 1 ms, a file 2 ms on a link; the LFS opens in 5 ms and reads in 4 ms.
    lfs = Device(("/lfs",), metadata_latency_s=0.005, request_s=0.004)
    code = """
        if rank == 0:
            clock.set_network({n_threads}, 0.001, 0.002)
        clock.plan(1, 1000, 2, 0, 0.0)
        clock.barrier()
        library.tierscope_clock_ask()
        asked_ns = clock.ask_owner(2)
        with clock.act(rank, Role.READER):
            read("lfs", rank, 1000)
        there_ns = clock.receive(2, {node})
        descriptor = os.memfd_create("file")
        os.write(descriptor, bytes(1000))
        clock.note_memory(descriptor)
        opened = os.open(f"/proc/self/fd/{{descriptor}}", os.O_RDONLY)
        os.pread(opened, 1000, 0)
        os.close(opened)
        library.tierscope_clock_take()
        print(json.dumps([asked_ns / 1e6, there_ns / 1e6, clock.barrier()]))
    """
    two = launch(2, lfs)
    # Arrives at 1, opened at 6, read at 10, has left and arrived at 12, is there at 13.
    # The other one gets the thread at 12: 17, 21, 23, 24.
    one_thread = two.run(code.format(n_threads=1, node="rank"))
    assert one_thread == [[0, 13, 0.024], [0, 24, 0.024]]
    # With two threads the server is shared: 6, 14, 16, 17.
    two = Launch(two.folder, two.library, two.devices, 2)
    two_threads = two.run(code.format(n_threads=2, node="rank"))
    assert two_threads == [[0, 13, 0.017], [0, 17, 0.017]]


# ---- nobody waits for ever -----------------------------------------------------------

WAITS = """
try:
    clock.stop_on_signals()
    print("at the barrier", flush=True)
    clock.barrier()
except RuntimeError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def test_stop_ends_the_waits_of_all_processes(launch):
    both = launch(2, GFS)
    waiting = both.start(0, WAITS)
    waiting.stdout.readline()
    both.finish(both.start(1, "clock.end(); print(0)"))
    assert "OtherRankFailed" in both.finish(waiting, expect=1)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_wait_before_pythons_handler_runs(launch, signum):
    both = launch(2, GFS)
    # A handler that prints may interrupt the print before: that is an error in Python.
    handler = "lambda *_: os.write(1, b'seen\\n')"
    code = f"import os, signal\nsignal.signal({signum}, {handler})"
    waiting = both.start(0, code + WAITS)
    waiting.stdout.readline()
    waiting.send_signal(signum)
    output, errors = waiting.communicate(timeout=60)
    assert output == "seen\n"
    assert "OtherRankFailed" in errors


def test_process_that_is_gone_ends_the_waits_of_the_others(launch):
    both = launch(2, GFS)
    code = """
        Processes.dead_ranks = staticmethod(lambda: [1])
        Processes.gone_error = lambda ranks: RuntimeError(f"{ranks} are gone")
        clock.watch()
        try:
            clock.barrier()
        except RuntimeError as error:
            sys.exit(f"{type(error).__name__}: {error}")
    """
    errors = both.finish(both.start(0, code), expect=1)
    assert "RuntimeError: [1] are gone" in errors


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["idle", "idle"], False),
        (["running", "idle"], False),
        (["idle", "waiting"], True),
        (["blocked", "running"], True),
    ],
)
def test_only_who_waits_for_another_may_want_for_progress(states, expected):
    actors = "".join(f"rank {i} reader: {state}\n" for i, state in enumerate(states))
    assert is_in_epoch(actors) == expected


def test_no_progress_names_every_actor_and_whom_it_waits_for(launch):
    both = launch(2, GFS)
    code = """
        import tierscope.storage.clock as module
        module.NO_PROGRESS_S = 1.0
        clock.watch()
        try:
            clock.barrier()
        except RuntimeError as error:
            sys.exit(f"{type(error).__name__}: {error}")
    """
    child = both.start(0, code)
    _, errors = child.communicate(timeout=60)
    assert "tierscope: no progress in virtual time for " in errors
    assert "rank 0 consumer: blocked, waits for all processes at a barrier" in errors
    assert "rank 1 reader: idle" in errors


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ("clock.meet(3, 2, None)", "the others of group 3"),
        ("clock.await_token(1)", "token 0 of rank 1"),
    ],
)
def test_waits_for_other_processes_are_named_and_end_when_the_launch_is_stopped(
    launch, waits, words
):
    both = launch(2, GFS)
    waiting = both.start(0, WAITS.replace("clock.barrier()", waits))
    waiting.stdout.readline()
    code = f"""
        while (words := "rank 0 consumer: blocked, waits for {words}") not in (
            clock.describe_actors()
        ):
            time.sleep(0.01)
        clock.end()
        print(0)
    """
    both.finish(both.start(1, code))
    assert "OtherRankFailed" in both.finish(waiting, expect=1)


def test_calls_of_a_launch_that_was_stopped_fail(launch):
    code = """
        clock.plan(1, 1000, 2, 0, 0.0)
        clock.barrier()
        clock.end()
        try:
            read("gfs", 0, 1000)
        except OSError as error:
            print(json.dumps(os.strerror(error.errno)))
    """
    assert launch(1, GFS).run(code) == ["Operation canceled"]


def test_second_reading_thread_ends_the_process_and_stops_the_launch(launch):
    both = launch(2, GFS)
    # Rank 1 runs at 0, so nobody's turn comes and rank 0's first thread waits.
    reader = """
        clock.plan(4, 1000, 4, 0, 0.0)
        clock.barrier()
        for number in range(2):
            threading.Thread(target=read, args=("gfs", number, 1000)).start()
    """
    other = """
        clock.barrier()
        try:
            while True:
                clock.check()
                time.sleep(0.01)
        except RuntimeError as error:
            sys.exit(type(error).__name__)
    """
    first, second = both.start(0, reader), both.start(1, other)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 2
    assert "two threads of process 0 make calls at the same time" in errors
    # It died with the lock: whoever takes it next stops the launch.
    second.kill()
    third = both.start(1, "clock.now_s(); clock.check()")
    assert "OtherRankFailed" in both.finish(third, expect=1)


def test_state_is_made_anew_for_its_owner_alone(tmp_path, device_library):
    config, state = tmp_path / "devices.tsv", tmp_path / "state"
    write_device_config([replace(GFS, prefixes=("/d",))], config)
    create_virtual_state(device_library, config, state, 2)
    assert state.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError, match=str(state)):
        create_virtual_state(device_library, config, state, 2)


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_calls_are_at_the_same_instants_when_processes_are_slowed_down(
    launch, prefetch
):
    device = replace(GFS, request_bytes=400, link_bytes_per_s=1e6, n_object_servers=2)
    code = f"""
        class Noting(PosixLoader):
            def _sizes(self, paths):
                for path in paths:
                    if "slow" in os.environ:
                        time.sleep(0.01 * (rank % 2))
                    descriptor = note(os.open(path, os.O_RDONLY))
                    note(os.pread(descriptor, 1000, 0))
                    yield 1000
                    os.close(descriptor)
                    note(None)
        PosixLoader = Noting
        numbers = [rank, rank + 3, rank + 6, rank, rank + 3, rank + 6, rank][: 7 - rank]
        time_s, *_ = epoch(numbers, 2, {prefetch}, 0.01 * (rank + 1), 0.002)
        print(json.dumps([time_s, calls]))
    """
    plain = launch(3, device)
    expected = plain.run(code)
    slowed = Launch(plain.folder, plain.library, plain.devices, 3)
    plain.children += slowed.children  # to be ended with it
    slowed.environment["slow"] = "1"
    assert slowed.run(code) == expected
    assert len({time_s for time_s, _ in expected}) == 1
    instants = [end for _, calls in expected for _, end in calls]
    assert len(instants) == 3 * (7 + 6 + 5)
    assert len(set(instants)) > 30


def test_an_hour_of_virtual_time_passes_at_once(launch):
    hour = Device(("/gfs",), open_s=3600)
    code = "reads('gfs', 0); print(json.dumps(calls[0]))"
    assert launch(1, hour).run(code) == [[0, 3600e3]]


INTERRUPTS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static volatile sig_atomic_t is_armed;

static void handle(int number) {
  (void)number;
  close(open(path, O_RDONLY));
}

void interrupt_next_lock(const char *with) {
  path = with;
  signal(SIGALRM, handle);
  is_armed = 1;
}

int pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *until) {
  int (*real)(pthread_mutex_t *, const struct timespec *) =
      dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
  int error = real(lock, until);
  if (is_armed) {
    is_armed = 0;
    raise(SIGALRM);
  }
  return error;
}
"""


def test_signal_handler_that_reads_emulated_files_ends_the_process(launch, tmp_path):
    source, library = tmp_path / "interrupts.c", tmp_path / "interrupts.so"
    source.write_text(INTERRUPTS)
    flags = ["-shared", "-fPIC", "-o", str(library)]
    subprocess.run(["cc", *flags, str(source), "-ldl"], check=True)
    one = launch(1, GFS)
    one.environment["LD_PRELOAD"] = f"{library}:{one.library}"
    child = one.start(
        0,
        """
        path = f"{folder}/gfs.ep0/f0.bin".encode()
        clock.plan(1 << 40, 1000, 1 << 41, 0, 0.0)
        clock.barrier()
        ctypes.CDLL(None).interrupt_next_lock(path)
        os.close(os.open(path, os.O_RDONLY))
        """,
    )
    assert "a signal handler reads" in one.finish(child, expect=2)
