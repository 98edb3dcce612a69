"""Does calibration find the structure of a GFS? ``python tests/studies/structures.py``.

A storage that is none of ours, a small event simulation with noise, serves the sweep of
`config/realfs.yaml`: a plain one, one whose servers are slower when a credit is used up
(a token bucket), and one whose files lie on random servers. For each seed the program
draws the device, calibrates on three cache rates and probes, once with structures and
once without, and predicts the cache rates between. It prints the mean absolute error of
the slowest process's I/O time, and how often each structure was chosen.
"""

import argparse
import heapq
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

from snakemake.utils import update_config  # noqa: E402
from tierscope.analysis.breakdown import slowest_process  # noqa: E402
from tierscope.core.columns import CLASSES, TABLES  # noqa: E402
from tierscope.core.description import (  # noqa: E402
    ProbeDescription,
    RunDescription,
    run_keys,
)
from tierscope.core.scenario import Point, Scenario  # noqa: E402
from tierscope.core.tables import with_later_columns  # noqa: E402
from tierscope.core.validation import read_yaml  # noqa: E402
from tierscope.data.shuffle import epoch_order  # noqa: E402
from tierscope.experiment.config import read_experiment  # noqa: E402
from tierscope.model.calibration import objective  # noqa: E402
from tierscope.model.calibration.fit import calibrate, calibrated  # noqa: E402
from tierscope.model.calibration.result import LIMIT_PARAMETERS  # noqa: E402
from tierscope.model.predict import SIMULATION, predict  # noqa: E402
from tierscope.policies import held_files  # noqa: E402
from tierscope.storage.probes import REPEATS, Probe, plan, probe_files  # noqa: E402

FITTED, HELD_OUT = (0, 50, 100), (10, 20, 30, 40, 60, 70, 80, 90)
KINDS = ("plain", "limit", "random", "observed")
_SERVICE_CV, _EPOCH_CV = 0.1, 0.02  # of a call, and of all calls of a class in an epoch
_LFS_SERVER = -1


@dataclass
class Server:
    """A queue, first come, first served, with or without a token bucket."""

    bytes_per_s: float = np.inf
    credit_bytes: float = np.inf
    free_s: float = 0.0
    tokens: float = field(init=False)
    counted_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.tokens = self.credit_bytes

    def serve(self, now_s: float, service_s: float, n_bytes: int) -> float:
        """Return when a call of so many bytes has been served."""
        start_s = max(now_s, self.free_s)
        if np.isfinite(self.bytes_per_s):
            gained = (start_s - self.counted_s) * self.bytes_per_s
            self.tokens = min(self.credit_bytes, self.tokens + gained)
            wait_s = max(n_bytes - self.tokens, 0) / self.bytes_per_s
            start_s += wait_s
            self.tokens += wait_s * self.bytes_per_s - n_bytes
            self.counted_s = start_s
        self.free_s = start_s + service_s
        return self.free_s


@dataclass
class Device:
    """The storage of a run: opens, reads of GFS and LFS, and their noise."""

    open_s: float
    request_s: float
    lfs_request_s: float
    places: np.ndarray
    limit_bytes_per_s: float
    credit_bytes: float
    generator: np.random.Generator

    def start(self) -> None:
        """Begin a run with full credit."""
        n_servers = int(self.places.max()) + 1
        self.metadata, self.lfs = Server(), Server()
        self.objects = [
            Server(self.limit_bytes_per_s, self.credit_bytes) for _ in range(n_servers)
        ]
        self.now_s = 0.0

    def calls_of(
        self, file: int, on_lfs: bool, sizes: list[int], noise: np.ndarray
    ) -> Iterator[tuple[int, Server, float, int]]:
        """Yield class, server, service time and bytes of the calls of a file."""
        tier = 2 * on_lfs
        if on_lfs:
            yield tier + 1, Server(), 1e-5, 0
        else:
            yield tier + 1, self.metadata, self.open_s * noise[1], 0
        server = self.lfs if on_lfs else self.objects[self.places[file]]
        mean_s = self.lfs_request_s if on_lfs else self.request_s
        for size in sizes:
            yield tier, server, mean_s * noise[tier], size

    def times(self, shares: list[list], n_classes: int = 4) -> np.ndarray:
        """Return the seconds of each process in each class: shape (n_ranks, 4)."""
        times_s = np.zeros((len(shares), n_classes))
        ends_s = np.full(len(shares), self.now_s)
        waiting = [(self.now_s, rank) for rank in range(len(shares))]
        iterators = [iter(one) for one in shares]
        while waiting:
            now_s, rank = heapq.heappop(waiting)
            call = next(iterators[rank], None)
            if call is None:
                ends_s[rank] = now_s
                continue
            column, server, service_s, n_bytes = call
            service_s *= self._factor(_SERVICE_CV)
            done_s = server.serve(now_s, service_s, n_bytes)
            times_s[rank, column] += done_s - now_s
            heapq.heappush(waiting, (done_s, rank))
        self.now_s = float(ends_s.max())
        return times_s

    def noise(self) -> np.ndarray:
        """Return a factor of the service times of each class, for an epoch."""
        return np.array([self._factor(_EPOCH_CV) for _ in CLASSES])

    def _factor(self, cv: float) -> float:
        return float(np.exp(cv * self.generator.standard_normal()))


