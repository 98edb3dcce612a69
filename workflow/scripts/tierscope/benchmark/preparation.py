"""How the ranks of a launch start with libraries preloaded and variables set.

The job prepares once, before the launcher: `announce` prints the start of all ranks, a
shell text. The launcher then starts each rank as ``sh -c START tierscope COMMAND``. So
only the ranks' interpreters load the libraries, not the launcher.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

TENSORFLOW_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # unused here, and each rank prints a message
    "TF_USE_LEGACY_KERAS": "1",  # does not load Keras, a third of the start-up
    "CUDA_VISIBLE_DEVICES": "-1",
}

RANK_ENVIRONMENT = {
    # NumPy's threads spin when they start, half of its import; no rank multiplies
    # matrices.
    "OPENBLAS_NUM_THREADS": "1",
    # UCX below MPI patches the functions that map memory, which takes 40 ms. Large
    # messages over RDMA profit from it; ours are small.
    "UCX_MEM_MMAP_HOOK_MODE": "none",
    # Keep freed memory: otherwise glibc sometimes returns large batches to the kernel
    # and faults them in again, tens of thousands of times an epoch.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def announce(
    preload: Sequence[Path], environment: Mapping[str, str], unset: Sequence[str]
) -> None:
    """Print a line that executes a rank's command with libraries and variables."""
    variables = RANK_ENVIRONMENT | environment
    steps = [f"export {name}={quote(value)}" for name, value in variables.items()]
    if unset:
        steps.insert(0, f"unset {' '.join(unset)}")
    if preload:
        libraries = quote(":".join(map(_preloadable, preload)))
        others = '"${LD_PRELOAD:+:$LD_PRELOAD}"'
        steps.append(f"export LD_PRELOAD={libraries}{others}")
    print("; ".join([*steps, 'exec "$@"']))


def _preloadable(path: Path) -> str:
    """Return a path without the separators that LD_PRELOAD cannot quote."""
    for text in (str(path.absolute()), os.path.relpath(path)):
        if not set(" \t\n:") & set(text):
            return text
    sys.exit(f"tierscope: {path}: got a space or colon, expected none in this path.")
