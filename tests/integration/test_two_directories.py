"""An experiment on two directories of the user, from their names to a figure."""

import os
import re
import signal
import subprocess
import time

import pytest
import sessions
import yaml
from integration.conftest import ROOT, Project
from tierscope.core.machine import BLOCK_DEVICE
from tierscope.core.tables import read_table
from tierscope.storage.mounts import mount_of
from tierscope.storage.page_cache import told_by

CONFIG = "results/mine/experiment.yaml"
PROFILE = ["--profile", "local", "--configfile"]


@pytest.fixture
def project(tmp_path):
    """Return a project with two directories beside it, which hold other files."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("gfs", "lfs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("keep\n")
    project = Project(folder)
    project.command = lambda *words: ["snakemake", *words, *PROFILE, CONFIG]
    return project


def words_of(svg):
    """Return the text of a figure, which SVG files hold in comments."""
    lines = re.findall("<!-- (.*?) -->", svg.read_text(), re.DOTALL)
    return " ".join(" ".join(lines).split())


def check_verdicts(tables, verdict):
    """Check where the reads of the second epoch came from, and the sentinel."""
    found = read_table(tables / "verdicts.parquet", "verdicts")
    found = found[found["epoch"] == 1]
    assert set(found["tier"]) == {"gfs", "lfs"}
    if told_by(mount_of(tables)) == BLOCK_DEVICE:
        assert set(found["verdict"]) == {verdict}
        expected = (97, 100) if verdict == "device" else (0, 3)
        assert found["device_percent"].between(*expected).all()
    drift = read_table(tables / "drift.parquet", "drift")
    assert len(drift) == 4  # tiers and points


def size(project, *directories, expect=0):
    """Choose sizes for directories beside the project; return what is printed."""
    paths = [str(project.folder.parent / name) for name in directories]
    done = subprocess.run(
        ["python", "workflow/scripts/measure_two_directories.py", "mine", *paths],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == expect, done.stdout
    return done.stdout


def test_test_of_two_directories_that_is_ended_leaves_nothing_there(project):
    folders = [project.folder.parent / name for name in ("gfs", "lfs")]
    command = ["python", "workflow/scripts/measure_two_directories.py", "mine"]
    child = sessions.start(
        [*command, *map(str, folders)],
        project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not any(len(os.listdir(folder)) > 1 for folder in folders):
        assert child.poll() is None
        time.sleep(0.01)
    child.terminate()
    assert child.communicate(timeout=sessions.HANG_S)[0] == ""
    assert child.returncode == 128 + signal.SIGTERM
    assert [os.listdir(folder) for folder in folders] == [["mine.txt"]] * 2


def test_two_directories_are_measured(project):
    assert f"Written to {CONFIG}; " in size(project, "gfs", "lfs")
    path = project.folder / CONFIG
    config = yaml.safe_load(path.read_text())
    config["sweep"] |= {"cache_rates_percent": [0, 100], "loaders": ["posix"]}
    config["sweep"]["repetitions"] = 1
    config["datasets"]["small"]["n_files"] = 48
    config["figures"]["scenario"]["loader"] = "posix"
    path.write_text(yaml.safe_dump(config))  # as a user may edit it
    plan = project.snakemake("fig2", "-n")
    for words in (
        "Dataset small, 6 MiB: fits into the memory of the node (",
        "Dataset small: 1 step an epoch for each process; MLPerf Storage expects",
        "LFS: needs 6.6 MiB at cache rate 100 %, has ",
    ):
        assert plan.count(words) == 1
    project.snakemake("fig2")
    svg = project.folder / "results" / "mine" / "figures" / "fig2_breakdown.svg"
    assert "Source: measured, system laptop" in svg.read_text()
    assert "second epoch (measured" not in words_of(svg)
    check_verdicts(project.folder / "results" / "mine" / "tables", "device")
    config |= {"experiment": "warm", "training": {**config["training"], "cold": False}}
    (project.folder / "warm.yaml").write_text(yaml.safe_dump(config))
    project.command = lambda *words: ["snakemake", *words, *PROFILE, "warm.yaml"]
    project.snakemake("fig2")
    warm = project.folder / "results" / "warm"
    check_verdicts(warm / "tables", "page cache")
    words = words_of(warm / "figures" / svg.name)
    assert "second epoch (measured, from the page cache" in words
    assert "LFS reads came from the page cache" in words
    project.command = lambda *words: ["snakemake", *words, *PROFILE, CONFIG]
    assert f"Using {CONFIG}, " in size(project, "gfs", "lfs")
    assert "Dataset small" not in project.snakemake("fig2", "-n")  # nothing to measure
    beside = project.folder.parent
    assert sorted(os.listdir(beside / "gfs")) == ["mine.txt", "tierscope"]
    assert os.listdir(beside / "lfs") == ["mine.txt"]


def test_wrong_directory_is_refused_in_a_line(project):
    words = "LFS: got {}/missing, which does not exist, expected a directory\n"
    line = size(project, "gfs", "missing", expect=1)
    assert line == words.format(project.folder.parent)
    left = [path.name for path in (project.folder / "results").iterdir()]
    assert left == ["native"]  # which the tests have put there


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        ([], ""),
        (["GFS=/g", "LFS=/l"], " --configfile 'results/laptop/experiment.yaml'"),
        (
            ["GFS=/g", "LFS=/l", "NAME=mine"],
            " --configfile 'results/mine/experiment.yaml'",
        ),
    ],
)
def test_make_takes_directories_from_its_command_line_only(arguments, config):
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "--assume-old=setup", "run", *arguments],
        cwd=ROOT,
        env={**os.environ, "GFS": "/other", "LFS": "/other", "NAME": "other"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    start = "exec .venv/bin/python workflow/scripts/start_snakemake.py"
    assert lines[-1] == f"{start} --profile local{config}"
    sized = [line for line in lines if "measure_two_directories.py" in line]
    name = "mine" if "NAME=mine" in arguments else "laptop"
    expected = f"measure_two_directories.py '{name}' '/g' '/l'"
    assert [line.endswith(expected) for line in sized] == [True] * bool(arguments)
