"""Read the Darshan logs of a chunk, and join its jobs."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tierscope.core.files import log_to
from tierscope.logs.chunks.chunk import read_chunk
from tierscope.logs.chunks.listing import listed_logs
from tierscope.logs.settings import settings_of

_EVERY_S = 1.0
_UNITS = {"reading": "logs", "joining": "jobs"}


def say_progress() -> Callable[[str, int, int], None]:
    """Return a function that prints how much is done, not too often."""
    last_s = [time.monotonic()]

    def say(what: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - last_s[0] >= _EVERY_S or done == total:
            last_s[0] = now_s
            print(f"{what}: {done} of {total} {_UNITS[what]}", flush=True)

    return say


if __name__ == "__main__":
    log_to(snakemake.log[0])
    output = Path(snakemake.output.tables)
    settings = settings_of(**snakemake.params.settings)
    timeout_s = float(snakemake.resources.log_timeout_s)
    read_chunk(
        listed_logs(Path(snakemake.input.logs)),
        replace(settings, log_timeout_s=timeout_s),
        chunk=output.name,
        kept=Path(snakemake.params.kept),
        output=output,
        n_workers=snakemake.threads,
        progress=say_progress(),
    )
