"""The Python that `make setup` takes, and when it makes an environment anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "workflow" / "scripts" / "environment.sh"
EXPECTED = "expected Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install"


def environment(*arguments, cwd=None, path=os.environ["PATH"], **variables):
    return subprocess.run(
        ["/bin/sh", SCRIPT, *arguments],
        env={"PATH": path, **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def write_program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def write_python(path, version):
    """Write a program that answers as a Python does, or without a version as a shim."""
    answer = (
        f"echo hello from a site; echo tierscope:{version}; echo /base/of/{version}"
    )
    write_program(path, answer if version else "echo 'command not found' >&2; exit 127")


def copy_makefile(clone):
    """Copy what makes an environment into a folder."""
    (clone / "workflow" / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", clone)
    shutil.copy(SCRIPT, clone / "workflow" / "scripts")


def make(clone, *arguments):
    """Call make in a clone, whose folder `path` comes first in PATH."""
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=clone,
        env={"PATH": f"{clone}/path:{os.environ['PATH']}", "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def search(tmp_path):
    """Look for a Python where PATH has {"folder/name": version}, in this order."""
    for tool in ("awk", "tr"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).symlink_to(shutil.which(tool))

    def _search(versions, *named):
        for name, version in versions.items():
            write_python(tmp_path / name, version)
        folders = dict.fromkeys(["tools", *(name.split("/")[0] for name in versions)])
        path = ":".join(str(tmp_path / folder) for folder in folders)
        done = environment("find", *named, path=path)
        return done.stdout.strip(), done.stderr.replace(f"{tmp_path}/", "")

    return _search


@pytest.mark.parametrize(
    ("versions", "taken"),
    [
        ({"a/python3": "3.12.3", "a/python3.13": "3.13.0"}, "3.12.3"),
        ({"a/python3": "3.10.9", "b b/python3.12": "3.12.1"}, "3.12.1"),
        ({"a/python3": "3.14.0", "b/python3.11": "3.11.2"}, "3.11.2"),
        ({"a/python3.11": "3.11.2", "b/python3.13": "3.13.1"}, "3.13.1"),
        ({"a/python3.12": None, "b/python3.12": "3.12.1"}, "3.12.1"),
        ({"a/python3": "3.12.3 without venv", "b/python3.11": "3.11.7"}, "3.11.7"),
    ],
    ids=["default", "old", "new", "newest", "shim", "without venv"],
)
def test_python3_is_taken_or_the_newest_that_fits(search, versions, taken):
    found, line = search(versions)
    assert found == f"/base/of/{taken}"
    assert line == f"tierscope: Python {taken} of {found}\n"


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (
            {"a/python3": "3.10.9", "a/python3.12": None},
            "a/python3 (3.10.9), a/python3.12 (does not run)",
        ),
        ({"a/python3": "3.11.9 of PyPy"}, "a/python3 (3.11.9 of PyPy)"),
        ({"a/python3.13": "3.13.0t"}, "a/python3.13 (3.13.0t)"),
        ({}, "no python3 and no python3.11 to 3.13 in PATH"),
    ],
)
def test_line_names_what_was_found_if_nothing_fits(search, versions, words):
    found, line = search(versions)
    assert not found
    assert line.startswith(f"tierscope: found {words}, {EXPECTED}")
    assert line.count("\n") == 1


def test_folder_of_the_name_is_none(search, tmp_path):
    (tmp_path / "a" / "python3").mkdir(parents=True)
    found, _ = search({"a/python3.11": "3.11.2", "b/python3": "3.12.3"})
    assert found == "/base/of/3.12.3"


def test_python_of_the_user_goes_before_all_others(search, tmp_path):
    versions = {"a/python3": "3.12.3", "my own/python": "3.11.4"}
    found, _ = search(versions, str(tmp_path / "my own" / "python"))
    assert found == "/base/of/3.11.4"


@pytest.mark.parametrize(
    ("named", "version"), [("python2.7", "2.7.18"), ("nothing", "does not run")]
)
def test_python_of_the_user_is_refused_if_it_does_not_fit(search, named, version):
    versions = {"a/python3": "3.12.3", "a/python2.7": "2.7.18"}
    found, line = search(versions, named)
    assert not found
    assert line.startswith(f"tierscope: PYTHON: got {named} ({version}), {EXPECTED}")
    assert line.count("\n") == 1


def test_this_python_fits_and_its_environment_names_what_it_was_made_from():
    done = environment("find", sys.executable)
    assert done.stdout == f"{sys._base_executable}\n"


def test_python_without_what_makes_environments_does_not_fit(tmp_path):
    (tmp_path / "ensurepip.py").write_text("raise ImportError('as on Debian')\n")
    done = environment("find", sys.executable, PYTHONPATH=str(tmp_path))
    assert not done.stdout
    assert f"({sys.version.split()[0]} without venv), {EXPECTED}" in done.stderr


@pytest.fixture
def made(tmp_path):
    """An environment of Python 3.12 in its clone, as `python -m venv` leaves it."""
    folder = tmp_path / ".venv"
    write_python(folder / "bin" / "python", "3.12.3 without venv")
    write_program(folder / "bin" / "pip", "exit 1")
    (folder / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    command = f"command = /usr/bin/python3 -m venv --clear {tmp_path.resolve()}/.venv\n"
    (folder / "pyvenv.cfg").write_text(command)
    return folder


def why_stale(made, *named):
    done = environment("stale", ".venv", *named, cwd=made.parent)
    assert not done.stderr
    return done.stdout.rstrip()


def test_environment_is_kept_while_it_can_be_used(made):
    assert not why_stale(made)
    write_python(made.parent / "same", "3.12.9")
    assert not why_stale(made, str(made.parent / "same"))


def test_environment_is_stale_if_its_clone_was_moved(made):
    moved = shutil.move(made.parent, f"{made.parent}-moved")
    assert why_stale(Path(moved, ".venv")) == "the clone was moved or copied"


def test_environment_is_stale_if_pip_is_not_there(made):
    (made / "bin" / "pip").unlink()
    assert why_stale(made) == "it has no pip"


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (None, "its Python is of no use (does not run)"),
        ("3.10.13", "its Python is of no use (3.10.13)"),
        ("3.13.5", "its Python has become 3.13.5"),
    ],
)
def test_environment_is_stale_if_the_system_has_another_python(made, version, why):
    write_python(made / "bin" / "python", version)
    assert why_stale(made) == why


def test_make_looks_for_python_where_the_user_does(made):
    """Not in the environment that it makes, though its own commands come from there."""
    copy_makefile(made.parent)
    write_python(made / "bin" / "python3", "3.12.3")
    write_python(made.parent / "path" / "python3", "3.13.0")
    done = make(made.parent, ".venv/pyvenv.cfg", "PYTHON=python3")
    assert "tierscope: Python 3.13.0 of /base/of/3.13.0\n" in done.stderr


@pytest.mark.parametrize("version", ["3.13.0", "2.7.18"])
def test_environment_is_stale_if_the_user_names_another_python(made, version):
    write_python(named := made.parent / "named", version)
    assert (
        why_stale(made, str(named))
        == f"it has Python 3.12, PYTHON is another one ({version})"
    )


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("3.12.3", "make: '.venv/pyvenv.cfg' is up to date."),
        ("3.10.13", "echo '.venv is made anew: its Python is of no use (3.10.13)'"),
    ],
)
def test_make_keeps_an_environment_or_says_why_not(made, version, says):
    write_python(made / "bin" / "python", version)
    copy_makefile(made.parent)
    done = make(made.parent, "-n", ".venv/pyvenv.cfg", "PYTHON=")
    assert not done.stderr
    assert says in done.stdout


def test_environment_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path):
    clone, other = tmp_path / "clone", tmp_path / "other"
    clone.mkdir()
    other.mkdir()
    (other / "kept").touch()
    (clone / ".venv").symlink_to(other)
    copy_makefile(clone)
    done = make(clone, ".venv/pyvenv.cfg", f"PYTHON={sys.executable}")
    assert done.returncode
    assert ".venv: got a link, whose folder would be emptied" in done.stdout
    assert (other / "kept").exists()
