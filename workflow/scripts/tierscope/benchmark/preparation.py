"""How the ranks of a launch start with libraries preloaded and variables set.

The job prepares once, before the launcher: `announce` prints what all ranks need, and
the job's shell exports it as ``TIERSCOPE_START``. Each rank then replaces itself by
itself with that (`start_again`), so only the ranks' interpreters carry the libraries.
This module imports little: thousands of ranks load it twice.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TENSORFLOW_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # of no use here, but a message from each rank
    "TF_USE_LEGACY_KERAS": "1",  # does not load Keras, a third of the start-up
    "CUDA_VISIBLE_DEVICES": "-1",
}

VARIABLE, PRELOADED = "TIERSCOPE_START", "TIERSCOPE_PRELOADED"
# Keep memory once it is there: else glibc gives large batches back to the kernel and
# faults them in again, tens of thousands of times an epoch, now and then.
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
        "environment": MEMORY_ENVIRONMENT | environment,
        "unset": unset,
    }
    print(json.dumps(start))


def start_again() -> None:
    """Replace this process by itself with what was prepared, unless it is done."""
    if os.environ.get(PRELOADED):
        return
    if VARIABLE not in os.environ:
        sys.exit(
            f"tierscope: {VARIABLE} is not set, expected what this command prints with "
            "--prepare: the launcher has to pass the environment to all ranks."
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
    """Return a path as LD_PRELOAD can hold it: it has no way to quote separators."""
    for text in (str(path.absolute()), os.path.relpath(path)):
        if not set(" \t\n:") & set(text):
            return text
    sys.exit(f"tierscope: {path}: got a space or colon, expected none in this path.")
