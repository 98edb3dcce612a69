import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from snakemake.utils import update_config
from tierscope.core.certificate import LIBRARIES
from tierscope.core.columns import RUN_KEYS
from tierscope.core.scenario import Point
from tierscope.core.tables import write_table
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment import program_sweep
from tierscope.experiment.config import (
    changes,
    defaults_of_programs,
    read_experiment,
    with_own_datasets,
)
from tierscope.experiment.program_sweep import SweepRequest, sweep, sweep_config

ROOT = Path(__file__).parents[3]
COMMAND = ["python", "train.py", "{dataset}"]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Return the request of a user who works in a folder of their own."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("My Data-set.v2", "fast"):
        (tmp_path / name).mkdir()
    return SweepRequest(COMMAND, tmp_path / "My Data-set.v2", tmp_path / "fast")


def experiment_of(config):
    """Return the experiment of a configuration, as the workflow reads it."""
    whole = read_yaml(ROOT / "config" / "config.yaml")
    own = changes([whole, config], whole, {})
    for one in (defaults_of_programs(own), *own):
        update_config(whole, one)
    return read_experiment(with_own_datasets(whole, own), ROOT / "resources")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_results_that_another_user_has_prepared_are_refused(asked):
    """In a folder to which all users may write, such as /tmp."""
    Path("results").symlink_to("../fast")
    os.chown("results", 4321, 4321, follow_symlinks=False)
    Path().chmod(0o1777)
    with pytest.raises(ConfigError, match="results: belongs to user 4321, who can"):
        sweep(asked, "local")
    assert os.listdir("../fast") == []


def test_configuration_is_that_of_a_sweep_of_the_program(asked):
    experiment = experiment_of(sweep_config(asked))
    assert experiment.name == "my_data_set_v2"
    assert experiment.system.name == "one-process"
    assert experiment.system.lfs.root == str(asked.lfs / "tierscope")
    ((scenario, points),) = experiment.sweep.items()
    assert scenario.runs_program
    assert {point.cache_rate_percent for point in points} == {0, 25, 50, 75, 100}
    assert len(points) == 10
    description = experiment.description(scenario)
    assert list(description.program.command) == COMMAND
    assert description.dataset.path == str(asked.dataset)


@pytest.mark.parametrize(
    ("folder", "dataset", "experiment"),
    [
        ("small", "small", "small"),  # a preset
        ("large", "large", "large"),
        ("2012", "2012", "2012"),
        ("1e3", "1e3", "1e3"),  # a number in YAML
        ("null", "null", "null"),
        ("Native", "native", "native_sweep"),  # a folder of ours in results
        ("bench", "bench", "bench_sweep"),
        ("---", "dataset", "dataset"),
        ("A" * 255, "a" * 60, "a" * 60),
        ("$HOME", "home", "home"),
    ],
)
def test_dataset_may_have_any_name(asked, tmp_path, folder, dataset, experiment):
    (tmp_path / folder).mkdir()
    config = sweep_config(replace(asked, dataset=tmp_path / folder))
    experiment_read = experiment_of(yaml.safe_load(yaml.safe_dump(config)))
    assert experiment_read.name == experiment
    ((name, found),) = experiment_read.datasets.items()
    assert (name, found.path) == (dataset, str(tmp_path / folder))


def test_own_dataset_with_what_only_presets_have_is_refused(asked):
    config = sweep_config(asked)
    config["datasets"]["my_data_set_v2"]["n_files"] = 3
    with pytest.raises(ConfigError, match="got path and n_files, expected only one"):
        experiment_of(config)


@pytest.mark.parametrize("made", ["runs/a/cache-000/rep-0/run.json", "tables/x"])
def test_folder_of_something_else_is_refused_and_stays(asked, made):
    path = Path("results/scale-model", made)
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(ConfigError, match=r"^--name: got scale-model, but results/sc"):
        sweep(replace(asked, name="scale-model"), "local")
    assert [one for one in Path("results").rglob("*") if one.is_file()] == [path]


