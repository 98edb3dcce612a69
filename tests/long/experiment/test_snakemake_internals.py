"""What the rules ask Snakemake: of the installed version, and of one that has changed.

A new version that answers otherwise fails the test which names the question.
"""

import json
import re
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm_python
from tierscope.core.validation import ConfigError
from tierscope.experiment import snakemake_internals
from tierscope.experiment.snakemake_internals import (
    INTERFACES,
    WRITTEN_FOR,
    InterfaceError,
    SnakemakeInternals,
    SnakemakeJob,
    after_failure,
    place_results,
    refuse_prefix,
    try_to,
)

ROOT = Path(__file__).parents[3]
MADE = ("breaks", "launched", "rests", "told")
# The workflow that Snakemake is asked of. `breaks` fails while there is a file `break`.
RULES = """\
configfile: "in.yaml"


import json, sys
from pathlib import Path

sys.path.insert(0, {scripts!r})
from tierscope.experiment.snakemake_internals import SnakemakeInternals

ASKED = SnakemakeInternals(workflow)


def note(name, answer):
    with open({answers!r}, "a") as file:
        print(json.dumps([name, answer]), file=file)


rule all:
    input:
        "rests.txt",
        "launched.txt",


rule told:
    output:
        "told.txt",
    run:
        note("of job", [ASKED.is_job(), ASKED.is_remote_job()])
        Path(output[0]).touch()


rule breaks:
    input:
        "told.txt",
    output:
        "breaks.txt",
    shell:
        "test ! -e break && touch {{output}}"


rule rests:
    input:
        "breaks.txt",
    output:
        "rests.txt",
    conda:
        "own.yml"
    shell:
        "touch {{output}}"


checkpoint launch:
    input:
        "breaks.txt",
    output:
        "launched.txt",
    resources:
        gfs=1,
        mpi="mpiexec",
        runtime=1,
    script:
        "launch.py"


note("is_job", ASKED.is_job())
note("is_remote_job", ASKED.is_remote_job())
note("place", ASKED.place("results/mine"))
note("results_folder", ASKED.results_folder())
note("configuration_files", [path.name for path in ASKED.configuration_files()])
entries, made = ASKED.command_line()
note("command_line", [*entries, made["key"]["b"]])
note("is_dry_run", ASKED.is_dry_run())
before = [rule.name for rule in workflow.rules if rule.is_checkpoint]
ASKED.plan_this_job_only()
after = [rule.name for rule in workflow.rules if rule.is_checkpoint]
note("plan_this_job_only", [before, after])
ASKED.complete_rules(Path(workflow.basedir).resolve(), "environment.yml")
here = workflow._localrules
found = [[one.name, one.name in here, one.conda_env] for one in workflow.rules]
note("complete_rules", found)
here = Path(workflow.basedir).resolve()
again = lambda: ASKED.make_again(here, lambda one: Path(one).stem == "rests")
ASKED.when_planned(lambda: note("make_again", again()))


onstart:
    ASKED.when_a_job_fails(mark_what_follows)
    note("executor", ASKED.executor())
    note("remakes_unfinished", ASKED.remakes_unfinished())
    note("resources_in_use", "gfs" in ASKED.resources_in_use())
    note("files_to_make", sorted(ASKED.files_to_make()))
    note("scripts_after_launches", sorted(ASKED.scripts_after_launches()))
    note("scripts_of_rules", sorted(ASKED.scripts_of_rules()))
    note("target_rules", ASKED.target_rules())
    if ASKED.executor() == "slurm":
        note("status_command", ASKED.status_command())
        (job,) = (job for job in workflow.dag.jobs if job.rule.name == "told")
        note("no batch_job_ids", sorted(ASKED.batch_job_ids()))
        workflow.persistence.started(job, external_jobid="4711")
        note("batch_job_ids", sorted(ASKED.batch_job_ids()))
        raise SystemExit("enough")


onsuccess:
    note("made_files", sorted(ASKED.made_files()))


def mark_what_follows(failed):
    found = ASKED.jobs_after(failed)
    note(
        "jobs_after",
        sorted(
            [
                job.original.rule.name,
                sorted({{"gfs", "mpi"}} & job.resources),
            ]
            for job in found
        ),
    )
    note("when_a_job_fails", failed.original.rule.name)
    for job in found:
        if "mpi" not in job.resources:
            ASKED.mark_unfinished(job)
"""


