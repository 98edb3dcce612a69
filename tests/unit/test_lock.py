import fcntl
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tierscope.lock import LockedError, lock_experiment

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"


def test_second_lock_is_refused_until_the_first_is_given_back(tmp_path):
    first = lock_experiment(tmp_path / "results")
    with pytest.raises(LockedError, match="another snakemake is working"):
        lock_experiment(tmp_path / "results")
    first.close()
    lock_experiment(tmp_path / "results").close()


def test_lock_that_another_machine_has_not_given_back_is_refused(tmp_path):
    (tmp_path / ".lock").write_text("login2 77")
    with pytest.raises(
        LockedError, match=r"snakemake 77 on login2 .* remove this file"
    ):
        lock_experiment(tmp_path)


def test_lock_of_a_killed_process_here_is_taken_over(tmp_path):
    (tmp_path / ".lock").write_text(f"{platform.node()} 1")
    lock_experiment(tmp_path).close()


def test_lock_is_given_back_when_the_process_ends(tmp_path):
    code = f"from tierscope.lock import *; l = lock_experiment(Path({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
    )
    assert (tmp_path / ".lock").read_text() == ""


def test_file_system_without_locks_is_said_and_borne(tmp_path, monkeypatch, capsys):
    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    lock_experiment(tmp_path).close()
    assert "cannot lock: Function not implemented" in capsys.readouterr().err
