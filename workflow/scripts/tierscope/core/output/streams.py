"""Words on standard error and answers on standard output, on any stream.

The user may have closed a stream, its disk may be full, or its reader gone. Words are
lost then, and nothing else changes. An answer is what was asked for, so its loss is an
error.
"""

import argparse
import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from tierscope.core.words import error_words, printable

_N_STANDARD = 3  # descriptors
_UNREAD = 128 + 13  # exit status of a program whose reader is gone, by SIGPIPE
_SPARE_LOG = "TIERSCOPE_SPARE_LOG"  # as the logger of Snakemake has set it
_MOST_SPARE_BYTES = 1 << 20


def say(text: str) -> None:
    """Print lines to standard error, if that is possible."""
    lines = "\n".join(map(printable, text.split("\n")))
    if sys.stderr is not None:  # `print` takes standard output in its place
        with suppress(OSError, ValueError):
            print(lines, file=sys.stderr, flush=True)


def say_beside(log: str | Path, text: str) -> None:
    """Say what a log cannot take, as on a full disk.

    The logger of Snakemake shows it after the words of the log. It reads a file in its
    memory, which needs no disk. On another machine, and without that logger, standard
    error gets the text.
    """
    place, _, name = os.environ.get(_SPARE_LOG, "").partition(" ")
    line = json.dumps([os.path.abspath(log), text]) + "\n"
    with suppress(OSError):
        if name and os.readlink(place) == name:
            with open(place, "ab", buffering=0) as file:
                if file.tell() < _MOST_SPARE_BYTES:
                    file.write(line.encode())
                    return
    with suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace"))


def say_step(line: str) -> None:
    """Print a step of a fit so that the terminal shows it while the script runs."""
    print(f"fit: {line}")


def say_error(error: BaseException) -> None:
    """Print an error that nobody expected, and where it was raised."""
    say("".join(traceback.format_exception(error)).rstrip())


def end(line: str) -> NoReturn:
    """Say in a line why a command cannot go on, and end it."""
    say(line)
    sys.exit(1)


def run_and_exit(main: Callable[[], object]) -> NoReturn:
    """Call a main function, and end this process at once, with the status it gives.

    While Python ends, it has no handlers, and a signal kills it. A launcher would then
    kill the other ranks, which may be cleaning up.
    """
    status: object = 1
    try:
        main()
        status = 0
    except SystemExit as error:
        status = error.code or 0
    except BaseException as error:
        say_error(error)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status if isinstance(status, int) else 1)


@contextmanager
def ending_on(*kinds: type[BaseException]) -> Iterator[None]:
    """Let an error of these kinds end the command with a line."""
    try:
        yield
    except kinds as error:
        end(f"tierscope: {error_words(error)}")


def answer(text: str) -> None:
    """Print to standard output what was asked for, or end the command.

    If the reader has seen enough, as ``head`` has, no word is said.
    """
    try:
        _write(text)
    except OSError as error:
        sys.stdout = None  # what its buffer holds would fail again at the end
        if error.errno == errno.EPIPE:
            sys.exit(_UNREAD)
        end(f"tierscope: cannot write to standard output: {error.strerror}.")


def _write(text: str) -> None:
    """Print to standard output; letters that its encoding lacks become escapes."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    encoding = sys.stdout.encoding or "utf-8"
    known = text.encode(encoding, "backslashreplace").decode(encoding)
    print(known, flush=True)


def hold_closed_streams(*, for_children: bool = False) -> None:
    """Keep the numbers of standard streams that are closed from files of ours.

    What this process starts finds them closed, or, if `for_children`, open as well.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _N_STANDARD:
        os.set_inheritable(descriptor, for_children)
    os.close(descriptor)


class Parser(argparse.ArgumentParser):
    """A parser of arguments whose help is an answer, and whose errors are words."""

    def error(self, message: str) -> NoReturn:
        """Say how the command is used and what is wrong."""
        say(f"{self.format_usage()}{self.prog}: error: {message}")
        sys.exit(2)

    def _print_message(self, message: str, file: object = None) -> None:
        answer(message.rstrip("\n"))
