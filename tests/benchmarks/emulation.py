"""Emulated devices in virtual time: their cost, and that they say what waiting says.

The processes read the same files with our loaders, on the bare directory and through
the devices of system `scale-model` at 60 OSTs and a cache rate of 0. The first epoch of
every launch is dropped. Then processes compute between their batches, in virtual time
and on files whose calls really wait (`waiting.c`), a little too long on any machine.
Devices and the waiting library count the calls that they have charged for.
"""

import json
import platform
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    BIN,
    NATIVE,
    ROOT,
    Files,
    Results,
    build_native,
    run,
    run_as_script,
    temporary_folder,
)
from tierscope.core.scenario import Dataset
from tierscope.data.tfrecord import generate_files
from tierscope.experiment.system import read_system
from tierscope.storage.clock import create_virtual_state, to_ns
from tierscope.storage.emulated.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    write_device_config,
)
from tierscope.storage.emulated.library import emulated_gfs

N_PROCESSES, TRIAL_PROCESSES = 8, 2
BARE, EMULATED = "bare directory", "emulated devices"
CALLS_PER_FILE = 3  # open, the read that returns bytes, close
N_READERS, READ_S, BATCH_SIZE = 2, 0.02, 4  # of the comparison of both clocks
VIRTUAL, REAL = "virtual", "real"
STATE_OF_WAITS = "waiting.state"
Epochs = list[dict[str, Any]]


def measure(small: bool = False) -> Results:
    """Measure what calls cost, and compute time in virtual and in real time."""
    n_ranks = TRIAL_PROCESSES if small else N_PROCESSES
    title = f"emulated devices, {n_ranks} processes, two clocks"
    results = Results("emulation", title, small)
    build_native()
    with temporary_folder() as folder:
        _measure_cost(results, folder, n_ranks)
    with temporary_folder() as folder:
        _measure_compute_time(results, folder)
    return results


def _measure_cost(results: Results, folder: Path, n_ranks: int) -> None:
    """Read with both loaders with and without devices, in turn."""
    n_files, n_rounds = (12, 1) if results.small else (192, 3)
    n_epochs = 2 if results.small else 6
    files = Files("small", n_ranks * n_files, 1 << 17, 12)
    data = _generate(folder, files)
    system = read_system("scale-model", ROOT / "resources" / "systems")
    system = replace(system, gfs=replace(system.gfs, root=str(folder / "gfs")))
    device = emulated_gfs(system, 60)

    def us_per_file(loader: str, what: str) -> list[float]:
        clock, devices = (VIRTUAL, [device]) if what == EMULATED else (REAL, [])
        times = loader, n_epochs, 12, 0.0
        found = _epochs(folder, data, devices, clock, *times, n_ranks=n_ranks)
        _count(results, _a_file(loader), what, found, files)
        return [epoch["real_s"] / n_ranks / n_files * 1e6 for epoch in found[1:]]

    for loader in ("posix", "tensorflow"):
        runs = {what: partial(us_per_file, loader, what) for what in (BARE, EMULATED)}
        case = _a_file(loader)
        results.interleave(case, n_rounds, runs, peers=[], unit="us")
        results.compare(case, EMULATED, BARE)
    case = _a_file("posix")
    per_file = results.find(case, EMULATED)
    samples = [value / CALLS_PER_FILE for value in per_file.samples]
    results.add(case, f"a call, {EMULATED}", samples, "us")
    results.limit_median(case, f"a call, {EMULATED}", at_most=30)


def _a_file(loader: str) -> str:
    """Return how the table calls the cost of a file with this loader."""
    return f"{loader}, a file, all processes together"


def _measure_compute_time(results: Results, folder: Path) -> None:
    """Compare epochs with compute time with those of devices that really wait."""
    n_rounds, n_files = (1, 24) if results.small else (3, 96)
    files = Files("tiny", N_READERS * n_files, 4096, BATCH_SIZE)
    data = _generate(folder, files)
    device = Device((str(folder / "gfs" / "data"),), request_s=READ_S)
    for factor in (1,) if results.small else (0.5, 1, 2):
        compute_s = factor * READ_S * BATCH_SIZE * N_READERS
        case = f"an epoch whose steps take {factor:g} times their reads"

        def seconds(
            clock: str, case: str = case, compute_s: float = compute_s
        ) -> list[float]:
            times = "posix", 2, BATCH_SIZE, compute_s
            found = _epochs(folder, data, [device], clock, *times, n_ranks=N_READERS)
            _count(results, case, clock, found, files)
            return [epoch["time_s"] for epoch in found]

        runs = {what: partial(seconds, what) for what in (VIRTUAL, REAL)}
        results.interleave(case, n_rounds, runs, peers=[])
        results.agree(case, REAL, VIRTUAL, within_percent=5)


