"""What a start of Snakemake refuses, says and leaves behind."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.core.imports import digest_of_modules
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment import start as module
from tierscope.experiment.config import read_experiment
from tierscope.experiment.launches import missing_launches
from tierscope.experiment.planned import measurement
from tierscope.experiment.snakemake_internals import SnakemakeJob
from tierscope.experiment.start import Start, StartError, make_torn_again, start_alone

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "workflow" / "scripts"


class Internals:
    """A Snakemake that answers what a test says."""

    def __init__(self, **answers):
        self.answers, self.marked = answers, []

    def __getattr__(self, name):
        return lambda: self.answers[name]

    def when_a_job_fails(self, step):
        self.fail = step

    def jobs_after(self, failed):
        return self.answers[failed]

    def mark_unfinished(self, job):
        if job.original == "unwritable":
            raise OSError(28, "No space left on device")
        self.marked.append(job)


class Site:
    """A start in an empty folder, and what it says."""

    def __init__(self, folder, system="laptop", **sections):
        config = read_yaml(ROOT / "config" / "config.yaml")
        config["system"] = system
        n_osts = [0] if system == "laptop" else [60]
        config["sweep"] |= {"datasets": ["small"], "n_osts": n_osts}
        config["sweep"] |= {"cache_rates_percent": [0, 50], "repetitions": 1}
        config["figures"]["scenario"]["n_osts"] = n_osts[0]
        config |= sections
        self.experiment = read_experiment(config, ROOT / "resources")
        self.results, self.told, self.warned = folder, [], []

    def start(self, **answers):
        """Return the start of a Snakemake that gives these answers."""
        internals = Internals(is_dry_run=False, **answers)
        says = self.told.append, self.warned.append
        return Start(self.experiment, self.results, internals, *says)

    def finish(self, rate, **content):
        """Make a finished run; by default one with the current settings."""
        (scenario,) = self.experiment.sweep
        description = self.experiment.description(scenario)
        run = {"hash": description.hash, **description.as_json(), **content}
        folder = self.results / "runs" / scenario.name
        path = folder / f"cache-{rate:03d}" / "rep-0" / "run.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(run))
        described = {key: content.get(key, run[key]) for key in description.as_json()}
        (folder / "scenario.json").write_text(json.dumps(described))
        return path


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a start of an experiment on two directories, without a working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "check_places", lambda system: None)
    return Site(tmp_path)


def files(folder):
    """Return all paths below a folder."""
    return sorted(folder.rglob("*"))


def test_start_removes_what_killed_processes_left_a_day_ago(site, monkeypatch):
    left = site.results / "staging" / ".epochs.parquet.0123456789abcdef"
    left.parent.mkdir()
    left.touch()
    later_s = time.time() + 86_500
    monkeypatch.setattr("tierscope.core.files.time.time", lambda: later_s)
    begin(site)
    assert not left.exists()
    assert site.told[0] == "Removed 1 unfinished file of killed processes."


def test_torn_figure_is_planned_again_and_told():
    planned, told = [], []
    internals = Internals()
    internals.when_planned = planned.append
    internals.make_again = lambda folder, is_torn: [f"{folder}/fig.svg"]
    make_torn_again(internals, Path("x"), told.append, told.append)
    assert told == []
    planned[0]()
    assert told == ["x/fig.svg: is damaged; a start makes it again."]


def test_reading_the_rules_writes_nothing_and_says_the_plan_of_real_storage(site):
    before = files(site.results)
    site.start().check_configuration(is_job=False)
    assert files(site.results) == before
    assert any(line.startswith("Dataset small") for line in site.told)


def test_tiers_that_are_emulated_are_not_looked_at(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(measurement, "file_system", looked.append)
    site = Site(tmp_path, "scale-model")
    site.start().check_configuration(is_job=False)
    assert looked == site.told == site.warned == []


def test_job_and_finished_sweep_say_no_plan(site):
    site.start().check_configuration(is_job=True)
    site.finish(0)
    site.finish(50)
    site.start().check_configuration(is_job=False)
    assert site.told == site.warned == []


def test_run_with_other_settings_is_refused_with_their_names(site):
    training = {"epochs": 9}
    path = site.finish(50, hash="another", training=training)
    with pytest.raises(StartError) as refusal:
        site.start().check_configuration(is_job=False)
    assert str(refusal.value).startswith(f"{path}: was measured with training.")
    assert "give the experiment a new name" in str(refusal.value)


@pytest.mark.parametrize("text", ['{"hash": "1', "[]", "{}", "\xff"])
def test_damaged_description_of_a_run_is_named(site, text):
    path = site.finish(50)
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StartError) as refusal:
        begin(site)
    assert str(refusal.value).startswith(f"{path}: got no settings of a run, expected")


def test_run_with_equal_settings_is_taken(site):
    site.finish(50)
    site.start().check_configuration(is_job=False)


def test_simulated_runs_are_never_refused(tmp_path):
    site = Site(tmp_path, "scale-model", simulate=True)
    site.finish(50, hash="another", training={"epochs": 9})
    site.start().check_configuration(is_job=False)


def begin(site, **answers):
    """Begin the jobs of a start, without its signal handler."""
    usual = {"executor": "local", "resources_in_use": set(), "files_to_make": set()}
    usual["scripts_after_launches"] = set()
    site.start(**usual | answers).before_jobs()


@pytest.fixture(autouse=True)
def no_signals(monkeypatch):
    """Leave the test's own handling of signals alone."""
    monkeypatch.setattr(module.Ending, "prepare", lambda ending: None)


