"""What Snakemake writes into shell lines, and the clones in which it cannot run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.utils import format as snakemake_format
from tierscope.core.validation import ConfigError
from tierscope.experiment.snakemake_internals import (
    ScriptInterpreter,
    refuse_clone,
    refuse_prepared,
    refuse_unquoted_interpreter,
)

# As Snakemake's `PythonScript.execute_script` does.
LINE = "{py_exec} {fname:q}"
SAYS = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"


@pytest.mark.parametrize("name", ["plain", "a b", 'it\'s $(x) "y" #%é;&'])
def test_script_runs_whatever_the_path_of_the_interpreter_and_hears_no_ctrl_c(
    tmp_path, name
):
    folder = tmp_path / name
    folder.mkdir()
    python, script = folder / "python", folder / "script.py"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    script.write_text(SAYS)
    words = {"py_exec": ScriptInterpreter(python), "fname": str(script)}
    line = snakemake_format(LINE, **words)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_interpreter_is_its_path_for_all_others():
    interpreter = ScriptInterpreter("/a b/python")
    assert type(str(interpreter)) is str
    assert subprocess.list2cmdline([interpreter]) == '"/a b/python"'


@pytest.mark.parametrize("sign", [":", "{", "}", "\n", "*", "?", "["])
def test_clone_whose_path_nobody_can_quote_is_refused_in_a_line(sign):
    with pytest.raises(ConfigError, match=r"got a clone with .* in its path") as error:
        refuse_clone(Path(f"/home/a{sign}b/tierscope"))
    assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
@pytest.mark.parametrize("name", [".snakemake", "resources", "results"])
def test_folder_in_which_another_user_has_prepared_something_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    os.chown(tmp_path / name, 4321, 4321)
    refuse_prepared(tmp_path)  # only its owner can have let the other user do it
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigError, match=f"{name}: belongs to user 4321, who can"):
        refuse_prepared(tmp_path)


def test_scripts_that_all_users_may_replace_are_refused_and_stay_as_they_are(tmp_path):
    scripts = tmp_path / ".snakemake" / "scripts"
    scripts.mkdir(parents=True)
    scripts.chmod(0o777)
    with pytest.raises(ConfigError, match="scripts: all users may replace what it"):
        refuse_prepared(tmp_path)
    assert scripts.stat().st_mode & 0o777 == 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_scripts_that_another_user_has_made_within_ours_are_refused(tmp_path):
    scripts = tmp_path / ".snakemake" / "scripts"
    scripts.mkdir(parents=True)
    os.chown(scripts, 4321, 4321)
    scripts.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="all users may replace what it holds"):
        refuse_prepared(tmp_path)


def test_clone_with_other_signs_is_taken():
    refuse_clone(Path("/home/it's me/$a #b %c é,=~&;(x)/tierscope"))


def test_interpreter_that_batch_jobs_cannot_start_is_refused():
    refuse_unquoted_interpreter("/opt/tierscope-1/.venv/bin/python")
    with pytest.raises(ConfigError, match="'/a b/python': got an interpreter whose"):
        refuse_unquoted_interpreter("/a b/python")