def test_policies_share_the_runs_with_nothing_on_the_lfs(asked):
    policies = ("none", "monarch", "pinning")
    experiment = experiment_of(sweep_config(replace(asked, policies=policies)))
    rates = {
        scenario.policy: sorted({point.cache_rate_percent for point in points})
        for scenario, points in experiment.sweep.items()
    }
    assert rates == {
        "none": [0],
        "monarch": [25, 50, 75, 100],
        "pinning": [25, 50, 75, 100],
    }
    assert experiment.settings["figures"]["scenario"]["policy"] == "monarch"
    (monarch,) = (one for one in experiment.sweep if one.policy == "monarch")
    options = experiment.description(monarch).policy_options
    assert set(options) == {"copy_threads", "stop"}


def test_relative_paths_are_those_of_the_users_folder(asked):
    dataset, lfs = (Path(os.path.relpath(one)) for one in (asked.dataset, asked.lfs))
    config = sweep_config(replace(asked, dataset=dataset, lfs=lfs))
    assert config == sweep_config(asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lfs": None}, "got neither of --lfs DIRECTORY and --system NAME, expected"),
        ({"system": "cluster"}, "got both of --lfs DIRECTORY and --system NAME"),
        ({"command": []}, "got no command; write it behind --"),
        ({"dataset": Path("/no/such")}, "--dataset: got /no/such, expected a folder"),
        ({"lfs": Path("/no/such")}, "--lfs: got /no/such, expected a directory"),
        ({"policies": ["adhoc"]}, "--policies: got adhoc, expected some of none, pin"),
        ({"name": "a b"}, "--name: got 'a b', expected "),
        (
            {"policies": ["none"], "cache_rates_percent": [0, 50]},
            "--rates: got 0 50 with --policies none, which holds nothing",
        ),
        (
            {"policies": ["lru"], "ideal": Path("/dev/shm"), "predicts": True},
            "--predict: got --policies lru, expected pinning among them",
        ),
    ],
)
def test_wrong_request_is_refused_in_a_line(asked, change, message):
    with pytest.raises(ConfigError) as error:
        sweep_config(replace(asked, **change))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_lfs_in_the_dataset_is_refused(asked):
    (asked.dataset / "fast").mkdir()
    with pytest.raises(ConfigError, match="which is in the dataset, expected another"):
        sweep_config(replace(asked, lfs=asked.dataset / "fast"))


def test_folder_that_would_be_read_as_a_variable_is_refused(asked, tmp_path):
    (tmp_path / "$HOME").mkdir()
    with pytest.raises(ConfigError, match=r"\$HOME/tierscope, expected folders"):
        sweep_config(replace(asked, lfs=tmp_path / "$HOME"))


def test_sweep_starts_snakemake_with_the_configuration_that_it_wrote(
    asked, monkeypatch
):
    calls = []

    def run(command, _):
        calls.append([str(word) for word in command])
        return 5

    monkeypatch.setattr(program_sweep, "run_passing_signals", run)
    assert sweep(asked, "local", ["-n"]) == 5
    ((*_, flag, written),) = calls
    assert flag == "--configfile"
    assert yaml.safe_load(Path(written).read_text()) == sweep_config(asked)
    assert calls[0][1:3] == ["-X", "utf8"]
    assert calls[0][4] == "-n"
    assert calls[0][6:9] == [
        str(ROOT / "Snakefile"),
        "--profile",
        str(ROOT / "profiles" / "local"),
    ]


@pytest.mark.parametrize("repetitions", [0, -1, 10**20])
def test_repetitions_that_cannot_be_are_refused_as_an_option(asked, repetitions):
    words = f"--repetitions: got {repetitions}, expected integer from 1 to 1000"
    with pytest.raises(ConfigError, match=f"^{words}$"):
        sweep_config(replace(asked, repetitions=repetitions))


