"""Write the log of the stand-in for Darshan, in a process of its own.

    write_log.py SPOOLS N_PROCESSES START_S

What the runtime would take from its environment is read there. STANDIN_FAULT is one of
``no log``, ``few records`` (no memory for all of them), ``truncated`` or ``copy PATH``:
a log of something else.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.spool import merge_records, open_spool


def most_records(settings: str, fault: str) -> int:
    """Return how many records a process may have."""
    (line,) = [line for line in settings.splitlines() if line.startswith("MAX_RECORDS")]
    return 3 if fault == "few records" else int(line.split()[1])


def main(spools: Path, n_processes: int, start_s: int) -> None:
    """Write the log, or what the fault leaves of it."""
    log, fault = Path(os.environ["DARSHAN_LOGFILE"]), os.environ.get("STANDIN_FAULT")
    if log.exists():
        sys.exit(f"libdarshan stand-in: unable to create log file {log}")
    if os.environ["DARSHAN_DISABLE_SHARED_REDUCTION"] != "1" or fault == "no log":
        return
    if fault and fault.startswith("copy "):
        shutil.copy(fault.removeprefix("copy "), log)
        return
    limit = most_records(Path(os.environ["DARSHAN_CONFIG_PATH"]).read_text(), fault)
    parts, origins, names, partial = [], [], {}, False
    for spool in sorted(spools.glob("*.spool")):
        one = open_spool(spool, must_be_whole=True)
        records, paths, origin_ns = one.records, one.names, one.origin_ns
        partial |= len(records) > limit
        parts.append(records[:limit])
        origins.append(np.full(len(parts[-1]), origin_ns))
        names |= dict(zip(parts[-1]["id"].tolist(), paths[:limit], strict=True))
    write_log(
        log,
        {"POSIX": merge_records(np.concatenate(parts), np.concatenate(origins))},
        names,
        LoggedJob(
            n_processes=n_processes,
            exe="run_benchmark.py",
            mounts={"/": "ext4"},
            started_s=start_s,
            ended_s=int(time.time()),
            metadata={"lib_ver": "stand-in"},
            partial=["POSIX"] if partial else [],
        ),
    )
    if fault == "truncated":
        log.write_bytes(log.read_bytes()[:-40])
    log.chmod(0o400)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    shutil.rmtree(sys.argv[1])