def _generate(folder: Path, files: Files) -> Path:
    """Write files and return their folder."""
    dataset = Dataset(**asdict(files))
    data = folder / "gfs" / "data" / dataset.directory(60)
    data.mkdir(parents=True)
    names = [dataset.file_name(i) for i in range(dataset.n_files)]
    generate_files(data, names, range(len(names)), dataset.file_size_bytes)
    return data


def _epochs(
    folder: Path,
    data: Path,
    devices: list[Device],
    clock: str,
    loader: str,
    n_epochs: int,
    batch_size: int,
    compute_s: float,
    n_ranks: int,
) -> Epochs:
    """Return what `read_epochs.py` prints of each epoch; the last has all charges."""
    command = [BIN / "mpiexec", "-n", n_ranks]
    if devices:
        for name, value in _emulate(folder, devices, clock, n_ranks).items():
            command += ["-genv", name, value]
    script = Path(__file__).with_name("read_epochs.py")
    arguments = [loader, data, n_epochs, batch_size, compute_s, clock]
    output = run([*command, BIN / "python", script, *arguments])
    epochs = [json.loads(line) for line in output.splitlines()]
    if devices and clock == REAL:
        epochs[-1] |= _waits(folder / STATE_OF_WAITS)
    return epochs


def _count(
    results: Results, case: str, what: str, epochs: Epochs, files: Files
) -> None:
    """Count what the loader read, and what devices charged for, if there are any."""
    n_files = len(epochs) * files.n_files
    n_bytes = n_files * files.file_size_bytes
    for unit, expected in ("samples", n_files), ("bytes", n_bytes):
        results.count(case, what, unit, sum(e[unit] for e in epochs), expected)
    if what == REAL:
        results.count(case, what, "waits for reads", epochs[-1]["n_waits"], n_files)
    if what != BARE:
        charged = epochs[-1]["n_bytes"]
        results.count(case, what, "bytes charged", charged, n_bytes)


def _waits(state: Path) -> dict[str, int]:
    """Return how often the library that waits has waited for reads, and their bytes."""
    _opens, reads = np.fromfile(state, np.int64, 6).reshape(2, 3).tolist()
    return dict(zip(("n_waits", "n_bytes"), reads[1:], strict=True))


def _emulate(
    folder: Path, devices: list[Device], clock: str, n_ranks: int
) -> dict[str, str]:
    """Make the devices' files anew; return what a rank must start with."""
    if clock == REAL:
        return _wait(folder, *devices)
    library = NATIVE / platform.machine() / "libtierscope_device.so"
    config, state = folder / "devices.tsv", folder / "devices.state"
    for path in (config, state):
        path.unlink(missing_ok=True)
    write_device_config(devices, config)
    create_virtual_state(library, config, state, n_ranks)
    return {
        "LD_PRELOAD": str(library),
        DEVICES_VARIABLE: str(config),
        STATE_VARIABLE: str(state),
    }


def _wait(folder: Path, device: Device) -> dict[str, str]:
    """Compile the library that waits; return what a rank must start with."""
    library, state = folder / "waiting.so", folder / STATE_OF_WAITS
    source = Path(__file__).with_name("waiting.c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run(["cc", *flags, "-o", library, source, "-ldl"])
    state.write_bytes(bytes(4096))
    return {
        "LD_PRELOAD": str(library),
        "WAITING_PREFIX": str(folder / "gfs"),
        "WAITING_STATE": str(state),
        "WAITING_OPEN_NS": str(to_ns(device.open_s)),
        "WAITING_READ_NS": str(to_ns(device.request_s)),
    }


if __name__ == "__main__":
    run_as_script(measure)
