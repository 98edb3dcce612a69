"""Read files of other nodes over MPI windows, and say what each process found (JSON).

mpiexec -n 4 python windows_under_mpi.py CASE: each process is a node. CASE:

`bytes`: every process reads all files of the others, in two threads.
`asleep`: node 1 reads from node 0, which is in no MPI call for a second.
`timeout`: the same without the thread that lets MPI answer, and little patience.
`slots`: the windows hold other files than they should.
`failure`: node 2 reports a failure while node 1 waits for the window of node 0.
"""

import json
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from mpi4py import MPI
from tierscope.peers import PeerError
from tierscope.peers.window import PeerWindows
from tierscope.policies import AdHoc, owner_nodes
from tierscope.processes import OtherRankFailed, Processes

N_FILES, SIZE, ASLEEP_S = 40, 100_000, 1.0


def name_of(file_id):
    """Return the name of a file."""
    return f"{file_id:07d}.tfrecord"


def content_of(file_id):
    """Return the content of a file."""
    return np.random.default_rng(file_id).bytes(SIZE)


def read_all(processes, windows, files):
    """Return how many files of other nodes came with their own bytes."""
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda file_id: windows.fetch(0, file_id)[0], files))
    return sum(a == content_of(b) for a, b in zip(got, files, strict=True))


def report_failure(processes):
    """Report a failure after a while, and call MPI so that it gets away."""
    start, is_reported = time.monotonic(), False
    while (waited_s := time.monotonic() - start) < ASLEEP_S:
        if waited_s > ASLEEP_S / 2 and not is_reported:
            processes.announce_failure()
            is_reported = True
        processes.comm.iprobe()
        time.sleep(0.001)


def read_asleep(processes, windows, file_id):
    """Return how long node 1 waited for a file of node 0, which is asleep."""
    processes.barrier()
    if processes.rank == 0:
        time.sleep(ASLEEP_S)
    if processes.rank != 1:
        return None
    time.sleep(ASLEEP_S / 10)
    start = time.perf_counter()
    content, *_ = windows.fetch(0, file_id)
    assert content == content_of(file_id)
    return time.perf_counter() - start


def main(case):
    """Run a case and print what each process found."""
    system = {"n_nodes": 4, "processes_per_node": 1, "virtual_nodes": True}
    processes = Processes(MPI.COMM_WORLD, system)
    owners = owner_nodes(map(name_of, range(N_FILES)), 4)
    staged = np.arange(N_FILES) % 5 > 0
    policy = AdHoc(staged, owners, processes.node)
    windows = PeerWindows(
        *(processes, policy, SIZE, name_of, b"secret"),
        timeout_s=0.3 if case == "timeout" else 20,
    )
    right = windows._slots.copy()
    if case == "slots":
        mine = policy.files_of(processes.node)
        windows._slots[mine] = right[mine][::-1]
    windows.expose(content_of)
    windows._slots = right
    if case in ("timeout", "failure"):
        windows.close()  # its thread
    of_first = int(policy.files_of(0)[0])
    others = np.flatnonzero(staged & (owners != processes.node)).tolist()
    found = {"needs_thread": windows.needs_thread, "error": None}
    try:
        if case in ("bytes", "slots"):
            found["n_right"] = read_all(processes, windows, others)
            found["n_wanted"] = len(others)
        else:
            found["time_s"] = read_asleep(processes, windows, of_first)
    except (PeerError, OtherRankFailed) as error:
        found["error"] = f"{type(error).__name__}: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        found["in_read"] = any(frame.name == "fetch" for frame in frames)
    if case == "failure":  # after which nothing collective works
        if processes.rank == 2:
            report_failure(processes)
        if processes.rank == 1:
            print(json.dumps([found]), flush=True)
        time.sleep(2 * ASLEEP_S)
        MPI.COMM_WORLD.Abort(3)
        return
    results = MPI.COMM_WORLD.gather(found)
    if processes.rank == 0:
        print(json.dumps(results), flush=True)
    windows.free()


if __name__ == "__main__":
    main(sys.argv[1])