@pytest.mark.parametrize(
    ("loader", "answers", "is_refused"),
    [
        ("pytorch", {"resources_in_use": {"gfs"}}, True),
        ("pytorch", {}, False),  # draws figures only
        ("posix", {"resources_in_use": {"gfs"}}, False),
    ],
)
def test_start_says_that_pytorch_is_missing_before_it_measures(
    site, monkeypatch, loader, answers, is_refused
):
    def find_pytorch():
        raise ConfigError("no PyTorch")

    monkeypatch.setattr(module, "find_pytorch", find_pytorch)
    ((scenario, points),) = site.experiment.sweep.items()
    sweep = {replace(scenario, loader=loader): points}
    site.experiment = replace(site.experiment, sweep=sweep)
    monkeypatch.setattr(module, "hold_lease", lambda *_, **__: None)
    if not is_refused:
        begin(site, **answers)
        return
    with pytest.raises(StartError, match="no PyTorch"):
        begin(site, **answers)


@pytest.mark.parametrize("resource", ["gfs", "terminal"])
def test_start_tries_what_later_steps_import_before_it_measures(
    site, monkeypatch, resource
):
    monkeypatch.setattr(module, "hold_lease", lambda *_, **__: None)
    tried = []
    monkeypatch.setattr(module, "refuse_missing", tried.extend)
    scripts = {"plot.py", "audit_run.py"}
    begin(site, resources_in_use={resource}, scripts_after_launches=scripts)
    of_figure = "matplotlib.transforms.offset_copy" in tried
    assert of_figure == ("pandas" in tried) == (resource == "gfs")


@pytest.mark.parametrize("script", ["gather_logs.py", "plot.py"])
def test_analysis_of_logs_does_not_begin_without_the_packages_of_its_steps(
    tmp_path, monkeypatch, script
):
    def refuse_missing(names):
        raise ConfigError(f"{'duckdb' in names}: cannot be imported")

    monkeypatch.setattr(module, "refuse_missing", refuse_missing)
    asked = Internals(executor="local", scripts_of_rules={script})
    with pytest.raises(StartError, match=r"^True: cannot be imported"):
        module.start_logs(asked, tmp_path, "analysis mine", print)


def test_second_start_of_an_experiment_waits(site):
    begin(site)
    with pytest.raises(StartError, match="wait until it has ended"):
        begin(site)


def test_profile_of_another_scheduler_is_refused(site):
    with pytest.raises(StartError, match="got a profile for slurm"):
        begin(site, executor="slurm")


def test_launch_with_other_modules_is_announced_once(site):
    begin(site, resources_in_use=set())
    assert site.warned == []
    run = site.finish(50, modules="0" * 64)
    site.start()._warn_of_other_modules()
    (line,) = site.warned
    assert line.startswith(f"{run.parent}: was measured with modules 000000000000, but")


def test_runs_of_a_program_have_the_modules_of_its_own_script(site):
    site.experiment.settings["loader"]["command"] = ["python", "train.py"]
    site.finish(50, modules=digest_of_modules(SCRIPTS / "run_program.py"))
    site.start()._warn_of_other_modules()
    assert site.warned == []


def test_start_says_how_many_points_its_launches_measure(site):
    site.finish(0)  # without its log and its table
    (launch,) = set(missing_launches(site.experiment, site.results).values())
    begin(site, files_to_make={f"{site.results}/{launch.marker}", "results/other"})
    assert site.told == ["Points to measure: 2, in launches: 1."]


def test_start_without_a_launch_says_nothing_of_points(site):
    begin(site, files_to_make={f"{site.results}/tables/goals.parquet"})
    assert site.told == []


