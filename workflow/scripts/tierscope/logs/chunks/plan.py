"""What rules ask of an analysis: its chunks, once listed, and their needs."""

from collections.abc import Callable
from typing import Any

from tierscope.core.scenario import MAIN_SWEEP
from tierscope.core.validation import read_json
from tierscope.logs.settings import CHUNKS, LISTING, worker_bytes

_MIB = 1 << 20
_CHUNK_MIB = 1200  # of the process that joins, besides those that read
_THREADS = 4  # on another machine
_LOGS_PER_THREAD = 250


class ChunkPlan:
    """The chunks of logs of an analysis.

    Parameters
    ----------
    results : str
        The folder of its results.
    wait : callable
        Returns when the logs are listed.
    cores : callable
        Returns the cores that chunks share on this machine, None if each runs on
        another one. Snakemake knows neither while it reads rules.
    """

    def __init__(
        self,
        results: str,
        wait: Callable[[], Any],
        cores: Callable[[], int | None],
    ) -> None:
        self._results, self._wait, self._cores = results, wait, cores
        self._listed = f"{results}/{LISTING}/chunks.json"

    def folders(self, wildcards: Any) -> list[str]:
        """Return the folders of the tables of all chunks, once they are listed."""
        self._wait()
        return [f"{self._results}/{CHUNKS}/{name}" for name in self._known()["chunks"]]

    def gathered(self, *names: str) -> Callable[[Any], list[str]]:
        """Return the function that names tables, once the logs are listed."""

        def files(wildcards: Any) -> list[str]:
            self._wait()
            return [f"{self._results}/{MAIN_SWEEP}/{name}.parquet" for name in names]

        return files

    def threads(self, wildcards: Any) -> int:
        """Return how many processes read a chunk.

        On this machine all chunks that have changed share the cores.
        """
        known = self._known()
        useful = -(-known["chunks"][wildcards.chunk]["n_logs"] // _LOGS_PER_THREAD)
        if (cores := self._cores()) is None:
            return min(_THREADS, useful)
        side_by_side = known["n_changed"] or len(known["chunks"])
        return max(1, min(cores // side_by_side, useful))

    def memory_mib(self, wildcards: Any, threads: int) -> int:
        """Return the memory that a chunk needs."""
        largest = self._known()["chunks"][wildcards.chunk]["largest_bytes"]
        return _CHUNK_MIB + threads * worker_bytes(largest) // _MIB

    def n_logs(self, wildcards: Any) -> int:
        """Return the number of logs of a chunk."""
        return self._known()["chunks"][wildcards.chunk]["n_logs"]

    def _known(self) -> dict[str, Any]:
        return read_json(self._listed)
