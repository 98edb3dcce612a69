"""How a signal ends Snakemake: it starts no job any more, and those here end, too."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tierscope.core.processes.children import listen
from tierscope.core.processes.times import children_of, start_time

_TERMINAL_S = 2.0  # for the jobs that a terminal has told, too
_POLL_S = 0.5


@dataclass
class Ending:
    """What a start of Snakemake does at SIGTERM and other signals that end.

    Snakemake itself waits for its jobs at SIGTERM, and leaves them alone at SIGHUP.

    Parameters
    ----------
    all_run_here : bool
        Whether all jobs are processes of this one. Otherwise Snakemake also asks a
        scheduler for its batch jobs, for which it goes on waiting at SIGTERM.
    tell : callable of str
        Receives a line for the user.
    """

    all_run_here: bool
    tell: Callable[[str], Any]

    def prepare(self) -> None:
        """Listen from now on; Snakemake has set its handler of SIGTERM before."""
        self._exit_gracefully = signal.getsignal(signal.SIGTERM)
        listen(self._begin)

    def _begin(self, signum: int, frame: Any) -> None:
        """End once, in a thread."""
        listen(lambda *_: None)
        running = children_of(os.getpid())  # not what asks a scheduler from now on
        # Snakemake 9's handler hangs on a lock that the interrupted thread may hold.
        threading.Thread(target=self._end, args=(signum, running), daemon=True).start()
        if signum == signal.SIGINT:
            raise KeyboardInterrupt

    def _end(self, signum: int, running: dict[int, int]) -> None:
        """Let Snakemake start no further job, and end those that run."""
        name = signal.Signals(signum).name
        self.tell(f"Terminating processes on user request ({name}).")
        if signum == signal.SIGINT:
            time.sleep(_TERMINAL_S)
        elif callable(self._exit_gracefully):
            self._exit_gracefully()
        _terminate(running)
        while self.all_run_here:  # Snakemake was about to start a job
            time.sleep(_POLL_S)
            found = children_of(os.getpid())
            _terminate(dict(found.items() - running.items()))
            running |= found


def _terminate(processes: dict[int, int]) -> None:
    """Ask processes that still run to end."""
    for pid, ticks in processes.items():
        if start_time(pid) == ticks:
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