def snakemake(folder, *options):
    """Run Snakemake in a folder and return its exit code and what it printed."""
    return warm_python.run(
        ["snakemake", *options], folder, warm_python.installed_environment()
    )


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """Return {start: (its exit code, its output, its answers)} of a small workflow."""
    folder = tmp_path_factory.mktemp("contract")
    answers = folder / "answers"
    rules = RULES.format(
        scripts=str(ROOT / "workflow" / "scripts"), answers=str(answers)
    )
    (folder / "Snakefile").write_text(rules)
    (folder / "launch.py").write_text("open(snakemake.output[0], 'w').close()\n")
    for name in ("environment.yml", "own.yml"):
        (folder / name).touch()
    (folder / "in.yaml").write_text("a: 1")
    (folder / "given.yaml").write_text("a: 2")

    def start(*options):
        answers.write_text("")
        config = ("--configfile", "given.yaml", "--config", "key={b: 1}")
        code, output = snakemake(folder, *options, *config)
        return code, output, [*map(json.loads, answers.read_text().splitlines())]

    slurm = ("--executor", "slurm", "--slurm-status-command", "squeue", "--jobs", "1")
    found = {"slurm": start(*slurm)}
    (folder / "break").touch()
    # Outputs of `told` are marked by the start before.
    found["failed"] = start("--cores", "1", "--rerun-incomplete")
    (folder / "break").unlink()
    for name in ("rests.txt", "launched.txt"):
        (folder / name).touch()  # as if made before the failure
    found["refused"] = start("--cores", "1")
    (folder / "launched.txt").unlink()
    found["finished"] = start("--cores", "1", "--rerun-incomplete")
    found["again"] = start("--cores", "1", "--rerun-incomplete")
    for name in ("told.txt", "breaks.txt", "rests.txt"):
        (folder / name).unlink()
    found["dry"] = start("--cores", "1", "--dry-run")
    found["remote"] = start("--mode", "remote", "--cores", "1", "told.txt")
    return found


def test_written_for_the_installed_version():
    # A newer one is installed, and the tests below pass? Then name it in WRITTEN_FOR.
    assert metadata.version("snakemake") == WRITTEN_FOR


@pytest.mark.parametrize(
    ("question", "start", "answer"),
    [
        ("is_job", "failed", False),
        ("is_remote_job", "failed", False),
        ("is_job", "remote", True),
        ("is_remote_job", "remote", True),
        ("of job", "failed", [True, False]),
        ("place", "failed", "results/mine"),
        ("results_folder", "failed", "results"),
        ("configuration_files", "failed", ["given.yaml", "in.yaml"]),
        ("command_line", "failed", ["key={b: 1}", "1"]),
        ("command_line", "remote", ["key={b: 1}", "1"]),
        ("is_dry_run", "failed", False),
        ("is_dry_run", "dry", True),
        ("executor", "failed", "local"),
        ("executor", "slurm", "slurm"),
        ("status_command", "slurm", "squeue"),
        ("no batch_job_ids", "slurm", []),
        ("batch_job_ids", "slurm", ["4711"]),
        ("target_rules", "failed", ["all"]),
        ("resources_in_use", "failed", True),
        ("files_to_make", "failed", [f"{name}.txt" for name in MADE]),
        ("scripts_after_launches", "failed", ["launch.py"]),
        ("scripts_of_rules", "failed", ["launch.py"]),
        ("plan_this_job_only", "failed", [["launch"], []]),
        (
            "complete_rules",
            "failed",
            [
                ["all", True, None],
                ["told", True, "environment.yml"],
                ["breaks", True, "environment.yml"],
                ["rests", True, "own.yml"],
                ["launch", False, "environment.yml"],
            ],
        ),
        ("resources_in_use", "remote", False),
        ("remakes_unfinished", "slurm", False),
        ("remakes_unfinished", "failed", True),
        ("when_a_job_fails", "failed", "breaks"),
        (
            "jobs_after",
            "failed",
            [
                ["all", []],
                ["launch", ["gfs", "mpi"]],
                ["rests", []],
            ],
        ),
        ("make_again", "failed", ["rests.txt"]),
        ("made_files", "finished", [f"{name}.txt" for name in MADE]),
    ],
)
def test_installed_snakemake_answers(starts, question, start, answer):
    code, output, answers = starts[start]
    found = [value for name, value in answers if name == question]
    assert found, (code, output)
    assert found[0] == answer


def test_installed_snakemake_refuses_marked_files_until_told_to_make_them(starts):
    code, output, _ = starts["refused"]
    assert code == 1
    assert "rests.txt" in output
    assert "launched.txt" not in output
    code, output, _ = starts["finished"]
    assert code == 0, output
    assert "rule rests" in output


def test_installed_snakemake_makes_only_the_damaged_file_again(starts):
    _, output, _ = starts["again"]
    assert re.findall(r"^(?:local)?rule (\w+):", output, re.M)[:2] == ["rests", "all"]


