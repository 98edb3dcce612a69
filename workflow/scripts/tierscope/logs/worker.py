"""A process that sums up logs for `tierscope.logs.reading`.

It says that it is `READY`, and reads lines of JSON: settings first, then a log's path
each. It answers each path with a line: the digest of the log's content, and the reason
if the log is refused, or why no log can be read any more. The summary is left in the
folder of the settings, under a name that `summary_path` returns.
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierscope.core.files import write_text
from tierscope.logs.summary import summarise
from tierscope.logs.tiers import AUTO, TierPrefix
from tierscope.trace.log import LogError, read_any_log

READY = "ready"
_BLOCK_BYTES = 1 << 20


def summary_path(folder: Path, digest: str, key: str) -> Path:
    """Return where the summary of a log is; `key` stands for settings and modules."""
    return folder / digest[:2] / f"{digest[2:32]}-{key[:16]}.json"


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.listdir(path)  # a folder of logs that must not be looked into
        if not stat.S_ISREG(mode):
            raise LogError(path, "is not a file.")
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise LogError(path, f"cannot be read: {error.strerror}.") from error
    return digest.hexdigest()


def answer(path: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Sum up a log unless that was done before; return its digest, or the reason.

    `stop` is why the other logs need not be tried.
    """
    found = {"log": path}
    try:
        found["digest"] = digest = content_digest(Path(path))
        kept = summary_path(Path(settings["folder"]), digest, settings["key"])
        if not kept.exists():
            tiers = settings["tiers"]
            if tiers != AUTO:
                tiers = [TierPrefix(*one) for one in tiers]
            log = read_any_log(path)
            summary = summarise(log, digest, tiers, settings["epochs"])
            try:
                write_text(kept, json.dumps(summary.as_json(), separators=(",", ":")))
            except OSError as error:
                found["stop"] = f"{kept}: cannot be written: {error.strerror}"
    except LogError as error:
        found["reason"] = str(error).removeprefix(f"{path}: ")
    except MemoryError:
        found["reason"] = "needs more memory than there is."
    return found


def main() -> None:
    """Answer the paths on standard input until it ends."""
    print(READY, flush=True)
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), settings)), flush=True)


if __name__ == "__main__":
    main()
