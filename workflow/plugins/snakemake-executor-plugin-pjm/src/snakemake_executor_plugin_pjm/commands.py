"""Run PJM's commands, each with a time limit and without a shell."""

import subprocess

TIMEOUT_S = 60


class CommandError(Exception):
    """A command that could not be run or did not answer in time."""


class NoAnswerError(CommandError):
    """A command that did not answer in time; its effect is unknown."""


def run(command: list[str], timeout_s: float = TIMEOUT_S) -> tuple[int, str, str]:
    """Run a command to its end.

    Parameters
    ----------
    command : list of str
        Program and arguments.
    timeout_s : float
        Time limit in seconds, after which the command is killed.

    Returns
    -------
    tuple of int, str and str
        Exit code, standard output and standard error.

    Raises
    ------
    CommandError
        If the program cannot be run; a `NoAnswerError` if it takes too long.
    """
    try:
        # In a session of its own: Ctrl-C must not end a pjsub half-way.
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"{command[0]} did not answer in {timeout_s} s") from error
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be run ({error.strerror})") from error
    texts = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return done.returncode, *texts
