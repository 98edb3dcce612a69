"""A process that sums up logs for `tierscope.logs.reading`.

It says that it is `READY`, and reads lines of JSON: settings first, then a log's path
each. It answers each path with a line: the digest of the log's content and what tells
its job, or the reason if the log is refused, and whether it may pass. The summary is in
a second line.
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierscope.logs.summary import Summary, summarise
from tierscope.logs.tiers import AUTO, OTHER, UNNAMED, TierPrefix
from tierscope.trace.darshan.inflation import Inflation
from tierscope.trace.log import LogError, read_any_log

READY = "ready"


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LogError(path, f"cannot be read: {error.strerror}.") from error


def refuse_no_file(path: Path) -> None:
    """Raise a LogError if there is no file, before a pipe is waited for."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.listdir(path)  # a folder of logs that must not be looked into
    except OSError as error:
        raise LogError(path, f"cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(mode):
        raise LogError(path, "is not a file.")


def answer(path: str, settings: Mapping[str, Any]) -> list[str]:
    """Sum up a log; return the lines of the answer."""
    found = {"log": path}
    try:
        refuse_no_file(Path(path))
        # A huge file is no log, which its beginning tells.
        log = read_any_log(path, Inflation(**settings["inflation"]))
        found["digest"] = digest = content_digest(Path(path))
        tiers = settings["tiers"]
        if tiers != AUTO:
            tiers = [TierPrefix(*one) for one in tiers]
        summary = summarise(log, digest, tiers, settings["epochs"])
        found["facts"] = facts_of(summary)
        return [json.dumps(found), json.dumps(summary.as_json(), separators=(",", ":"))]
    except LogError as error:
        found["reason"] = str(error).removeprefix(f"{path}: ")
        found["may_pass"] = may_pass(error.__cause__)
    except MemoryError as error:
        found["reason"] = "needs more memory than there is."
        found["may_pass"] = may_pass(error)
    return [json.dumps(found)]


def may_pass(error: BaseException | None) -> bool:
    """Return whether a log may be read later though it does not change.

    A log that is not there has other values if it comes.
    """
    missing = FileNotFoundError | NotADirectoryError
    return isinstance(error, OSError | MemoryError) and not isinstance(error, missing)


def facts_of(summary: Summary) -> dict[str, Any]:
    """Return what tells to which job a log belongs: `grouping.LogFacts`."""
    names = ("uid", "job_id", "n_processes", "started_s", "ended_s", "exe", "metadata")
    facts = {name: summary.facts[name] for name in names}
    on_tiers = (cell[1] not in (OTHER, UNNAMED) for cell in summary.cells)
    return facts | {"has_io": any(on_tiers)}


def main() -> None:
    """Answer the paths on standard input until it ends."""
    print(READY, flush=True)
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print("\n".join(answer(json.loads(line), settings)), flush=True)


if __name__ == "__main__":
    main()
