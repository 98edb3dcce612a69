"""The log of a node's placement server: the node's part of the table `decisions`."""

from dataclasses import dataclass, field

import numpy as np

from tierscope.policies.node import Place

_ROW = np.dtype(
    [
        ("time_s", "f8"),
        ("event", "S6"),
        ("epoch", "i4"),
        ("rank", "i4"),
        ("file_id", "i8"),
        ("place", "S4"),
        ("detail", "S11"),
    ]
)


@dataclass
class Decisions:
    """The log of a node's server: one row per event or decision.

    `rank` is the process of the server, which copies and evicts.
    """

    node: int
    rank: int
    started_ns: int = 0
    now_ns: int = 0  # instant of the next row
    rows: list[tuple] = field(default_factory=list)

    def pass_time(self, now_ns: int) -> None:
        """Set the instant of the next rows; real-time requests may overtake others."""
        self.now_ns = max(self.now_ns, now_ns)

    def add(
        self,
        event: str,
        epoch: int,
        file_id: int,
        place: Place,
        rank: int | None = None,
        detail: str = "",
    ) -> None:
        """Add a row (see the table `decisions`)."""
        time_s = (self.now_ns - self.started_ns) / 1e9
        rank = self.rank if rank is None else rank
        self.rows.append((time_s, event, epoch, rank, file_id, place.value, detail))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the node's part of the table `decisions`; texts are bytes."""
        rows = np.array(self.rows, _ROW)
        steps = {"node": np.full(len(rows), self.node), "step": np.arange(len(rows))}
        return steps | {name: rows[name] for name in _ROW.names}
