"""Read files epoch by epoch on all MPI ranks; rank 0 prints what each epoch took.

    mpiexec -n N python read_epochs.py LOADER FOLDER EPOCHS BATCH_SIZE COMPUTE_S CLOCK

Times are in seconds, `real_s` of this machine and `time_s` of CLOCK (`real` or
`virtual`). `samples` and `bytes` are those of all ranks. On clock `virtual` the last
epoch has what the device has counted since the start of the launch.
"""

import json
import sys
import time
from itertools import repeat
from pathlib import Path

from mpi4py import MPI
from tierscope.benchmark.epoch import run_epoch
from tierscope.benchmark.loaders import make_loader
from tierscope.data.shuffle import epoch_files
from tierscope.storage.clock import RealClock, VirtualClock, to_ns
from tierscope.storage.tier import epoch_alias

PREFETCH_BATCHES = 2

if __name__ == "__main__":
    name, folder, n_epochs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    batch_size, compute_s = int(sys.argv[4]), float(sys.argv[5])
    comm = MPI.COMM_WORLD
    files = sorted(folder.iterdir())
    clock = RealClock(comm.Barrier)
    loader = make_loader(
        name,
        batch_size=batch_size,
        read_threads=1,
        prefetch_batches=PREFETCH_BATCHES,
        buffer_bytes=1 << 18,
        clock=clock,
    )
    if sys.argv[6] == "virtual":
        clock = VirtualClock(comm)
    for epoch in range(n_epochs):
        alias = epoch_alias(folder.parent, epoch)
        if comm.rank == 0 and not alias.is_symlink():
            alias.symlink_to(folder.parent.name)
        comm.Barrier()
        mine = epoch_files(
            len(files),
            comm.rank,
            comm.size,
            shuffle="global",
            seed=1,
            repetition=0,
            epoch=epoch,
        )
        paths = [str(alias / folder.name / files[i].name) for i in mine]
        batches = loader.epoch(paths)
        if isinstance(clock, VirtualClock):
            size = files[0].stat().st_size
            clock.plan(len(paths), size, batch_size, PREFETCH_BATCHES, 0.0)
        comm.Barrier()
        started_s = time.perf_counter()
        time_s, *read, _ = run_epoch(batches, clock, repeat(to_ns(compute_s)))
        comm.Barrier()
        took = {"real_s": time.perf_counter() - started_s, "time_s": time_s}
        took |= zip(("samples", "bytes"), map(comm.allreduce, read), strict=True)
        if isinstance(clock, VirtualClock) and epoch == n_epochs - 1:
            took |= clock.counts(n_devices=1)[0]
        if comm.rank == 0:
            print(json.dumps(took))
