"""Which files of runs rules name: those of a kind, a source, a sweep, a launch."""

from pathlib import Path

import pytest
from small_experiments import of_program, runs_of, small_experiment, wildcards
from tierscope.core.scenario import IDEAL_SWEEP, Point
from tierscope.core.validation import ConfigError
from tierscope.experiment.launches import run_folder
from tierscope.experiment.planned.runs import of_runs, point_of
from tierscope.policies import kind_of

PINNING, LRU = "small-60ost-pinning-tensorflow", "small-60ost-lru-tensorflow"
LMDB = "small-60ost-pinning-lmdb"
SEVERAL = {"policies": ["pinning", "lru", "adhoc"]}
RATE_50 = {"cache_rate": "050", "repetition": 0}


def names(paths, folder="results/x/tables"):
    """Return the names of tables, all of which are in a folder."""
    assert {str(Path(path).parent) for path in paths} <= {folder}
    return [Path(path).stem for path in paths]


def finish(experiment, results, *rates):
    """Make the files of runs of the sweep, empty."""
    for scenario in experiment.sweep:
        for rate in rates:
            folder = run_folder(results, scenario, Point(rate, 0))
            folder.mkdir(parents=True)
            for name in kind_of(scenario).files:
                (folder / name).touch()


def test_a_file_of_each_run_of_a_sweep_or_of_some_scenarios():
    runs = runs_of(small_experiment(sweep=SEVERAL))
    assert len(runs.files("run.json")) == 6
    assert runs.files("run.json", "predict") == [
        f"results/x/runs/{PINNING}/cache-{rate}/rep-0/run.json"
        for rate in ("000", "050")
    ]
    assert len(runs.files("x", which=lambda one: one.policy == "lru")) == 2
    assert runs.files("run.json", IDEAL_SWEEP) == []
    assert not runs.has_ideal
    assert {Point(0, 0), Point(80, 2)} <= runs.points  # of studies, too
    assert of_runs(["a", "b"], "c") == ["a/c", "b/c"]
    assert point_of(wildcards(**RATE_50)) == Point(50, 0)


def test_the_marker_of_a_launch_stands_for_its_missing_runs(tmp_path):
    experiment = small_experiment()
    finish(experiment, tmp_path, 50)
    runs = runs_of(experiment, tmp_path)
    first, second = runs.files("run.json")
    marker = f"{tmp_path}/launches/{PINNING}/cache-000_rep-0/1.txt"
    assert runs.launched([first, second]) == [marker, second]
    assert runs.launched(runs.files("log.darshan"))[0] == marker
    of_run = runs.of_run("run.json")
    assert of_run(wildcards(scenario=PINNING, **RATE_50)) == second
    assert runs.of_launches([first])(None) == [marker]
    audits = runs.files("audit.json")
    assert runs.launched(audits) == audits  # of later jobs
    finish_first = Path(first)
    finish_first.parent.mkdir(parents=True)
    finish_first.touch()
    assert runs.launched([first]) == [first]


def test_after_a_launch_its_runs_are_named(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "tierscope.experiment.planned.runs.launches.wait_until_seen", seen.append
    )
    runs = runs_of(small_experiment(), tmp_path)
    first, _ = runs.files("run.json")
    (marker,) = runs.launched([first])
    Path(marker).parent.mkdir(parents=True)
    Path(marker).touch()
    assert runs.launched([first]) == [first]
    assert seen == [Path(first)]


def test_tables_of_runs_are_those_of_their_kinds():
    runs = runs_of(small_experiment(sweep=SEVERAL))
    of_sweep = runs.of_sweep("background.parquet", "background")
    (marker,) = of_sweep(wildcards(sweep="tables"))[:1]
    assert "background" in marker  # made by a later job
    assert f"/{LRU}/" in marker
    assert len(runs.of_sweep("epochs.parquet")(wildcards(sweep="tables"))) == 3
    assert runs.of_table("run.json", "peers", "tables") == [
        f"results/x/runs/small-60ost-adhoc-tensorflow/cache-{rate}/rep-0/run.json"
        for rate in ("000", "050")
    ]
    scenario = runs.experiment.scenario(LRU)
    assert runs.tables_of_kind(scenario, ["a", "b"]) == of_runs(
        "ab", "decisions.parquet"
    )
    assert runs.run_tables(wildcards(scenario=PINNING, **RATE_50)) == []
    (of_launch,) = runs.run_tables(wildcards(scenario=LRU, **RATE_50))
    assert of_launch.endswith(f"launches/{LRU}/cache-000_rep-0/1.txt")


def test_sums_are_those_that_a_kind_of_run_has():
    runs = runs_of(small_experiment(sweep=SEVERAL))
    assert names(runs.summed("background", "other_io")) == ["background"]
    assert names(runs.peer_tables()) == ["stage_in", "peers"]
    assert runs.summed("background", sweep="predict") == []
    assert runs.summed("background", sweep="none such") == []
    plain = runs_of(small_experiment())
    assert plain.summed("background") == plain.peer_tables() == []
    assert plain.program_tables() == []


