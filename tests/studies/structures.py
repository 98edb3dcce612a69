"""Does calibration find the structure of a GFS? ``python tests/studies/structures.py``.

The devices are those of `prediction_intervals.py`: drawn machines whose GFS is as the
model thinks (`right`), has a token bucket at each server (`bucket`), or has a server
with more files than the others (`unequal`). Here the credit of a bucket is used up in
the runs at cache rate 0 %: one that is not cannot be seen. Each device is calibrated
with `parameters: auto`, without structures and with them, and five other cache rates
are predicted. `observed` is `unequal` whose files' servers are known. The study prints
the mean absolute error of the slowest process's I/O time both ways, and how often a
structure was taken.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from prediction_intervals import (  # which knows where the other modules are
    HELD_OUT_PERCENT,
    REPETITIONS,
    ROOT,
    ForeignStorage,
    Plain,
    TokenBucket,
    Truth,
)
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.calibration import objective, structures
from tierscope.model.calibration.fit import calibrate, calibrated
from tierscope.model.calibration.result import LIMIT_PARAMETERS, Calibration
from tierscope.model.predict import SIMULATION, predict

OUTPUT = ROOT / "results" / "studies" / "structures"
DEVICES = ("right", "bucket", "unequal", "observed")
LIMIT = (0.3, 0.7)  # of the rate of a server in a run at 0 %, without the limit
USED_UP = (0.1, 0.6)  # part of that run after which the credit is used up


def study(device: str, seed: int) -> dict[str, Any]:
    """Calibrate on a seed's measurements, without structures and with them."""
    begin = time.time()
    truth = truth_of(device, seed)
    description, data = truth.description, (truth.io_time(), truth.probes())
    expected_s = [truth.expected(rate)[0] for rate in HELD_OUT_PERCENT]
    row = {"device": device, "seed": seed, "drawn": truth.drawn}
    if device == "observed":
        description = replace(description, servers=truth.storage.servers.places)
    for name, found in zip(("without", "with"), both(description, *data), strict=True):
        predicted_s = times_s(calibrated(found.description, found.devices()))
        error = np.abs(predicted_s / expected_s - 1).mean()
        row |= {f"error_{name}_percent": 100 * error, f"said_{name}": found.text()}
    return row | {"taken": taken(found), "seconds": time.time() - begin}


def truth_of(device: str, seed: int) -> Truth:
    """Return the storage of a seed, with a bucket that is used up."""
    truth = Truth("unequal" if device == "observed" else device, seed)
    if device == "bucket":
        described, draw = truth.description, np.random.default_rng([seed, 11])
        n_osts = described.scenario.n_osts
        plain = ForeignStorage(described, Plain(n_osts), truth.drawn["cv"])
        run_s = sum(one.epoch.execution_time_s for one in plain.run(Point(0, 0), seed))
        in_run = described.training.epochs * described.dataset.n_files / n_osts
        in_run *= described.dataset.file_size_bytes
        part = draw.uniform(*LIMIT)
        credit = draw.uniform(*USED_UP) * (1 - part) * in_run
        truth.storage.servers = TokenBucket(n_osts, part * in_run / run_s, credit)
    return truth


def both(
    description: RunDescription, io_time: pd.DataFrame, probes: pd.DataFrame
) -> tuple[Calibration, Calibration]:
    """Return the calibrations without structures and with them."""
    fits, fit = [], structures.fit_what_data_tell

    def noted(*arguments: Any, **options: Any) -> Calibration:
        fits.append(fit(*arguments, **options))
        return fits[-1]

    structures.fit_what_data_tell = noted
    found = calibrate(description, io_time, probes)
    structures.fit_what_data_tell = fit
    if description.servers is None:
        return fits[0], found  # it begins without structures
    return calibrate(description, io_time, probes, tries_structures=False), found


def taken(found: Calibration) -> str:
    """Return the structure that a calibration has, in words."""
    names = {one.name for one in found.parameters}
    words = [found.description.system.devices["gfs"].get("placement", "")]
    words += ["observed"] if found.description.servers is not None else []
    words += ["limit"] if names.issuperset(LIMIT_PARAMETERS) else []
    return " ".join(filter(None, words))


def times_s(description: RunDescription) -> np.ndarray:
    """Return the predicted I/O time of the slowest process at each held-out rate."""
    points = [Point(rate, k) for rate in HELD_OUT_PERCENT for k in range(REPETITIONS)]
    predicted = predict(description, points, SIMULATION)
    runs_s = predicted.groupby(["cache_rate_percent", "repetition", "epoch"])["time_s"]
    return runs_s.sum().groupby("cache_rate_percent").mean().to_numpy()


def verdicts(rows: pd.DataFrame) -> str:
    """Return errors and structures of each device as a text."""
    lines = [f"{'device':10}{'fits':>5}{'without':>10}{'with':>10}  taken"]
    for device, part in rows.groupby("device", sort=False):
        errors = [part[f"error_{name}_percent"].mean() for name in ("without", "with")]
        counts = part["taken"].replace("", "none").value_counts()
        words = ", ".join(f"{name} {count}" for name, count in counts.items())
        lines.append(
            f"{device:10}{len(part):>5}{errors[0]:>8.1f} %{errors[1]:>8.1f} %  {words}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the seeds that the command line names, beside those that are done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40, help="how many")
    parser.add_argument("--devices", nargs="+", default=DEVICES, choices=DEVICES)
    parser.add_argument("--output", type=Path, default=OUTPUT / "results.jsonl")
    arguments = parser.parse_args()
    objective._MOST_PAIRS = 2  # neighbours of the simulator: a calibration in seconds
    path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    done = {(one["device"], one["seed"]) for one in read(path)}
    for seed in range(arguments.seeds):
        for device in arguments.devices:
            if (device, seed) not in done:
                row = json.dumps(study(device, seed))
                with path.open("a") as file:
                    file.write(row + "\n")
    print(verdicts(pd.DataFrame(read(path))))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the results of the finished calibrations."""
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
