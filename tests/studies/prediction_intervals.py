"""Check the intervals of predictions: ``python tests/studies/prediction_intervals.py``.

Each seed draws a machine (8 processes, 2 to 6 object servers, service times and their
variation), and a storage that behaves as the model thinks (`right`) or not (`bucket`,
`cache`, `unequal`: see `tests/foreign.py`). Three cache rates with three repetitions of
two epochs, and probes, are "measured": each run, and each repeat of a probe, is slower
or faster by a factor of its own. A calibration is fitted, and predicts five other cache
rates. The truth is the mean over many further repetitions without that factor. The
study counts how many intervals hold the truth, and how often lack of fit is reported.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow" / "scripts")]

from descriptions import describe_scenario  # noqa: E402
from foreign import (  # noqa: E402
    ForeignStorage,
    Plain,
    ServerCache,
    TokenBucket,
    UnequalServers,
)
from tierscope.core.description import RunDescription  # noqa: E402
from tierscope.core.io_class import total_s  # noqa: E402
from tierscope.core.scenario import Point  # noqa: E402
from tierscope.model.calibration import objective  # noqa: E402
from tierscope.model.calibration.fit import calibrate, calibrated  # noqa: E402
from tierscope.model.predict import SIMULATION, predict  # noqa: E402
from tierscope.model.predicted_intervals import predicted_intervals  # noqa: E402
from tierscope.model.simulator.run import (  # noqa: E402
    SimulatedReads,
    class_times,
    planned_reads,
    tables_of,
    workload_of,
)
from tierscope.storage.queueing_network import network_of  # noqa: E402

OUTPUT = ROOT / "results" / "studies" / "prediction-intervals"
RIGHT, DEVICES = "right", ("right", "bucket", "cache", "unequal")
FITTED_PERCENT, HELD_OUT_PERCENT = (0, 65, 100), (15, 30, 45, 80, 90)
REPETITIONS, FURTHER = 3, 40
FITTED = (
    "gfs.open_s",
    "gfs.metadata_latency_s",
    "gfs.ost_bandwidth_bytes_per_s",
    "gfs.read_latency_s",
    "lfs.request_s",
)
PROCESSES, FILE_BYTES = 8, 131072
# Ranges of what is drawn, equally likely by their logarithms. Times of a file at all
# servers together, in seconds, then latencies.
RANGES = {
    "metadata_s": (3e-4, 2e-3),
    "objects_s": (2e-3, 6e-3),
    "lfs_s": (5e-4, 4e-3),
    "link_s": (5e-5, 5e-4),
    "metadata_latency_s": (1e-4, 4e-3),
    "read_latency_s": (1e-4, 4e-3),
    "lfs_latency_s": (5e-5, 1e-3),
}
CV = (0.02, 0.5)  # of service times; the system file states it
RUNS_VARY = (0.01, 0.05)  # standard deviation of the logarithm of a run's factor
LIMIT = (0.4, 0.75)  # of the rate that a server reaches at 0 %: `bucket`
CREDIT = (0.2, 0.6)  # of what a server reads in a run at 0 %
KEPT = (0.3, 0.7)  # of the files of a server: `cache`
HIT = (0.1, 0.3)  # of the service time
LARGEST = (2.0, 4.0)  # times its fair part, that of the fullest server: `unequal`


def machine(seed: int) -> tuple[RunDescription, dict[str, float]]:
    """Return a drawn scenario with its true devices, and what else was drawn."""
    draw = np.random.default_rng([seed, 7])

    def within(ends: tuple[float, float]) -> float:
        return float(np.exp(draw.uniform(*np.log(ends))))

    times = {name: within(ends) for name, ends in RANGES.items()}
    n_osts, n_files = int(draw.integers(2, 7)), 8 * int(draw.integers(12, 25))
    closes = draw.uniform(0.1, 0.4)
    other = {
        name: within(ends)
        for name, ends in (
            ("cv", CV),
            ("runs_vary", RUNS_VARY),
            ("limit", LIMIT),
            ("credit", CREDIT),
            ("kept", KEPT),
            ("hit", HIT),
            ("largest", LARGEST),
        )
    }
    gfs = {
        "n_osts": n_osts,
        "request_bytes": 1048576,
        "open_s": (1 - closes) * times["metadata_s"],
        "close_s": closes * times["metadata_s"],
        "metadata_latency_s": times["metadata_latency_s"],
        "ost_bandwidth_bytes_per_s": FILE_BYTES / (n_osts * times["objects_s"]),
        "read_latency_s": times["read_latency_s"],
        "link_bytes_per_s": FILE_BYTES / times["link_s"],
    }
    lfs = {
        "request_bytes": FILE_BYTES,
        "request_s": times["lfs_s"],
        "latency_s": times["lfs_latency_s"],
        "processes_per_server": PROCESSES,
    }
    simulation = {"service_distribution": "lognormal", "service_cv": other["cv"]}
    devices = {"origin": "drawn", "gfs": gfs, "lfs": lfs, "simulation": simulation}
    description = describe_scenario(
        system={"n_nodes": 1, "processes_per_node": PROCESSES, "devices": devices},
        dataset={"n_files": n_files, "file_size_bytes": FILE_BYTES},
        scenario={"n_osts": n_osts},
        training={"epochs": 2, "seed": seed},
    )
    return description, other


def servers_of(
    device: str, seed: int, description: RunDescription, drawn: dict[str, float]
) -> Plain:
    """Return the object servers of a device."""
    n_osts, n_files = description.scenario.n_osts, description.dataset.n_files
    if device == "bucket":
        usual = ForeignStorage(description, Plain(n_osts), drawn["cv"])
        epochs = [one.epoch.finished_s.max() for one in usual.run(Point(0, 0), seed)]
        in_run = len(epochs) * n_files * FILE_BYTES / n_osts
        limit = drawn["limit"] * in_run / sum(epochs)
        return TokenBucket(n_osts, limit, drawn["credit"] * in_run)
    if device == "cache":
        n_kept = max(1, round(drawn["kept"] * n_files / n_osts))
        return ServerCache(n_osts, n_kept, drawn["hit"])
    if device == "unequal":
        return UnequalServers(n_osts, n_files, drawn["largest"], seed)
    return Plain(n_osts)


class Truth:
    """The storage of a seed: its runs, its probes, and its expected times."""

    def __init__(self, device: str, seed: int):
        self.device, self.seed = device, seed
        self.description, self.drawn = machine(seed)
        servers = servers_of(device, seed, self.description, self.drawn)
        self.storage = ForeignStorage(self.description, servers, self.drawn["cv"])

    def reads(self, point: Point) -> Iterator[SimulatedReads]:
        """Yield the epochs of a run, without its factor."""
        if self.device != RIGHT:
            yield from self.storage.run(point, self.seed)
            return
        network = network_of(self.description.system, self.description.scenario.n_osts)
        for planned in planned_reads(self.description, point):
            services = np.random.default_rng(
                [self.seed, point.cache_rate_percent, *planned.seeds]
            )
            other = int(services.integers(2**40)), *planned.seeds[1:]
            one = replace(planned, seeds=other)
            yield one.simulate(network, workload_of(self.description))

    def factor(self, *seeds: int) -> float:
        """Return the factor of a run, or of a repeat of a probe."""
        z = np.random.default_rng([self.seed, 9, *seeds]).standard_normal()
        return float(np.exp(self.drawn["runs_vary"] * z))

    def io_time(self) -> pd.DataFrame:
        """Return table `io_time` of the measured runs."""
        parts = []
        for rate in FITTED_PERCENT:
            for repetition in range(REPETITIONS):
                point = Point(rate, repetition)
                table, _ = tables_of(self.description, point, self.reads(point))
                table["time_s"] *= self.factor(rate, repetition)
                parts.append(table)
        return pd.concat(parts, ignore_index=True)

    def probes(self) -> pd.DataFrame:
        """Return table `probes`."""
        keys = {
            "source": "measured",
            "system": self.description.system.name,
            "dataset": self.description.dataset.name,
            "n_osts": self.description.scenario.n_osts,
        }
        rows = []
        for number, (probe, repeat, time_s) in enumerate(self.storage.probe(self.seed)):
            time_s *= self.factor(1000, number)
            rows.append(
                keys
                | {
                    "probe": probe.name,
                    "tier": probe.tier,
                    "operation": probe.operation,
                    "n_clients": probe.n_clients,
                    "repeat": repeat,
                    "operations": probe.n_operations,
                    "bytes": probe.n_bytes,
                    "time_s": time_s,
                    "mean_call_s": time_s / probe.n_operations,
                }
            )
        return pd.DataFrame(rows)

    def expected(self, rate: int) -> tuple[float, float]:
        """Return the mean I/O time of the slowest process, and its standard error."""
        runs_s = [
            np.mean(
                [total_s(class_times(one)).max() for one in self.reads(Point(rate, k))]
            )
            for k in range(1000, 1000 + FURTHER)
        ]
        return float(np.mean(runs_s)), float(np.std(runs_s, ddof=1) / FURTHER**0.5)


def study(
    device: str, seed: int, parameters: Sequence[str] | None = FITTED
) -> dict[str, Any]:
    """Calibrate on a seed's measurements and compare predictions with the truth.

    The parameters that are fitted are those of `calibrate`.
    """
    begin = time.time()
    truth = Truth(device, seed)
    found = calibrate(truth.description, truth.io_time(), truth.probes(), parameters)
    description = calibrated(truth.description, found.devices())
    points = [Point(rate, k) for rate in HELD_OUT_PERCENT for k in range(REPETITIONS)]
    predicted = predict(description, points, SIMULATION)
    intervals = predicted_intervals(predicted, description, found.uncertainty)
    runs_s = predicted.groupby(["cache_rate_percent", "repetition", "epoch"])["time_s"]
    means_s = runs_s.sum().groupby("cache_rate_percent").mean()
    rates = []
    for row in intervals.drop_duplicates("cache_rate_percent").to_dict("records"):
        rate = row["cache_rate_percent"]
        ends_s = row["predicted_io_time_low_s"], row["predicted_io_time_high_s"]
        rates.append([rate, *truth.expected(rate), means_s[rate], *ends_s])
    test = found.lack_of_fit
    return {
        "device": device,
        "seed": seed,
        "p_value": test.p_value,
        "lack_of_fit_percent": test.lack_of_fit_percent,
        "pure_error_percent": test.pure_error_percent,
        "said": test.sentence(),
        "rates": rates,
        "drawn": truth.drawn,
        "seconds": time.time() - begin,
    }


def results(lines: Iterable[str]) -> pd.DataFrame:
    """Return the verdicts on the finished calibrations, one row for each rate."""
    rows = []
    for line in lines:
        one = json.loads(line)
        for rate, expected_s, _, predicted_s, low_s, high_s in one["rates"]:
            rows.append(
                {
                    "device": one["device"],
                    "seed": one["seed"],
                    "rate": rate,
                    "holds": low_s <= expected_s <= high_s,
                    "error_percent": 100 * abs(predicted_s / expected_s - 1),
                    "half_width_percent": 50 * (high_s - low_s) / predicted_s,
                    "reported": one["p_value"] < 0.05,
                }
            )
    return pd.DataFrame(rows)


def verdicts(rows: pd.DataFrame) -> str:
    """Return coverage, errors and reports of each device as a text."""
    lines = [
        f"{'device':10}{'fits':>6}{'held':>8}{'error':>9}{'width':>9}{'reported':>10}"
    ]
    parts = [*rows.groupby("device", sort=False)]
    parts.append(("foreign", rows[rows["device"] != RIGHT]))
    for device, part in parts:
        if part.empty:
            continue
        fits = part.drop_duplicates(["device", "seed"])
        lines.append(
            f"{device:10}{len(fits):>6}{100 * part['holds'].mean():>6.1f} %"
            f"{part['error_percent'].median():>7.1f} %"
            f"{part['half_width_percent'].median():>7.1f} %"
            f"{100 * fits['reported'].mean():>8.1f} %"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the seeds that the command line names, beside those that are done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40, help="how many")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--devices", nargs="+", default=DEVICES, choices=DEVICES)
    parser.add_argument("--output", type=Path, default=OUTPUT / "results.jsonl")
    parser.add_argument("--auto", action="store_true", help="the data choose the fit")
    arguments = parser.parse_args()
    parameters = None if arguments.auto else FITTED
    objective._MOST_PAIRS = 2  # neighbours of the simulator: a calibration in seconds
    path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    done = {
        (one["device"], one["seed"])
        for one in map(json.loads, path.read_text().splitlines())
    }
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for device in arguments.devices:
            if (device, seed) in done:
                continue
            row = json.dumps(study(device, seed, parameters))
            with path.open("a") as file:
                file.write(row + "\n")
    print(verdicts(results(path.read_text().splitlines())))


if __name__ == "__main__":
    main()
