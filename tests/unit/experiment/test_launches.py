"""Which launches the runs need, asked by the existence of files only."""

from dataclasses import replace
from pathlib import Path

import pytest
from snakemake.utils import update_config
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import read_yaml
from tierscope.experiment import launches as module
from tierscope.experiment.config import read_experiment
from tierscope.experiment.launches import (
    missing_launches,
    run_folder,
    wait_until_seen,
)
from tierscope.policies import kind_of

ROOT = Path(__file__).parents[3]
PINNING = Scenario("small", 60, "pinning", "tensorflow")
LRU = Scenario("small", 60, "lru", "tensorflow")


def experiment(rates=(0, 50, 100), policies=("pinning",), repetitions=1, **others):
    """Return an experiment of one dataset on the scale model."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    sweep = {"datasets": ["small"], "n_osts": [60], "policies": list(policies)}
    sweep |= {"cache_rates_percent": list(rates), "repetitions": repetitions}
    config["sweep"] |= sweep
    config["model"]["calibration"] = None
    config["figures"]["scenario"]["policy"] = policies[0]
    update_config(config, others)
    return replace(read_experiment(config, ROOT / "resources"), studies={})


def finish(results, scenario, *rates, repetition=0):
    """Make the files of runs, empty."""
    for rate in rates:
        folder = run_folder(results, scenario, Point(rate, repetition))
        folder.mkdir(parents=True, exist_ok=True)
        for name in kind_of(scenario).files:
            (folder / name).touch()


def one_launch(planned, results):
    """Return the only launch, and the cache rates that it measures."""
    (launch,) = set(missing_launches(planned, results).values())
    return launch, [point.cache_rate_percent for point in launch.missing]


def end(results, launch):
    """Write the marker of a launch."""
    marker = results / launch.marker
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()


def test_launch_measures_the_points_without_a_run(tmp_path):
    launch, rates = one_launch(experiment(), tmp_path)
    assert rates == [0, 50, 100]
    assert launch.marker == f"launches/{PINNING.name}/cache-000_rep-0/1.txt"
    finish(tmp_path, PINNING, 0, 100)
    launch, rates = one_launch(experiment(), tmp_path)
    assert rates == [50]
    assert [point.cache_rate_percent for point in launch.points] == [0, 50, 100]


def test_finished_runs_need_no_launch(tmp_path):
    finish(tmp_path, PINNING, 0, 50, 100)
    assert missing_launches(experiment(), tmp_path) == {}


@pytest.mark.parametrize("scenario", [PINNING, LRU])
def test_run_without_one_of_its_files_is_missing(tmp_path, scenario):
    for name in kind_of(scenario).files:
        finish(tmp_path, scenario, 50, 100)
        (run_folder(tmp_path, scenario, Point(50, 0)) / name).unlink()
        planned = experiment((50, 100), [scenario.policy])
        assert one_launch(planned, tmp_path)[1] == [50], name


def test_launch_that_failed_is_started_again_with_the_same_marker(tmp_path):
    first, _ = one_launch(experiment(), tmp_path)
    finish(tmp_path, PINNING, 0, 50)  # moved, although the launch failed at the third
    again, rates = one_launch(experiment(), tmp_path)
    assert again.marker == first.marker
    assert rates == [100]


def test_marker_of_runs_that_were_deleted_ends_no_new_launch(tmp_path):
    first, _ = one_launch(experiment(), tmp_path)
    end(tmp_path, first)
    second, _ = one_launch(experiment(), tmp_path)
    assert second.marker == first.marker.replace("1.txt", "2.txt")
    end(tmp_path, second)
    assert one_launch(experiment(), tmp_path)[0].nth == 3


def test_grown_sweep_measures_only_what_is_new(tmp_path):
    end(tmp_path, one_launch(experiment(), tmp_path)[0])
    finish(tmp_path, PINNING, 0, 50, 100)
    launch, rates = one_launch(experiment((0, 25, 50, 75, 100)), tmp_path)
    assert rates == [25, 75]
    assert launch.nth == 2


def test_job_finds_its_launch_while_others_finish(tmp_path):
    planned = experiment()
    launch, _ = one_launch(planned, tmp_path)
    finish(tmp_path, PINNING, 0, 50)  # by another job, after the start
    rate = int(launch.wildcards["cache_rate"])
    scenario = planned.scenario(launch.wildcards["scenario"])
    point = Point(rate, int(launch.wildcards["repetition"]))
    assert planned.launch_of(scenario, point) == launch.points


def test_each_repetition_on_real_tiers_has_a_launch(tmp_path):
    planned = experiment(
        repetitions=2,
        system="laptop",
        sweep={"n_osts": [0]},
        figures={"scenario": {"n_osts": 0}},
    )
    launches = set(missing_launches(planned, tmp_path).values())
    assert sorted(len(launch.points) for launch in launches) == [3, 3]
    assert len({launch.marker for launch in launches}) == 2


def test_file_that_a_shared_file_system_shows_late_is_awaited(tmp_path, monkeypatch):
    late = tmp_path / "runs" / "run.json"

    def sleep(_):
        late.parent.mkdir(exist_ok=True)
        late.touch()

    monkeypatch.setattr(module.time, "sleep", sleep)
    wait_until_seen(late)
    assert late.exists()


def test_file_that_does_not_come_is_given_up(tmp_path, monkeypatch):
    times_s = iter([0.0, 1.0, 61.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times_s))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    wait_until_seen(tmp_path / "run.json")
    assert next(times_s, None) is None
