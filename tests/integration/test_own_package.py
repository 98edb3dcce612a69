"""Another package tierscope on this machine: an installed one, or another clone's."""

import os
import subprocess
import sys

import pytest
import warm_python
from integration.conftest import ROOT, Project

SCRIPTS = ROOT / "workflow" / "scripts"
SCENARIO = "tiny-0ost-pinning-posix"


@pytest.fixture
def another(tmp_path):
    """Return a folder for PYTHONPATH with a package that cannot be imported."""
    package = tmp_path / "another" / "tierscope"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('of another clone')\n")
    return package.parent


def test_jobs_ranks_and_snakefile_import_the_modules_of_the_clone(tmp_path, another):
    project = Project(tmp_path)
    project.use_directories()
    sweep = {"datasets": ["tiny"], "n_osts": [0], "cache_rates_percent": [50]}
    scene = {"dataset": "tiny", "n_osts": 0, "loader": "posix"}
    figures = {"figures": {"scenario": scene}}
    sweep |= {"policies": ["pinning"], "loaders": ["posix"]}
    project.change("config/tiny.yaml", {"sweep": sweep, **figures})
    project.environment |= {"PYTHONPATH": str(another), "PYTHONSAFEPATH": "1"}
    output = project.snakemake(*project.audits_of(SCENARIO, 50))
    assert "of another clone" not in output
    assert project.path("runs", SCENARIO, "cache-050/rep-0/audit.json").is_file()


def test_workflow_refuses_a_package_that_was_imported_before(tmp_path, another):
    (another / "tierscope" / "__init__.py").write_text("")
    snakefile = ROOT / "workflow" / "Snakefile"
    (tmp_path / "Snakefile").write_text(
        f"import sys\n\nsys.path.insert(0, {str(another)!r})\nimport tierscope\n\n\n"
        f"module storage:\n    snakefile: {str(snakefile)!r}\n    config: config\n\n\n"
        "use rule * from storage as storage_*\n"
    )
    command = ["snakemake", "--cores", "1", "--dry-run"]
    environment = warm_python.installed_environment()
    code, output = warm_python.run(command, tmp_path, environment)
    assert code == 1
    expected = ROOT / "workflow" / "scripts" / "tierscope"
    assert (
        f"{another / 'tierscope'}: this package was imported before {snakefile}, "
        f"expected {expected}; remove its import."
    ) in output


def test_package_refuses_a_script_that_lies_beside_another(tmp_path, another):
    (script := another / "script.py").write_text("import tierscope\n")
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {SCRIPTS}/tierscope/__init__.py: was imported by {script}, "
        f"expected {another}/tierscope/__init__.py; type `pip uninstall tierscope`, or "
        "take the folder out of PYTHONPATH."
    )


def test_jobs_have_docstrings_utf8_a_safe_umask_and_the_modules_of_the_clone(tmp_path):
    """Whatever the user's environment says."""
    snakefile = ROOT / "workflow" / "Snakefile"
    (tmp_path / "Snakefile").write_text(
        f"module storage:\n    snakefile: {str(snakefile)!r}\n    config: config\n\n\n"
        "use rule * from storage as storage_*\n\n\n"
        "rule show:\n    output:\n        'shown',\n    shell:\n"
        "        'env > {output}; umask >> {output}'\n"
    )
    (tmp_path / ".snakemake").mkdir()  # else it is made before the rules are read
    asked = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    asked |= {"PYTHONOPTIMIZE": "2", "PYTHONPATH": "of_the_user"}
    code, output = warm_python.run(
        ["sh", "-c", "umask 0; exec snakemake --cores 1 show"],
        tmp_path,
        warm_python.installed_environment() | asked,
    )
    assert code == 0, output
    lines = (tmp_path / "shown").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if "PYTHON" in line)
    assert lines[-1] == "0002"
    assert "PYTHONOPTIMIZE" not in found
    assert (found["PYTHONUTF8"], found["TIERSCOPE_PYTHONUTF8"]) == ("1", "0")
    assert found["PYTHONPATH"].split(":") == [str(SCRIPTS), "of_the_user"]