@pytest.mark.parametrize("are_there", [False, True])
def test_bad_directory_of_ideal_runs_is_refused_unless_they_are_there(
    tmp_path, monkeypatch, are_there
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "check_places", lambda system: None)
    sweep = read_yaml(ROOT / "config" / "config.yaml")["sweep"]
    sweep |= {"datasets": ["small"], "n_osts": [0], "ideal": True, "repetitions": 1}
    roots = {name: str(tmp_path / name) for name in ("gfs", "lfs")}
    site = Site(tmp_path, roots=roots | {"ideal": "/proc/mine"}, sweep=sweep)
    if are_there:
        ((scenario, (point,)),) = site.experiment.sweeps["ideal"].items()
        run = site.results / "runs" / scenario.name / point.path / "run.json"
        run.parent.mkdir(parents=True)
        described = site.experiment.description(scenario)
        run.write_text(json.dumps({"hash": described.hash, **described.as_json()}))
        (tmp_path / "gfs").mkdir(mode=0o700)
        return begin(site, resources_in_use={"gfs"})
    with pytest.raises(StartError, match=r"/proc/mine"):
        begin(site, resources_in_use={"gfs"})


def test_folder_that_cannot_be_written_is_named(site):
    (site.results / "file").touch()
    site.results /= "file"
    with pytest.raises(StartError, match=r"file.*: cannot be written: "):
        begin(site)


def test_end_names_the_folders_of_what_was_made(site):
    made = {f"{site.results}/figures/fig2.svg", f"{site.results}/tables/goals.parquet"}
    site.start(made_files=made).after_success()
    figures, tables = f"{site.results}/figures", f"{site.results}/tables"
    assert site.told == [f"Figures: {figures}  Tables: {tables}"]


def test_end_says_what_storage_costs(site):
    (site.results / "ideal").mkdir()
    text = site.results / "ideal" / "summary.txt"
    text.write_text("Of 3 s an epoch ...\n")
    site.start(made_files={str(text)}).after_success()
    assert site.told == [f"Of 3 s an epoch ...\nIdeal runs: {text.parent}"]
    site.told.clear()
    site.start(made_files=set()).after_success()
    assert site.told == [f"Runs: {site.results}/runs"]


def test_end_sums_up_a_sweep_and_says_once_what_storage_costs(site):
    (site.results / "ideal").mkdir()
    texts = [site.results / name for name in ("summary.txt", "ideal/summary.txt")]
    texts[0].write_text("The program: yes.\nOf 3 s an epoch ...\n")
    texts[1].write_text("Of 3 s an epoch ...\n")
    site.start(made_files=set(map(str, texts))).after_success()
    (told,) = site.told
    assert told.splitlines()[:-1] == ["The program: yes.", "Of 3 s an epoch ..."]


def test_end_has_the_answer_and_only_names_what_was_said_before(site):
    texts = [site.results / name for name in ("answer.txt", "summary.txt")]
    texts[0].write_text("Storage limits.\n")
    texts[1].write_text("The program: yes.\n")
    site.start(made_files=set(map(str, texts))).after_success()
    assert site.told == [f"Storage limits.\nSummary: {texts[1]}"]


def test_end_without_a_table_names_the_runs(site):
    site.start(made_files=set()).after_success()
    assert site.told == [f"Runs: {site.results}/runs"]


def test_end_says_why_the_model_made_no_estimates(site):
    made = {f"{site.results}/tables/estimates.parquet"}
    site.start(made_files=made).after_success()
    first, _ = site.told[0].split("\n")
    assert first.startswith("No estimates by the model, only by the rule: config: ")


def test_end_removes_empty_staging_folders_and_keeps_files(site):
    staging = site.results / "staging"
    (staging / "empty" / "cache-000" / "rep-0").mkdir(parents=True)
    (staging / "full").mkdir()
    (staging / "full" / "log.darshan").touch()
    site.start(made_files=set()).after_success()
    assert files(staging) == [staging / "full", staging / "full" / "log.darshan"]


def test_failure_marks_at_once_what_depends_on_it_but_no_launch(site):
    """Also in a start that is killed before it ends, and in one of an analysis."""
    analysis = SnakemakeJob(frozenset({"terminal"}), "analysis")
    launch = SnakemakeJob(frozenset({"mpi"}), "launch")
    full = SnakemakeJob(frozenset(), "unwritable")
    snakemake = Internals(executor="local", first=[launch, analysis], second=[full])
    start_alone(snakemake, site.results, "analysis x", site.told.append)
    snakemake.fail("first")
    assert snakemake.marked == [analysis]
    snakemake.fail("second")
    (line,) = site.told
    assert line.startswith("Could not mark what depends on a failed job: [Errno 28] No")


def test_failure_says_how_to_go_on(site):
    site.start(executor="local", remakes_unfinished=True).after_failure()
    assert site.told[0].startswith("Finished files are kept.")