def test_logger_is_told_the_option_of_each_key_that_the_user_gives(asked, monkeypatch):
    told = []

    def run(command, environment):
        told.append(json.loads(environment["TIERSCOPE_OPTIONS"]))
        return 0

    monkeypatch.setattr(program_sweep, "run_passing_signals", run)
    (asked.lfs / "memory").mkdir()
    given = replace(asked, ideal=asked.lfs / "memory", predicts=False)
    sweep(given, "local", ["-n"])
    ((options),) = told
    assert options["datasets.my_data_set_v2.path"] == "--dataset"
    options = {key for key in options if not key.endswith(": true")}
    for key in options:
        section = sweep_config(given)
        for name in key.split("."):
            section = section[name]
    assert "TIERSCOPE_OPTIONS" not in os.environ


class Starts:
    """Starts of Snakemake by their targets; the first run says why not to predict."""

    def __init__(self, refusal="", failing=None):
        self.refusal, self.failing, self.made = refusal, failing, []

    def __call__(self, command, environment):
        end = command.index("--snakefile")
        targets = [str(word) for word in command[4:end]]
        self.made.append(targets)
        if "refusals" in targets[0]:
            path = Path(targets[0])
            path.parent.mkdir(parents=True)
            path.write_text(self.refusal)
            self.first = read_yaml(command[-1])["sweep"]
        return int(targets == self.failing)


FIRST = ["results/mine/refusals/my_data_set_v2-0ost-pinning-program.txt"]
PLAN = ["all", "predict", "-n", "--quiet", "all"]


@pytest.mark.parametrize(
    ("starts", "made", "status"),
    [
        (Starts(), [PLAN, FIRST, ["all"], ["predict"]], 0),
        (Starts("program x: got 2."), [PLAN, FIRST, ["all"]], 1),
        (Starts(failing=PLAN), [PLAN], 1),
        (Starts(failing=FIRST), [PLAN, FIRST], 1),
        (Starts(failing=["all"]), [PLAN, FIRST, ["all"]], 1),
        (Starts(failing=["predict"]), [PLAN, FIRST, ["all"], ["predict"]], 1),
    ],
)
def test_prediction_that_is_refused_by_the_first_run_leaves_the_report(
    asked, monkeypatch, capsys, starts, made, status
):
    (asked.lfs / "memory").mkdir()
    given = replace(asked, name="mine", ideal=asked.lfs / "memory", predicts=True)
    given = replace(given, policies=["none", "pinning"], cache_rates_percent=[0, 30, 9])
    monkeypatch.setattr(program_sweep, "run_passing_signals", starts)
    assert sweep(given, "local") == status
    assert starts.made == made
    if FIRST in made:
        assert starts.first["cache_rates_percent"] == [9]
        assert (starts.first["repetitions"], starts.first["ideal"]) == (1, False)
        experiment_of(read_yaml("results/mine/first-run.yaml"))
    said = capsys.readouterr().err
    assert said == f"tierscope sweep: --predict: {starts.refusal}\n" * bool(
        starts.refusal
    )


def test_first_run_is_one_of_the_sweep(asked):
    (asked.lfs / "memory").mkdir()
    given = replace(asked, ideal=asked.lfs / "memory", policies=["monarch", "pinning"])
    whole, one = map(
        experiment_of, (sweep_config(given), program_sweep._first_run(given))
    )
    ((scenario, (point,)),) = one.sweep.items()
    assert point in whole.sweep[scenario]
    assert one.description(scenario).hash == whole.description(scenario).hash