def test_observations_are_those_of_real_tiers_and_of_programs():
    assert runs_of(small_experiment()).observations() == []
    simulated = runs_of(small_experiment(simulate=True))
    assert simulated.observations() == []
    laptop = runs_of(small_experiment("laptop"))
    assert names(laptop.observations()) == ["verdicts", "drift"]
    predicted = laptop.observations("predict")
    assert names(predicted, "results/x/predict") == ["verdicts", "drift"]
    program = runs_of(of_program("pinning", "lru"))
    assert names(program.observations()) == ["verdicts", "drift", "statements"]


def test_a_program_has_tables_and_a_certificate():
    runs = runs_of(of_program("pinning"))
    told = ["other_io", "other_time", "statements", "certificate"]
    assert names(runs.program_tables()) == told
    assert runs.log == "logs"
    assert runs_of(small_experiment()).log == "log.darshan"


def test_simulated_runs_have_no_audits_by_themselves():
    measured, simulated = small_experiment(), small_experiment(simulate=True)
    assert runs_of(measured).if_measured(["a"]) == ["a"]
    assert runs_of(simulated).if_measured(["a"]) == []
    assert runs_of(measured).simulated == []
    assert runs_of(simulated).simulated == [
        f"results/x/runs/{PINNING}/cache-000/rep-0/run.json"
    ]


@pytest.mark.parametrize(
    ("policies", "sums"),
    [
        (["pinning"], ["other_io", "other_time", "statements"]),
        (["pinning", "lru"], ["other_io", "other_time", "statements", "background"]),
        (["lru"], ["other_io", "other_time", "statements", "background"]),
    ],
)
def test_the_audit_of_a_program_sums_up_its_logs(policies, sums):
    assert runs_of(of_program(*policies)).sums == sums
    assert runs_of(small_experiment(sweep=SEVERAL)).sums == []


def test_runs_without_a_log_are_not_audited():
    sweep = {"policies": ["pinning", "lru"]}
    runs = runs_of(small_experiment(sweep=sweep, simulate=True))
    assert all(PINNING in path for path in runs.audits())
    assert len(runs.audits()) == 2
    assert len(runs_of(small_experiment(sweep=sweep)).audits()) == 4


@pytest.mark.parametrize(
    ("sweep", "scenario", "words"),
    [
        (
            {"policies": ["pinning", "lru"]},
            LRU,
            "policy lru: simulated runs have no log, and so no audit, if files move "
            "while they run or are read from other nodes",
        ),
        (
            {"loaders": ["tensorflow", "lmdb"], "n_osts": [1]},
            LMDB.replace("60", "1"),
            "loader lmdb: simulated runs have no log, and so no audit, if samples are "
            "records of a database",
        ),
    ],
)
def test_the_log_of_a_simulated_run_is_refused_where_nobody_can_write_it(
    sweep, scenario, words
):
    shown = {"scenario": {"n_osts": sweep.get("n_osts", [60])[0]}}
    runs = runs_of(small_experiment(sweep=sweep, simulate=True, figures=shown))
    with pytest.raises(ConfigError) as refused:
        runs.logged_manifest(wildcards(scenario=scenario))
    assert str(refused.value) == words
    ours = next(one.name for one in runs.experiment.sweep if one.name != scenario)
    manifest = runs.logged_manifest(wildcards(scenario=ours))
    assert manifest == runs.manifest(wildcards(scenario=ours))


def test_each_kind_of_dataset_has_its_manifest():
    runs = runs_of(small_experiment(sweep={"loaders": ["tensorflow", "lmdb"]}))
    folder = "results/x/datasets/small-60ost"
    assert runs.manifest(wildcards(scenario=PINNING)) == f"{folder}.parquet"
    assert runs.manifest(wildcards(scenario=LMDB)) == f"{folder}-lmdb.parquet"
    program = runs_of(of_program("pinning"))
    (scenario,) = program.experiment.sweep
    listed = "results/x/datasets/small-0ost-files.parquet"
    assert program.manifest_of(scenario) == listed


def test_the_servers_of_an_emulated_gfs_are_known():
    runs = runs_of(small_experiment())
    assert runs.n_object_servers(wildcards(n_osts=60)) == 1
    laptop = runs_of(small_experiment("laptop"))
    assert laptop.n_object_servers(wildcards(n_osts=0)) is None


def test_the_description_of_a_run_is_that_of_the_experiment():
    runs = runs_of(small_experiment())
    (scenario,) = runs.experiment.sweep
    wanted = runs.experiment.description(scenario).as_json()
    assert runs.description(wildcards(scenario=PINNING)) == wanted
