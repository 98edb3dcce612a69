"""Predict systems that nobody has seen: ``python tests/studies/unseen_systems.py``.

Draws machines from stated ranges, seeded: OST counts, processes, service times. Runs
target `predict` on an emulated scale model of each, with the default calibrations, and
compares the errors of the simulation with the goals. The calibration does not look at
the drawn values, but it keeps them where the data do not tell a parameter. So each
system is calibrated again on the same runs with a system file in which all values are
wrong by a factor of up to ten (column "wrong file").
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

from snakemake.utils import update_config  # noqa: E402
from tierscope.analysis.breakdown import slowest_process  # noqa: E402
from tierscope.core.description import RunDescription  # noqa: E402
from tierscope.core.scenario import Point  # noqa: E402
from tierscope.core.tables import read_table, read_tables  # noqa: E402
from tierscope.experiment.config import read_experiment  # noqa: E402
from tierscope.model.calibration.fit import calibrate, calibrated  # noqa: E402
from tierscope.model.calibration.result import PARAMETERS  # noqa: E402
from tierscope.model.calibration.starting_values import with_values  # noqa: E402
from tierscope.model.predict import SIMULATION, predict  # noqa: E402

OUTPUT = ROOT / "results" / "studies" / "unseen-systems"
MEDIAN_GOAL_PERCENT, WORST_GOAL_PERCENT = 3, 8
RATES = list(range(0, 101, 10))
WRONG = 10.0  # largest factor by which the wrong file errs
# Ranges of the drawn values, equally likely by their logarithms.
GFS = {
    "open_s": (1e-5, 2e-4),
    "close_s": (2e-6, 5e-5),
    "metadata_latency_s": (2e-4, 1e-2),
    "ost_bandwidth_bytes_per_s": (2e8, 5e9),
    "read_latency_s": (2e-4, 5e-3),
    "link_bytes_per_s": (1e10, 2e11),
}
LFS = {"request_s": (2e-5, 3e-3), "latency_s": (5e-5, 5e-3)}
PROCESSES = (64, 256, 1024, 3072)
MOST_OSTS = (12, 96)
FIRST = (24, 3)  # OST counts of the first system, on which `predict` once failed


def machine(number: int) -> tuple[dict[str, Any], list[int]]:
    """Return the system file of a machine and the OST counts of its sweep."""
    generator = np.random.default_rng(number)

    def draw(ranges: dict[str, tuple[float, float]]) -> dict[str, float]:
        return {
            name: float(np.exp(generator.uniform(*np.log(ends))))
            for name, ends in ranges.items()
        }

    most = int(generator.integers(*MOST_OSTS, endpoint=True))
    few = int(generator.integers(1, most // 3, endpoint=True))
    n_osts = [most, few] if number else list(FIRST)
    n_processes = int(generator.choice(PROCESSES))
    devices = {
        "origin": "drawn",
        "gfs": {"n_osts": max(n_osts), "request_bytes": 1048576} | draw(GFS),
        "lfs": {"request_bytes": 131072, "processes_per_server": 16} | draw(LFS),
    }
    system = {
        "description": f"Machine {number}, drawn",
        "n_nodes": n_processes // 4,
        "processes_per_node": 4,
        "virtual_nodes": False,
        "points_per_launch": 1,
        "gfs": {"kind": "lustre", "root": "/gfs", "n_osts": max(n_osts)},
        "lfs": {"kind": "directory", "root": "/lfs"},
        "devices": devices,
    }
    return system, n_osts


def prepare(number: int, folder: Path) -> dict[str, Any]:
    """Write system files and configuration of a machine; return the configuration."""
    system, n_osts = machine(number)
    name = f"drawn-{number}"
    emulated = {tier: {"kind": "emulated", "root": f"scratch/{tier}"} for tier in TIERS}
    model = emulated | {
        "description": f"Machine {number} in small",
        "n_nodes": 2,
        "processes_per_node": 4,
        "virtual_nodes": True,
        "points_per_launch": "all",
        "emulation": {"model_of": f"{name}-machine", "processes_per_lfs_server": 4},
    }
    systems = folder / "resources" / "systems"
    systems.mkdir(parents=True, exist_ok=True)
    for stem, content in ((name, model), (f"{name}-machine", system)):
        (systems / f"{stem}.yaml").write_text(yaml.safe_dump(content))
    config = {
        "experiment": name,
        "system": name,
        "sweep": {
            "datasets": ["small"],
            "n_osts": n_osts,
            "loaders": ["posix"],
            "cache_rates_percent": RATES,
            "repetitions": 1,
        },
        "datasets": {"small": {"n_files": 384}},
        "training": {"epochs": 1},
        "whatif": {"goal": {"seconds": None}},
        "figures": {"epoch": 0, "scenario": {"n_osts": max(n_osts), "loader": "posix"}},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return config


TIERS = ("gfs", "lfs")


def run_study(name: str, folder: Path) -> str:
    """Run target `predict`; return why it failed, empty if it did not."""
    command = [Path(sys.executable).parent / "snakemake", "predict"]
    command += ["--snakefile", ROOT / "Snakefile"]
    command += ["--profile", ROOT / "profiles" / "local"]
    command += ["--configfile", f"{name}.yaml"]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{command[0].parent}:{os.environ['PATH']}"},
        check=False,
    )
    text = done.stdout + done.stderr
    return "" if done.returncode == 0 else "\n".join(text.splitlines()[-12:])


def errors_with_a_wrong_file(
    number: int, config: dict[str, Any], folder: Path
) -> list[float]:
    """Return the MAPE of each scenario, calibrated from a file with wrong values."""
    merged = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    update_config(merged, config)
    resources = folder / "resources", ROOT / "resources"
    experiment = read_experiment(merged, *resources)
    results = folder / "results" / config["experiment"]
    plan = experiment.calibration("all-osts")
    runs = results / "runs"
    fitted = wrong_file(number, experiment.model_description(plan.scenario))
    result = calibrate(
        fitted,
        read_tables(
            [
                runs / plan.scenario.name / point.path / "io_time.parquet"
                for point in plan.points
            ],
            "io_time",
        ),
        read_tables(
            [
                results / "probes" / f"small-{n_osts}ost" / "probes.parquet"
                for n_osts in plan.probed_n_osts
            ],
            "probes",
        ),
    )
    io_time = read_table(results / "predict" / "io_time.parquet", "io_time")
    errors = []
    for scenario in experiment.sweeps["predict"]:
        rates = set(RATES)
        if scenario == plan.scenario:
            rates -= set(plan.calibrated_percent)
        truth = slowest_process(io_time[io_time["n_osts"] == scenario.n_osts])
        truth_s = truth.groupby("cache_rate_percent")["io_time_s"].mean()
        description = wrong_file(number, experiment.model_description(scenario))
        predicted = predict(
            calibrated(description, result.devices()),
            [Point(rate, 0) for rate in sorted(rates)],
            SIMULATION,
        )
        by_rate = predicted.groupby(["cache_rate_percent", "epoch"])["time_s"].sum()
        predicted_s = by_rate.groupby("cache_rate_percent").mean()
        errors.append(float(100 * (predicted_s / truth_s - 1).abs().mean()))
    return errors


def wrong_file(number: int, description: RunDescription) -> RunDescription:
    """Return a description whose system file errs in all values that can be fitted."""
    generator = np.random.default_rng([number, 1])
    wrong = {}
    for name in PARAMETERS:
        tier, key = name.split(".")
        factor = WRONG ** generator.uniform(-1, 1)
        wrong[name] = description.system.devices[tier][key] * factor
    return with_values(description, wrong)


def study(number: int, folder: Path) -> list[dict[str, Any]]:
    """Run and judge a machine: a row for each OST count."""
    config = prepare(number, folder)
    name = config["experiment"]
    if refusal := run_study(name, folder):
        print(f"{name}: REFUSED\n{refusal}", flush=True)
        return [{"system": name, "refused": refusal}]
    results = folder / "results" / name
    table = read_table(
        results / "predict/prediction_errors.parquet", "prediction_errors"
    )
    rows = table[(table["model"] == SIMULATION) & (table["calibration"] == "all-osts")]
    found = read_table(results / "model/all-osts/calibration.parquet", "calibration")
    others = found[found["status"] != "fitted"]
    wrong = errors_with_a_wrong_file(number, config, folder)
    made = []
    for row, with_wrong_file in zip(rows.to_dict("records"), wrong, strict=True):
        made.append(
            {
                "system": name,
                "n_osts": row["n_osts"],
                "mape_percent": row["mape_percent"],
                "largest_error_percent": row["largest_error_percent"],
                "wrong_file_mape_percent": with_wrong_file,
                "best_predicted_percent": row["best_predicted_percent"],
                "best_measured_percent": row["best_measured_percent"],
                "best_within_one_step": row["best_within_one_step"],
                "not_fitted": ", ".join(others["parameter"] + " " + others["status"]),
                "refused": "",
            }
        )
        print(line_of(made[-1]), flush=True)
    return made


def line_of(row: dict[str, Any]) -> str:
    """Return the line of the table on the screen."""
    return (
        f"{row['system']:10}{row['n_osts']:5} OSTs  MAPE {row['mape_percent']:5.2f} %, "
        f"largest {row['largest_error_percent']:5.2f} %, with a wrong file "
        f"{row['wrong_file_mape_percent']:5.2f} %, best rate "
        f"{row['best_predicted_percent']} / {row['best_measured_percent']} %"
        f"  {row['not_fitted']}"
    )


def verdicts(rows: pd.DataFrame) -> list[str]:
    """Return what came out beside the goals."""
    refused = rows["refused"] != ""
    done = rows[~refused]
    lines = [f"{refused.sum()} of {rows['system'].nunique()} systems refused (goal: 0)"]
    for column, words in (
        ("mape_percent", "MAPE of the simulation"),
        ("wrong_file_mape_percent", "the same with a wrong system file"),
    ):
        median, worst = statistics.median(done[column]), done[column].max()
        lines.append(
            f"{words}: median {median:.2f} % (goal: {MEDIAN_GOAL_PERCENT}), worst "
            f"{worst:.2f} % (goal: {WORST_GOAL_PERCENT})"
        )
    right = done["best_within_one_step"].sum()
    lines.append(
        f"best rate within a step in {right} of {len(done)} sweeps (goal: all)"
    )
    return lines


def main() -> None:
    """Run the study of the machines that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="first machine")
    parser.add_argument("--systems", type=int, default=20, help="how many")
    parser.add_argument("--folder", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.systems)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = [row for number in numbers for row in study(number, arguments.folder)]
    table = pd.DataFrame(rows)
    table.to_csv(arguments.folder / "unseen-systems.csv", index=False)
    print("\n".join(verdicts(table)))


if __name__ == "__main__":
    main()
