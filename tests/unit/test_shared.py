"""What the tests share, and how their processes learn that they have ended."""

import os
import shutil
import subprocess
import sys

import pytest
import shared

BEGINS = (
    "import os, shared; shared.begin(); print(os.environ[{!r}], flush=True); input()"
)


@pytest.fixture
def beginning(tmp_path, monkeypatch):
    """Return a process that has made a folder for tests; others know the folder."""
    variable = "TIERSCOPE_TESTS_SHARED"
    monkeypatch.delenv(variable)
    environment = {
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.path.dirname(shared.__file__),
    }
    with subprocess.Popen(
        [sys.executable, "-c", BEGINS.format(variable)],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        folder = process.stdout.readline().strip()
        assert folder
        monkeypatch.setenv(variable, folder)
        yield process
        process.kill()


def test_tests_that_were_killed_have_ended(beginning):
    assert not shared.has_ended()
    beginning.kill()
    beginning.wait()
    assert shared.has_ended()


def test_tests_whose_folder_is_gone_have_ended(beginning):
    shutil.rmtree(os.environ["TIERSCOPE_TESTS_SHARED"])
    assert shared.has_ended()


def test_tests_begin_once(beginning):
    assert not shared.begin()


def test_folder_is_made_by_the_first_who_asks(beginning):
    made = []
    for _ in range(2):
        folder = shared.made_once("one", made.append)
    assert made == [folder]


def test_folder_of_one_who_failed_is_made_anew(beginning):
    def fail(folder):
        (folder / "half").touch()
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        shared.made_once("one", fail)
    assert list(shared.made_once("one", lambda _: None).iterdir()) == []
