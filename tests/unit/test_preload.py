"""What our preload libraries say when they end a process, on any standard error."""

import os
import subprocess
from pathlib import Path

import pytest
from native import NATIVE
from sessions import HANG_S
from shared import made_once

PROGRAM = """
#include "preload.h"
#include <string.h>
#include <unistd.h>

/* `reused FILE`: as a program that closes descriptor 2 and opens a file of its own. */
int main(int n, char **words) {
  if (n > 2 && strcmp(words[1], "reused") == 0) {
    close(2);
    if (open(words[2], O_RDWR | O_CREAT, 0600) != 2)
      return 3;
  }
  say_last("the %s word", "last");
  return 4;
}
"""


def compile_program(folder: Path) -> None:
    """Compile a program that speaks as our libraries do."""
    (folder / "speak.c").write_text(PROGRAM)
    command = ["cc", "-I", NATIVE, "-o", folder / "speak", folder / "speak.c"]
    command += [NATIVE / "preload.c", "-ldl", "-pthread"]
    subprocess.run(command, check=True, timeout=HANG_S)


@pytest.fixture
def speak():
    """Return a function that runs the program by a shell."""
    program = made_once("speak", compile_program) / "speak"

    def run(*words, shell='exec "$@"', stderr=subprocess.PIPE):
        command = ["sh", "-c", shell, "sh", program, *words]
        return subprocess.run(command, stderr=stderr, timeout=HANG_S)

    return run


def test_last_word_is_a_line(speak):
    done = speak()
    assert (done.returncode, done.stderr) == (4, b"the last word\n")


def test_full_disk_changes_nothing(speak):
    assert speak(shell='exec "$@" 2>/dev/full').returncode == 4


def test_reader_that_is_gone_changes_nothing(speak):
    """The signal would end the program by another status."""
    reader, writer = os.pipe()
    os.close(reader)
    done = speak(stderr=writer)
    os.close(writer)
    assert done.returncode == 4


@pytest.mark.parametrize("shell", ['exec "$@"', 'exec "$@" 2>&-'])
def test_file_of_the_program_gets_no_word_of_ours(speak, tmp_path, shell):
    """Not if it took the place of standard error, nor if that was closed at start."""
    (own := tmp_path / "own").write_bytes(b"data")
    assert speak("reused", own, shell=shell).returncode == 4
    assert own.read_bytes() == b"data"


def test_limit_of_file_sizes_changes_nothing(speak, tmp_path):
    words = tmp_path / "words"
    shell = f'ulimit -f 0; exec "$@" 2>{words}'
    assert speak(shell=shell).returncode == 4
