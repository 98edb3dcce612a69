"""Emulated devices in virtual time: their cost, and that they say what waiting says.

The processes read the same files with our loaders, on the bare directory and through
the devices of system `scale-model` at 60 OSTs and a cache rate of 0. The first epoch of
every launch is dropped. Then processes compute between their batches, in virtual time
and on files whose calls really wait (`waiting.c`), a little too long on any machine.
"""

import platform
import subprocess
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

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
    data = _generate(folder, Files("small", n_ranks * n_files, 1 << 17, 12))
    system = read_system("scale-model", ROOT / "resources" / "systems")
    system = replace(system, gfs=replace(system.gfs, root=str(folder / "gfs")))
    device = emulated_gfs(system, 60)

    def us_per_file(loader: str, what: str) -> list[float]:
        clock = "virtual" if what == EMULATED else "real"
        devices = [device] if what == EMULATED else []
        times = loader, n_epochs, 12, 0.0
        times_s = _epochs(folder, data, devices, clock, *times, n_ranks=n_ranks)
        return [real_s / n_ranks / n_files * 1e6 for real_s, _ in times_s[1:]]

    for loader in ("posix", "tensorflow"):
        runs = {what: partial(us_per_file, loader, what) for what in (BARE, EMULATED)}
        case = f"{loader}, a file, all processes together"
        results.interleave(case, n_rounds, runs, peers=[], unit="us")
        results.compare(case, EMULATED, BARE)
    per_file = results.find("posix, a file, all processes together", EMULATED)
    samples = [value / CALLS_PER_FILE for value in per_file.samples]
    results.add("posix, an emulated call", EMULATED, samples, "us")
    results.limit_median("posix, an emulated call", EMULATED, at_most=30)


def _measure_compute_time(results: Results, folder: Path) -> None:
    """Compare epochs with compute time with those of devices that really wait."""
    n_rounds, n_files = (1, 24) if results.small else (3, 96)
    data = _generate(folder, Files("tiny", N_READERS * n_files, 4096, BATCH_SIZE))
    device = Device((str(folder / "gfs" / "data"),), request_s=READ_S)
    for factor in (1,) if results.small else (0.5, 1, 2):
        compute_s = factor * READ_S * BATCH_SIZE * N_READERS
        case = f"an epoch whose steps take {factor:g} times their reads"

        def seconds(clock: str, compute_s: float = compute_s) -> list[float]:
            times = "posix", 2, BATCH_SIZE, compute_s
            found = _epochs(folder, data, [device], clock, *times, n_ranks=N_READERS)
            return [time_s for _, time_s in found]

        runs = {what: partial(seconds, what) for what in ("virtual", "real")}
        results.interleave(case, n_rounds, runs, peers=[])
        results.compare(case, "real", "virtual", at_most=1.05)
        results.compare(case, "virtual", "real", at_most=1.05)


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
) -> list[tuple[float, float]]:
    """Return the real time of each epoch and its time on a clock, in seconds."""
    command = [BIN / "mpiexec", "-n", n_ranks]
    if devices:
        for name, value in _emulate(folder, devices, clock, n_ranks).items():
            command += ["-genv", name, value]
    script = Path(__file__).with_name("read_epochs.py")
    arguments = [loader, data, n_epochs, batch_size, compute_s, clock]
    output = run([*command, BIN / "python", script, *arguments])
    return [tuple(map(float, line.split())) for line in output.splitlines()]


def _emulate(
    folder: Path, devices: list[Device], clock: str, n_ranks: int
) -> dict[str, str]:
    """Make the devices' files anew; return what a rank must start with."""
    if clock == "real":
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
    library, state = folder / "waiting.so", folder / "waiting.state"
    source = Path(__file__).with_name("waiting.c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, source, "-ldl"], check=True)
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