def drawn_device(kind: str, description: RunDescription, seed: int) -> Device:
    """Return a device of a kind."""
    generator = np.random.default_rng((seed, 43))
    n_files, n_servers = description.dataset.n_files, description.scenario.n_osts
    request_s = 0.01 * float(np.exp(0.3 * generator.standard_normal()))
    size = min(description.dataset.file_size_bytes, 131072)
    is_spread = kind in {"random", "observed"}
    limit, credit = np.inf, np.inf
    if kind == "limit":
        # Four processes keep four servers busy for 4 / (4 + 4 - 1) of the time.
        rate, slower = 0.57 * size / request_s, generator.uniform(0.25, 0.7)
        in_run = description.training.epochs * n_files / n_servers
        in_run *= description.dataset.file_size_bytes
        limit = rate * slower
        credit = in_run * (1 - slower) * generator.uniform(0.15, 0.6)
    random_places = generator.integers(n_servers, size=n_files)
    return Device(
        open_s=0.002 * float(np.exp(0.3 * generator.standard_normal())),
        request_s=request_s,
        lfs_request_s=0.005 * float(np.exp(0.3 * generator.standard_normal())),
        places=random_places if is_spread else np.arange(n_files) % n_servers,
        limit_bytes_per_s=limit,
        credit_bytes=credit,
        generator=generator,
    )


def sizes_of(n_bytes: int, request_bytes: int) -> list[int]:
    """Return the requests of a read."""
    whole, rest = divmod(n_bytes, request_bytes)
    return [request_bytes] * whole + ([rest] if rest else [])


def io_time_of(
    description: RunDescription, device: Device, rates: tuple[int, ...]
) -> pd.DataFrame:
    """Return table `io_time` of runs on the device."""
    dataset, training = description.dataset, description.training
    n_ranks, seed = description.system.n_processes, training.seed
    sizes = sizes_of(dataset.file_size_bytes, 131072)
    parts = []
    for point in (Point(rate, 0) for rate in rates):
        device.start()
        held = held_files("pinning", dataset.n_files, point.cache_rate_percent, seed, 0)
        for epoch in range(training.epochs):
            files = epoch_order(
                dataset.n_files,
                n_ranks,
                shuffle=training.shuffle,
                seed=seed,
                repetition=0,
                epoch=epoch,
            )
            noise = device.noise()
            mine = np.array_split(files, n_ranks)
            shares = [
                [c for f in part for c in device.calls_of(f, held[f], sizes, noise)]
                for part in mine
            ]
            times_s = device.times(shares)
            n_lfs = np.array([held[part].sum() for part in mine])
            counts = np.column_stack([n_lfs, n_lfs])
            counts = np.hstack([[[len(p)] * 2 for p in mine] - counts, counts])
            part = pd.DataFrame(
                {
                    "rank": np.repeat(np.arange(n_ranks), 4),
                    "io_class": np.tile(CLASSES, n_ranks),
                    "time_s": times_s.ravel(),
                    "operations": counts.ravel(),
                    "bytes": counts.ravel() * dataset.file_size_bytes,
                }
            )
            keys = run_keys(description, point)
            parts.append(part.assign(epoch=epoch, **keys))
    table = with_later_columns(pd.concat(parts, ignore_index=True), "io_time")
    return table[list(TABLES["io_time"])]


