"""How the ranks of a launch start with libraries preloaded and variables set.

The job prepares once, before the launcher: `announce` prints what all ranks need, and
the job's shell exports it as ``TIERSCOPE_START``. Each rank then executes itself again
with these settings (`start_again`), so only the ranks' interpreters load the libraries.
This module imports little because thousands of ranks load it twice.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TENSORFLOW_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # unused here, and each rank prints a message
    "TF_USE_LEGACY_KERAS": "1",  # does not load Keras, a third of the start-up
    "CUDA_VISIBLE_DEVICES": "-1",
}

# NumPy's threads spin when they start, half of its import; no rank multiplies matrices.
NUMPY_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}

VARIABLE, PRELOADED = "TIERSCOPE_START", "TIERSCOPE_PRELOADED"
# Keep freed memory: otherwise glibc sometimes returns large batches to the kernel and
# faults them in again, tens of thousands of times an epoch.
MEMORY_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def announce(
    preload: Sequence[Path], environment: Mapping[str, str], unset: Sequence[str]
) -> None:
    """Print what ranks need to start: libraries, variables, and what to unset."""
    start = {
        "preload": list(map(_preloadable, preload)),
        "environment": MEMORY_ENVIRONMENT | NUMPY_ENVIRONMENT | environment,
        "unset": unset,
    }
    print(json.dumps(start))


def start_again() -> None:
    """Execute this process again with the prepared settings, unless already done."""
    if os.environ.get(PRELOADED):
        return
    if VARIABLE not in os.environ:
        sys.exit(
            f"tierscope: {VARIABLE} is not set, expected the output of this command "
            "with --prepare; the launcher must pass the environment to all ranks."
        )
    start = json.loads(os.environ.pop(VARIABLE))
    for name in start["unset"]:
        os.environ.pop(name, None)
    os.environ |= start["environment"]
    os.environ[PRELOADED] = "1"
    libraries = [*start["preload"], os.environ.get("LD_PRELOAD")]
    if preloads := ":".join(filter(None, libraries)):
        os.environ["LD_PRELOAD"] = preloads
    os.execv(sys.executable, [sys.executable, *sys.argv])


def _preloadable(path: Path) -> str:
    """Return a path without the separators that LD_PRELOAD cannot quote."""
    for text in (str(path.absolute()), os.path.relpath(path)):
        if not set(" \t\n:") & set(text):
            return text
    sys.exit(f"tierscope: {path}: got a space or colon, expected none in this path.")
