"""How the ranks of a launch start with libraries preloaded and variables set.

The job prepares once, before the launcher: `announce` prints a shell line, START. The
launcher then starts each rank as ``/bin/sh -c START tierscope COMMAND``. So only the
ranks' interpreters load the libraries; launcher and shell do not.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from tierscope.core.output.streams import answer, end

TENSORFLOW_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # unused here, and each rank prints a message
    "TF_USE_LEGACY_KERAS": "1",  # does not load Keras, a third of the start-up
    "CUDA_VISIBLE_DEVICES": "-1",
}

_STARTED = "TIERSCOPE_STARTED"
RANK_ENVIRONMENT = {
    _STARTED: "1",
    # NumPy's threads spin when they start, half of its import; no rank multiplies
    # matrices.
    "OPENBLAS_NUM_THREADS": "1",
    # Keep freed memory: otherwise glibc sometimes returns large batches to the kernel
    # and faults them in again, tens of thousands of times an epoch.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}

# When MPI starts, UCX patches the functions that map memory, which takes 40 ms of a
# rank's processor time. MPI over RDMA uses that for large messages; a site may want it.
_UCX_HOOKS = "UCX_MEM_MMAP_HOOK_MODE"


def announce(
    preload: Sequence[Path], environment: Mapping[str, str], unset: Sequence[str]
) -> None:
    """Print the shell line that executes a rank's command with all that it needs."""
    variables = RANK_ENVIRONMENT | environment
    steps = [f"export {name}={quote(value)}" for name, value in variables.items()]
    steps.append(f'export {_UCX_HOOKS}="${{{_UCX_HOOKS}:-none}}"')
    if unset:
        steps.insert(0, f"unset {' '.join(unset)}")
    if preload:
        libraries = quote(":".join(map(_preloadable, preload)))
        others = '"${LD_PRELOAD:+:$LD_PRELOAD}"'
        steps.append(f"export LD_PRELOAD={libraries}{others}")
    answer("; ".join([*steps, 'exec "$@"']))


def refuse_unless_started() -> None:
    """End this process if the shell line has not started it."""
    if _STARTED not in os.environ:
        end(
            "tierscope: got a rank that was started directly, expected "
            "/bin/sh -c START, with what this command prints with --prepare as START."
        )


def _preloadable(path: Path) -> str:
    """Return a path without the separators that LD_PRELOAD cannot quote."""
    for text in (str(path.absolute()), os.path.relpath(path)):
        if not set(" \t\n:") & set(text):
            return text
    end(f"tierscope: {path}: got a space or colon, expected none in this path.")