def probes_of(description: RunDescription, device: Device) -> pd.DataFrame:
    """Return table `probes` of the device."""
    probed, rows = ProbeDescription.of(description), []
    device.start()
    for repeat in range(REPEATS):
        for probe in plan(probed):
            begin_s, noise = device.now_s, device.noise()
            calls = probe_calls(probed, probe, device, repeat, noise)
            device.times(calls)
            time_s = max(device.now_s - begin_s, 1e-6)
            rows.append(
                {
                    "source": description.source,
                    "system": description.system.name,
                    "dataset": description.dataset.name,
                    "n_osts": description.scenario.n_osts,
                    "probe": probe.name,
                    "tier": probe.tier,
                    "operation": probe.operation,
                    "n_clients": probe.n_clients,
                    "repeat": repeat,
                    "operations": probe.n_operations,
                    "bytes": probe.n_bytes,
                    "time_s": time_s,
                    "mean_call_s": time_s,
                }
            )
    return pd.DataFrame(rows)


def probe_calls(
    probed: ProbeDescription,
    probe: Probe,
    device: Device,
    repeat: int,
    noise: np.ndarray,
) -> list[list]:
    """Return the calls of each client of a probe."""
    on_lfs = probe.tier == "lfs"
    sizes = sizes_of(probe.file_bytes, 131072)
    clients = []
    for client in range(probe.n_clients):
        calls = []
        for file in probe_files(probed, probe, client, repeat):
            opened, *read = device.calls_of(file, on_lfs, sizes, noise)
            if probe.operation == "open":
                calls.append(opened)
            elif probe.operation == "read":
                calls += read
            else:
                calls.append((1, Server(), 1e-6, 0))
        clients.append(calls)
    return clients


def trial(kind: str, seed: int) -> dict[str, float | str | bool]:
    """Return what calibration made of a device, and its errors."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / "realfs.yaml"))
    config["training"]["seed"] = 1000 + seed
    experiment = read_experiment(config, ROOT / "resources")
    scenario = Scenario("small", 4, "pinning", "tensorflow")
    described = experiment.model_description(scenario)
    device = drawn_device(kind, described, seed)
    fitted = io_time_of(described, device, FITTED)
    probes = probes_of(described, device)
    held_out = io_time_of(described, device, HELD_OUT)
    if kind == "observed":
        described = replace(described, servers=device.places)
    objective._MOST_PAIRS = 2  # rougher, and four times as fast
    row = {"kind": kind, "seed": seed}
    for words, tries in (("without", False), ("with", True)):
        found = calibrate(described, fitted, probes, tries_structures=tries)
        base = found.description
        base = calibrated(base, found.devices())
        row[f"error_{words}"] = error_percent(base, held_out)
        row[f"rms_{words}"] = found.rms_percent
        row[f"limited_{words}"] = set(LIMIT_PARAMETERS) <= {
            one.name for one in found.parameters
        }
        row[f"placement_{words}"] = base.system.devices["gfs"].get("placement", "")
        row[f"text_{words}"] = found.text()
    return row


def error_percent(description: RunDescription, io_time: pd.DataFrame) -> float:
    """Return the mean absolute error of the slowest process's I/O time."""
    keys = ["cache_rate_percent", "epoch"]
    points = [Point(rate, 0) for rate in HELD_OUT]
    predicted = predict(description, points, SIMULATION)
    predicted_s = predicted.groupby(keys)["time_s"].sum()
    measured_s = slowest_process(io_time).set_index(keys)["io_time_s"]
    return float(100 * (predicted_s / measured_s - 1).abs().mean())


def main() -> None:
    """Print the table of all kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--text", action="store_true", help="print calibrations, too")
    options = parser.parse_args()
    wanted = [(kind, seed) for kind in options.kinds for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = []
        for row in pool.map(trial, *zip(*wanted, strict=True)):
            texts = {name: row.pop(name) for name in ("text_without", "text_with")}
            print(row, flush=True)
            if options.text:
                print(*texts.values(), sep="\n", flush=True)
            rows.append(row)
    frame = pd.DataFrame(rows)
    frame["random"] = frame["placement_with"] == "random"
    print(
        frame.groupby("kind", sort=False)
        .agg(
            n=("seed", "size"),
            error_without=("error_without", "mean"),
            error_with=("error_with", "mean"),
            limited=("limited_with", "mean"),
            random=("random", "mean"),
        )
        .to_string()
    )


if __name__ == "__main__":
    main()
