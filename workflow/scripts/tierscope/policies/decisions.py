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
LATE = "late"  # decided before the last change of the file's place
UNSEEN = "unseen"  # the end of a read whose close nobody saw
NO_GROUP = -1  # of a program, in place of a rank: what the node does itself
_MOST_ROWS = 1 << 16  # as tuples, which take five times the memory


@dataclass
class Decisions:
    """The decisions of a node: one row per event or decision, in the order of `ROW`.

    `rank` is the process that copies and evicts.
    """

    node: int
    rank: int
    started_ns: int = 0
    now_ns: int = 0  # instant of the next row
    _rows: list[tuple] = field(default_factory=list)
    _parts: list[np.ndarray] = field(default_factory=list)
    n_rows: int = 0

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
        row = (self.node, self.n_rows, time_s, event, epoch, rank, file_id)
        self._rows.append((*row, place.value, detail))
        self.n_rows += 1
        if len(self._rows) == _MOST_ROWS:
            self._parts.append(np.array(self._rows, ROW))
            self._rows = []

    def table(self) -> np.ndarray:
        """Return the node's rows, `ROW`."""
        return np.concatenate([*self._parts, np.array(self._rows, ROW)])

    def columns(self) -> dict[str, np.ndarray]:
        """Return the node's part of the table `decisions`; texts are bytes."""
        return columns_of(self.table())


def columns_of(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return rows of `ROW` as columns."""
    return {name: rows[name] for name in ROW.names}
