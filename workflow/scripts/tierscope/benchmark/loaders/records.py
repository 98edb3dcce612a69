"""References to records of a database, and a loader's notes of reading them."""

import resource
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import NamedTuple

import numpy as np

from tierscope.storage.clock import Clock

TIERS = ("gfs", "lfs")
_CALL = np.dtype(
    [
        ("epoch", "i4"),
        ("tier", "S3"),
        ("kind", "S5"),
        ("mapped", "?"),
        ("offset", "i8"),
        ("bytes", "i8"),
        ("time_s", "f8"),
        ("faults", "i8"),
    ]
)
_RECORD = np.dtype(
    [("epoch", "i4"), ("tier", "S3"), ("file_id", "i8"), ("reader", "i4")]
)
_USED = np.dtype(
    [
        ("epoch", "i4"),
        ("access_time_s", "f8"),
        ("major_faults", "i8"),
        ("minor_faults", "i8"),
        ("voluntary_switches", "i8"),
        ("involuntary_switches", "i8"),
    ]
)


class RecordReference(NamedTuple):
    """A sample that is a record of a database, and the tier from which it is read."""

    tier: str
    path: str
    record: int


@dataclass
class Usage:
    """Resources that the thread used during a measurement."""

    time_s: float = 0.0
    major_faults: int = 0
    minor_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0

    @property
    def faults(self) -> int:
        """Return the page faults of either kind."""
        return self.major_faults + self.minor_faults


@dataclass
class ReadLog:
    """Reads of a process since the run began, as rows of the run's tables.

    Faults and context switches are those of the thread while it reads, not while it
    waits for other processes. On emulated tiers they would be those of this machine, so
    they are not counted: a call has one charged fault, and table `faults` has no row.
    """

    rank: int
    clock: Clock
    is_counted: bool
    epoch: int = -1
    calls: list[tuple] = field(default_factory=list)
    records: list[tuple] = field(default_factory=list)
    used: dict[int, Usage] = field(default_factory=lambda: defaultdict(Usage))

    def begin_epoch(self) -> None:
        """Count the following reads for the next epoch."""
        self.epoch += 1
        self.used[self.epoch] = Usage()

    @contextmanager
    def measure(self) -> Iterator[Usage]:
        """Measure the thread's usage in the context, and add it to the epoch."""
        before, start_ns = (
            resource.getrusage(resource.RUSAGE_THREAD),
            self.clock.now_ns(),
        )
        usage = Usage()
        yield usage
        usage.time_s = (self.clock.now_ns() - start_ns) / 1e9
        after, total = resource.getrusage(resource.RUSAGE_THREAD), self.used[self.epoch]
        for name, counter in (
            ("major_faults", "ru_majflt"),
            ("minor_faults", "ru_minflt"),
            ("voluntary_switches", "ru_nvcsw"),
            ("involuntary_switches", "ru_nivcsw"),
        ):
            value = getattr(after, counter) - getattr(before, counter)
            setattr(usage, name, value)
            setattr(total, name, getattr(total, name) + value)
        total.time_s += usage.time_s

    def note_call(
        self,
        tier: str,
        kind: str,
        offset: int,
        n_bytes: int,
        usage: Usage,
        mapped: bool = False,
    ) -> None:
        """Note a read call, or an access to mapped memory."""
        self.calls.append(
            (
                self.epoch,
                tier,
                kind,
                mapped,
                offset,
                n_bytes,
                usage.time_s,
                usage.faults if self.is_counted else int(kind == "fault"),
            )
        )

    def note_record(self, tier: str, record: int, reader: int) -> None:
        """Note a record that this process got, and the process that read it."""
        self.records.append((self.epoch, tier, record, reader))

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """Return this process's part of the tables, as columns; texts are bytes."""
        used = [
            (epoch, *astuple(one))
            for epoch, one in sorted(self.used.items())
            if epoch >= 0 and self.is_counted
        ]
        return {
            "read_calls": self._columns(self.calls, _CALL),
            "record_reads": self._columns(self.records, _RECORD),
            "faults": self._columns(used, _USED),
        }

    def _columns(self, rows: list[tuple], row: np.dtype) -> dict[str, np.ndarray]:
        """Return rows as columns, the rank first, which MPI transfers fast."""
        table = np.array(rows, row)
        columns = {name: np.ascontiguousarray(table[name]) for name in row.names}
        return {"rank": np.full(len(table), self.rank), **columns}