# ---- a Snakemake that has changed ----------------------------------------------------


class Empty:
    """Something without any attribute."""


ARGUMENTS = {
    "complete_rules": (Path("rules").resolve(), "environment.yml"),
    "place": ("results/mine",),
    "mark_unfinished": (SnakemakeJob(frozenset(), Empty()),),
    "jobs_after": (SnakemakeJob(frozenset(), "a job"),),
    "when_a_job_fails": (print,),
    "when_planned": (print,),
    "make_again": (Path(), bool),
}


@pytest.fixture
def newer(monkeypatch):
    """Pretend that a newer Snakemake is installed."""
    monkeypatch.setattr(snakemake_internals.metadata, "version", lambda _: "10.1.0")


@pytest.mark.parametrize("question", INTERFACES)
def test_lost_interface_is_named_with_both_versions_and_what_is_lost(question, newer):
    ask = getattr(SnakemakeInternals(Empty()), question)
    with pytest.raises(InterfaceError) as caught:
        ask(*ARGUMENTS.get(question, ()))
    message = str(caught.value)
    assert message.startswith(f"{INTERFACES[question]}: ")
    assert "Snakemake 10.1.0" in message
    assert f"Install Snakemake {WRITTEN_FOR}." in message
    assert "AttributeError: 'Empty' object has no attribute" in message
    assert "Lost: " in message
    assert "\n" not in message


async def started(job):
    """Mark nothing before it is awaited."""


def named(value, *names):
    """Return objects in each other by these names, with a value in the innermost."""
    for name in reversed(names):
        value = SimpleNamespace(**{name: value})
    return value


JOB = SimpleNamespace(rule=Empty(), output=[1])


@pytest.mark.parametrize(
    ("question", "workflow", "words"),
    [
        # Each of these would be taken for another answer.
        (
            "is_job",
            SimpleNamespace(remote_exec=lambda: False, subprocess_exec=False),
            "got function, expected bool",
        ),
        ("is_remote_job", named(lambda: False, "remote_exec"), "got function"),
        (
            "remakes_unfinished",
            named(lambda: False, "dag_settings", "force_incomplete"),
            "got function, expected bool",
        ),
        ("executor", named(None, "executor_plugin", "name"), "got NoneType"),
        ("mark_unfinished", named(started, "persistence", "started"), "got coroutine"),
        # Each of these fails in the middle.
        ("made_files", named(lambda: [], "dag", "jobs"), "not iterable"),
        ("made_files", named([JOB], "dag", "jobs"), "got int, expected str"),
        ("files_to_make", named(lambda: [JOB], "dag", "needrun_jobs"), "got int"),
        (
            "plan_this_job_only",
            named([SimpleNamespace(is_checkpoint=None)], "rules"),
            "got NoneType, expected bool",
        ),
        (
            "complete_rules",
            named(
                [
                    SimpleNamespace(
                        snakefile="rules/a.smk",
                        norun=True,
                        ruleinfo=SimpleNamespace(resources=((), ["runtime"])),
                    )
                ],
                "rules",
            ),
            "got list, expected Mapping",
        ),
        ("resources_in_use", named([], "dag", "needrun_jobs"), "not callable"),
        ("resources_in_use", named(lambda: [JOB], "dag", "needrun_jobs"), "resources"),
        (
            "batch_job_ids",
            SimpleNamespace(
                persistence=SimpleNamespace(external_jobids=lambda _: [None]),
                dag=SimpleNamespace(jobs=[JOB]),
            ),
            "got NoneType, expected str",
        ),
        (
            "jobs_after",
            named({}, "dag", "depending"),
            "KeyError",
        ),
    ],
)
def test_changed_interface_is_no_answer(question, workflow, words):
    ask = getattr(SnakemakeInternals(workflow), question)
    with pytest.raises(InterfaceError, match=words):
        ask(*ARGUMENTS.get(question, ()))


