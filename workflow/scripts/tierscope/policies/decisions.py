"""What a node decides, measured or simulated: its part of the table `decisions`."""

from dataclasses import dataclass, field

import numpy as np

from tierscope.policies.node import Place

ROW = np.dtype(
    [
        ("node", "i8"),
        ("step", "i8"),
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
    """The decisions of a node: one row per event or decision, in the order of `ROW`.

    `rank` is the process that copies and evicts.
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
        row = (self.node, len(self.rows), time_s, event, epoch, rank, file_id)
        self.rows.append((*row, place.value, detail))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the node's part of the table `decisions`; texts are bytes."""
        rows = np.array(self.rows, ROW)
        return {name: rows[name] for name in ROW.names}