def test_sweep_ends_with_the_certificate_of_its_runs(asked, monkeypatch, capsys):
    row = {**dict.fromkeys(RUN_KEYS, "x"), "n_osts": 0, "source": "measured"}
    row |= {"loader": "program", "policy": "pinning", "repetition": 0}
    row |= {"statement": LIBRARIES, "answer": "no", "words": "liba.so in 1 of 1."}
    rows = [row | {"cache_rate_percent": rate} for rate in (0, 50)]

    def run(command, _):
        table = Path("results/my_data_set_v2/tables/certificate.parquet")
        write_table(pd.DataFrame(rows), table, "certificate")
        return 0

    monkeypatch.setattr(program_sweep, "run_passing_signals", run)
    assert sweep(asked, "local", ["-n"]) == 0
    assert capsys.readouterr().err == ""
    assert sweep(asked, "local") == 0
    assert capsys.readouterr().err == (
        "tierscope sweep: certificate: no foreign preload library: no in 2 of 2 runs "
        "(in words: report, results/my_data_set_v2/tables/certificate.parquet).\n"
    )


def test_runs_of_another_program_are_named_and_their_configuration_stays(
    asked, monkeypatch
):
    monkeypatch.setattr(program_sweep, "run_passing_signals", lambda *_: 0)
    sweep(asked, "local")
    written = Path("results/my_data_set_v2/sweep.yaml")
    before = written.read_text()
    other = replace(asked, command=["python", "other.py", "{dataset}"])
    run = written.parent / "runs" / "one" / "cache-000" / "rep-0" / "run.json"
    run.parent.mkdir(parents=True)
    run.write_text("{}")
    with pytest.raises(ConfigError, match=r"--name: got .*train.py.*other.py"):
        sweep(other, "local")
    assert written.read_text() == before
    assert sweep(replace(asked, minutes=5, repetitions=3), "local") == 0


def test_profile_that_the_clone_lacks_is_snakemakes_to_find(asked, monkeypatch):
    calls = []
    monkeypatch.setattr(
        program_sweep,
        "run_passing_signals",
        lambda command, _: calls.append(command) or 0,
    )
    sweep(asked, "mine")
    assert calls[0][calls[0].index("--profile") + 1] == "mine"


def test_results_are_no_folder_that_all_users_may_change(asked, monkeypatch):
    monkeypatch.setattr(program_sweep, "run_passing_signals", lambda *_: 0)
    before = os.umask(0)
    try:
        sweep(asked, "local")
    finally:
        os.umask(before)
    assert Path("results").stat().st_mode & 0o777 == 0o775


def test_defaults_of_programs_need_a_command_and_take_any_faults():
    assert defaults_of_programs([{"loader": {"command": None}}]) == {}
    assert defaults_of_programs([{"loader": 3, "sweep": None}]) == {}
    own = [{"datasets": {"mine": {}}}, {"loader": {"command": ["x"]}}]
    found = defaults_of_programs(own)
    assert found["sweep"]["datasets"] == ["mine"]
    assert found["figures"]["scenario"]["dataset"] == "mine"
    named = defaults_of_programs([*own, {"sweep": {"datasets": ["other"]}}])
    assert named["sweep"]["datasets"] == ["other"]


def test_changes_are_all_files_but_the_defaults():
    defaults, mine = {"a": 1}, {"a": 2}
    assert changes([defaults, mine], defaults, {"a": 3}) == [mine]
    # A workflow that imports this one has no file of defaults.
    assert changes([mine], defaults, {"a": 3}) == [{"a": 3}]


def test_ideal_runs_are_in_the_directory_that_the_user_gives(asked, tmp_path):
    (tmp_path / "memory").mkdir()
    given = replace(asked, policies=("none", "monarch"), ideal=tmp_path / "memory")
    experiment = experiment_of(sweep_config(given))
    own = f"{tmp_path}/memory/tierscope-{os.getuid()}"
    assert experiment.system.ideal_root == own
    ((scenario, points),) = experiment.sweeps["ideal"].items()
    assert scenario.name == "my_data_set_v2-0ost-pinning-program+ideal"
    assert points == (Point(100, 0), Point(100, 1))
    with pytest.raises(ConfigError, match=r"^--ideal: got none, expected a directory"):
        sweep_config(replace(asked, ideal=Path("none")))
    cluster = replace(asked, lfs=None, system="cluster", ideal=Path("/run/user/me"))
    assert sweep_config(cluster)["roots"] == {"ideal": "/run/user/me"}
