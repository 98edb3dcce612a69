"""What those look for who publish, install or cite the project."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT, *sorted((ROOT / "workflow" / "plugins").iterdir())]


def test_catalogue_of_workflows_takes_it():
    """Its rules: words of the README, places of files, keys of usage."""
    readme = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in readme
    assert "workflow" in readme
    for path in ("workflow/Snakefile", "config/README.md"):
        assert (ROOT / path).is_file()
    assert list((ROOT / "workflow" / "rules").glob("*.smk"))
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert usage["usage"].keys() == {
        "mandatory-flags",
        "software-stack-deployment",
        "report",
    }
    assert usage["usage"]["mandatory-flags"].keys() == {"desc", "flags"}
    # Until somebody has made the environment from a channel.
    assert usage["usage"]["software-stack-deployment"]["conda"] is False


def test_services_run_what_everybody_runs():
    """And fetch nothing that the lock does not pin."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["checks"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "://" not in text


def test_clean_clone_has_a_folder_of_results_that_says_what_comes(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    (tmp_path / "results" / "mine").mkdir(parents=True)
    (tmp_path / "workflow").mkdir()
    page = tmp_path / "results" / "README.md"
    shutil.copy(ROOT / "results" / "README.md", page)
    for name in (".launch", "mine/run.json", "mine/README.md"):
        (tmp_path / "results" / name).touch()
    git = ["git", "-C", tmp_path]
    subprocess.run([*git, "init", "--quiet"], check=True)
    status = [*git, "status", "--porcelain", "--untracked-files=all", "results"]
    done = subprocess.run(status, capture_output=True, text=True, check=True)
    assert done.stdout == "?? results/README.md\n"
    subprocess.run(["make", "--silent", "clean"], cwd=tmp_path, check=True)
    assert [*(tmp_path / "results").iterdir()] == [page]


def test_citation_has_what_its_format_requires():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_each_package_says_its_license_and_authors(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["license"] == "MIT"
    assert project["authors"]
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


FOLDERS = {
    "tierscope.schemas",
    "tierscope.native",
    "tierscope.native.trace",
    "tierscope.benchmark.programs.hook",
}


def test_every_room_is_installed():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    scripts = ROOT / "workflow" / "scripts"
    rooms = {
        ".".join(path.parent.relative_to(scripts).parts)
        for path in (scripts / "tierscope").rglob("__init__.py")
    }
    assert set(setuptools["setuptools"]["packages"]) == rooms | FOLDERS


def test_installed_package_works_without_the_project(tmp_path):
    copy = tmp_path / "copy"
    for folder in ("workflow/scripts/tierscope", "workflow/schemas", "workflow/native"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--wheel-dir", tmp_path, copy], check=True
    )
    (wheel,) = tmp_path.glob("tierscope-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    # pip would put a command in the place of the clone's, and uninstall it.
    assert not list(tmp_path.glob("installed/*.dist-info/entry_points.txt"))
    (tmp_path / "read").write_text("what it reads\n")
    code = (
        "from tierscope.core import validation\n"
        "from tierscope.command import main as command\n"
        "validation.read_schema('config')\n"
        "command.main(['tables'])\n"
        "print(command.__file__)\n"
        "command.main(['trace', '--paths', 'read', '--', 'cat', 'read'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {
            "PYTHONPATH": str(tmp_path / "installed"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path / "installed") in done.stdout
    assert re.search(r"^breakdown +\d+$", done.stdout, re.MULTILINE)
    assert "what it reads" in done.stdout
    assert len(list((tmp_path / "darshan-logs").glob("*_cat_*.darshan"))) == 1
    assert len(list((tmp_path / "cache" / "tierscope").iterdir())) == 1


def test_clone_has_a_command_that_runs_its_own_code(tmp_path):
    """Even if pip or another clone has put something else in its place."""
    clone, binaries = tmp_path / "a clone", tmp_path / "a clone" / ".venv" / "bin"
    binaries.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(
        ROOT / "workflow" / "scripts", clone / "workflow" / "scripts", ignore=ignored
    )
    shutil.copytree(ROOT / "workflow" / "schemas", clone / "workflow" / "schemas")
    shutil.copy(ROOT / "Makefile", clone)
    python = binaries / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (binaries / "tierscope").write_text("#!/bin/sh\necho of pip\n")
    made = ["make", "--silent", "-o", ".venv/.ready", ".venv/bin/tierscope"]
    subprocess.run(made, cwd=clone, check=True)
    package = clone / "workflow" / "scripts" / "tierscope"
    text = package / "core" / "columns" / "benchmark.py"
    text.write_text(text.read_text().replace('"peer_reads": {', '"of_this_clone": {'))
    done = subprocess.run(
        [binaries / "tierscope", "tables"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT / "workflow" / "scripts")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "of_this_clone" in done.stdout


_LINT_EACH = """
import os, sys

sys.path.append(sys.argv[1])  # nothing else is installed
import snakemake.cli

for config in sys.argv[2:]:
    if not (pid := os.fork()):
        snakemake.cli.main(["--lint", "--configfile", config])
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{config}: does not pass")
"""


_KINDS_OF_CONFIG = [
    f"config/{name}.yaml" for name in ("config", "logs", "paper", "policies", "realfs")
]


def _with_dependencies(name, found):
    """Return the distributions that a package needs, itself included."""
    distribution = metadata.distribution(name)
    if distribution.name in found:
        return found
    found[distribution.name] = distribution
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _with_dependencies(requirement.name, found)
    return found


def test_workflow_is_read_where_only_snakemake_is_installed(tmp_path):
    """As the catalogue of workflows reads it; scripts need all that is pinned."""
    (installed := tmp_path / "installed").mkdir()
    for distribution in _with_dependencies("snakemake", {}).values():
        for top in {file.parts[0] for file in distribution.files} - {".."}:
            if not (installed / top).exists():
                (installed / top).symlink_to(distribution.locate_file(top))
    assert not (installed / "numpy").exists()
    for name in ("Snakefile", "config", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LINT_EACH, installed, *_KINDS_OF_CONFIG],
        cwd=tmp_path,
        env=os.environ | {"TIERSCOPE_GFS_ROOT": "/gfs"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("in a good condition") == len(_KINDS_OF_CONFIG)
