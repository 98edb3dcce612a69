"""The devices of emulated tiers: they are told of all that virtual time must know."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.observations.watch import Unwatched
from tierscope.core.description import RunDescription
from tierscope.storage.clock import Role
from tierscope.storage.emulated.library import Emulation
from tierscope.storage.emulated.scale import scale_network

if TYPE_CHECKING:
    import numpy as np

    from tierscope.storage.probes import Client, Probe, Timing


class EmulatedDevices(Emulation, RealDevices):
    """The emulated devices of a launch. No cache of this machine disturbs them."""

    needs_memory = False

    def check_loader(self, loader: str) -> None:
        """Refuse no loader: those of virtual time are ours."""

    def preload(self) -> list[Path]:
        """Return the library of the devices."""
        return [self.library]

    def hold(self, source: Any, on_lfs: "np.ndarray", *, cold: bool) -> float:
        """Put a source's samples on this node's LFS; no device charges for it."""
        source.exchange(on_lfs)
        return 0.0

    def watch(
        self, run: RunDescription, processes, sentinel_paths: Callable[[], list[str]]
    ) -> Unwatched:
        """Return what watches nothing."""
        return Unwatched()

    def set_network(self, n_threads: int, file_bytes: int) -> None:
        """Describe the network of the modelled machine."""
        way_s, bytes_per_s = scale_network(self.system)
        self.clock.set_network(n_threads, way_s, file_bytes / bytes_per_s)

    def plan(
        self, run: RunDescription, n_files: int, n_steps: int, teller: Role | None
    ) -> None:
        """Announce the steps of workers, or the files that the process itself reads."""
        sample_s = self.system.devices.get("processor", {}).get("sample_s", 0.0)
        loader, dataset = run.loader, run.dataset
        if run.reads_by_workers:
            ahead = loader.workers, loader.prefetch_factor
            self.clock.plan_batches(n_steps, *ahead, sample_s)
            return
        self.clock.plan(
            n_files,
            dataset.file_size_bytes,
            dataset.batch_size,
            loader.prefetch_batches,
            sample_s,
            teller,
            meets=run.training.in_steps,
        )

    def time_text(self, time_s: float, real_s: float) -> str:
        """Return what is said of the time of an epoch, on both clocks."""
        return f"{time_s:.3f} s of virtual time, {real_s:.1f} s of real time"

    def duration_s(self, epochs_s: Iterable[float]) -> float:
        """Return how long a run took in virtual time."""
        return math.fsum(epochs_s)

    def probe(
        self, client: "Client", probe: "Probe", takes_part: bool, processes
    ) -> "Timing | None":
        """Let this process make a probe's calls between two barriers."""
        self.clock.barrier()
        try:
            with self.clock.act(processes.rank, Role.CONSUMER):
                timing = client.run(probe) if takes_part else None
        except OSError:
            self.clock.check()  # calls fail once the launch is stopped
            raise
        self.clock.barrier()
        return timing
