"""The devices of real tiers: nothing is done for them, and their caches are watched."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierscope.core.description import PYTORCH, RunDescription
from tierscope.core.machine import Machine, TierError
from tierscope.storage.clock import Clock, RealClock, Role
from tierscope.storage.pytorch import find_pytorch

if TYPE_CHECKING:
    import numpy as np

    from tierscope.benchmark.observations.watch import Unwatched
    from tierscope.storage.probes import Client, Probe, Timing

# Processes of a machine leave a barrier within about this time of each other.
_POLL_S = 0.00005


class RealDevices:
    """The devices of a launch; emulated ones override what they need.

    `clock` is that of the launch, once its processes have joined.
    """

    clock: Clock
    _drops_names = True  # until the machines disagree

    def __init__(self, system: Machine):
        self.system = system

    # ---- the start and the end of a launch ----------------------------------------

    def check_loader(self, loader: str) -> None:
        """Refuse a loader whose packages are missing, by a ConfigError."""
        if loader == PYTORCH:
            find_pytorch()

    def preload(self) -> list[Path]:
        """Return the libraries that the rank's interpreter must preload."""
        return []

    def environment(self) -> dict[str, str]:
        """Return the variables that the rank's interpreter must start with."""
        return {}

    def join(self, processes) -> None:
        """Start the clock of the launch; all processes call this."""
        self.clock = RealClock(processes.barrier)

    def stop(self) -> None:
        """End what waits for a device: nothing does."""

    def remove(self) -> None:
        """Remove the files of devices: there are none."""

    # ---- a run --------------------------------------------------------------------

    @property
    def needs_memory(self) -> bool:
        """Return whether the LFS must be in memory, as that of ideal runs."""
        return self.system.is_ideal

    def hold(self, source: Any, on_lfs: "np.ndarray", *, cold: bool) -> float:
        """Put a source's samples on this node's LFS; return the seconds that took."""
        return source.fill(on_lfs.nonzero()[0], cold=cold)

    def watch(
        self, run: RunDescription, processes, sentinel_paths: Callable[[], list[str]]
    ) -> "Unwatched":
        """Return what watches the tiers during a launch."""
        from tierscope.benchmark.observations.watch import Watch

        return Watch(run, processes, sentinel_paths)

    def reset(self) -> None:
        """Begin a run: nothing is to be reset."""

    def set_network(self, n_threads: int, file_bytes: int) -> None:
        """Describe how nodes read files from each other: the network is there."""

    def plan(
        self, run: RunDescription, n_files: int, n_steps: int, teller: Role | None
    ) -> None:
        """Announce what this process will read in an epoch: nobody has to know."""

    def time_text(self, time_s: float, real_s: float) -> str:
        """Return what is said of the time of an epoch, which took `real_s` here."""
        return f"{time_s:.3f} s"

    # ---- what is written ----------------------------------------------------------

    def duration_s(self, epochs_s: Iterable[float]) -> float | None:
        """Return how long a log's run took, None if that is for the tracer to say."""
        return None

    def described(self) -> dict[str, Any] | None:
        """Return the devices as a file has them, None for real ones."""
        return None

    describe = described  # with what they have counted

    # ---- probes -------------------------------------------------------------------

    def probe(
        self, client: "Client", probe: "Probe", takes_part: bool, processes
    ) -> "Timing | None":
        """Let this process make a probe's calls when all are ready, if it takes part.

        Before that caches are emptied: pages before reads, names before opens.
        """
        from tierscope.benchmark.observations.page_cache import names_can_be_dropped

        if probe.operation == "read":
            client.forget_pages()
        if probe.operation == "open" and self._drops_names:
            self._drops_names = names_can_be_dropped(processes)
        processes.barrier()  # this one polls slowly, the next one fast
        processes.barrier(_POLL_S)
        try:
            return client.run(probe) if takes_part else None
        except OSError as error:
            raise TierError(
                f"probe {probe.name}: {error}. If the dataset has changed since it was "
                "listed, put the old files back with their times (cp -p), and start "
                "again."
            ) from error