def test_version_that_is_not_known_does_not_hide_the_message(monkeypatch):
    def version(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(snakemake_internals.metadata, "version", version)
    with pytest.raises(InterfaceError, match="Snakemake of unknown version"):
        SnakemakeInternals(Empty()).executor()


# ---- what the rules do then ----------------------------------------------------------


def test_what_the_user_can_do_without_is_said_and_left_out():
    said = []
    ask = SnakemakeInternals(Empty()).made_files
    assert try_to(ask, said.append, {"otherwise"}) == {"otherwise"}
    (line,) = said
    assert line.startswith("workflow.dag.jobs: ")


def failing_with(error):
    """Return a step that fails."""

    def step():
        raise error

    return step


@pytest.mark.parametrize(
    "error", [InterfaceError("dag.x: gone"), OSError(28, "No space left on device")]
)
def test_failing_step_keeps_neither_the_next_nor_how_to_go_on(error):
    said, done = [], []
    steps = {"mark files": failing_with(error), "end": lambda: done.append(True)}
    asked = SnakemakeInternals(named(True, "dag_settings", "force_incomplete"))
    after_failure(asked, steps, said.append, said.append)
    assert done == [True]
    assert said == [
        f"Could not mark files: {error}",
        "Finished files are kept. Remove the cause, then the same command continues.",
    ]


def test_how_to_go_on_is_told_where_no_interface_is_left():
    said = []
    asked = SnakemakeInternals(Empty())
    steps = {"mark files": asked.made_files, "end jobs": asked.executor}
    after_failure(asked, steps, said.append, said.append)
    assert [line.partition(":")[0] for line in said[:3]] == [
        "Could not mark files",
        "Could not end jobs",
        "workflow.dag_settings.force_incomplete",
    ]
    assert "the same command with --rerun-incomplete" in said[3]
    assert len(said) == 4


def test_error_of_our_own_is_shown_after_how_to_go_on():
    said = []
    asked = SnakemakeInternals(Empty())
    with pytest.raises(ZeroDivisionError):
        after_failure(
            asked, {"x": failing_with(ZeroDivisionError())}, said.append, said.append
        )
    assert "continues" in said[-1]


@pytest.mark.parametrize("placed", ["sub/results/mine", "/elsewhere/mine"])
def test_prefix_of_an_import_is_refused_in_one_line(placed):
    modifier = SimpleNamespace(replace_prefix=lambda path: placed)
    asked = SnakemakeInternals(named(modifier, "modifier", "path_modifier"))
    with pytest.raises(ConfigError, match=f"results/mine at {placed}, expected none"):
        refuse_prefix(asked, "results/mine")


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("results", "results/mine"),
        ("./a-1/b_2/", "a-1/b_2/mine"),
        ("/scratch/me@site", "/scratch/me@site/mine"),
    ],
)
def test_results_lie_in_the_folder_that_an_import_names(folder, expected):
    asked = SnakemakeInternals(named(lambda _: folder, "pathvars", "apply"))
    assert place_results(asked, "mine") == expected


@pytest.mark.parametrize("folder", ["", "a b", "{sample}", "$HOME/x", "a*", "a\nb"])
def test_folder_of_results_that_a_rule_would_take_apart_is_refused(folder):
    asked = SnakemakeInternals(named(lambda _: folder, "pathvars", "apply"))
    words = re.escape(f"pathvars: results: got {folder!r}, expected a path of letters")
    with pytest.raises(ConfigError, match=words):
        place_results(asked, "mine")


# ---- the rules on the installed Snakemake --------------------------------------------

IMPORTING = """module tierscope:
    snakefile:
        {snakefile!r}
    config:
        {{"experiment": "mine", "simulate": True}}
    {prefix}


use rule * from tierscope
"""


@pytest.mark.parametrize(
    ("prefix", "placed"),
    [
        ('prefix: "sub"', "sub/results/mine"),
        ('replace_prefix: {"results/": "made/"}', "made/mine"),
    ],
)
def test_installed_snakemake_refuses_an_import_with_a_prefix(tmp_path, prefix, placed):
    snakefile = str(ROOT / "workflow" / "Snakefile")
    text = IMPORTING.format(snakefile=snakefile, prefix=prefix)
    (tmp_path / "Snakefile").write_text(text)
    code, output = snakemake(tmp_path, "--dry-run", "--cores", "1")
    assert code == 1
    assert f"places results/mine at {placed}, expected none" in output
    assert "Traceback" not in output


# As if a new version had renamed what we ask for, at the moment when we do.
RENAMING = """include: {snakefile!r}


rule breaks:
    output:
        "broken.txt",
    shell:
        "exit 1"


def go_on_and_rename(log, ours=workflow._onstart):
    ours(log)
    workflow.dag.bfs = None


workflow._onstart = go_on_and_rename
"""


def test_failure_under_a_changed_snakemake_still_says_how_to_go_on(tmp_path):
    snakefile = str(ROOT / "workflow" / "Snakefile")
    (tmp_path / "Snakefile").write_text(RENAMING.format(snakefile=snakefile))
    (tmp_path / "config").symlink_to(ROOT / "config")
    settings = ("--config", "experiment=mine", "simulate=True")
    code, output = snakemake(
        tmp_path, "broken.txt", "--cores", "1", "--rerun-incomplete", *settings
    )
    assert code == 1
    assert "Could not mark what depends on a failed job: workflow.dag.depend" in output
    assert "Remove the cause, then the same command continues." in output
    assert "Traceback" not in output
