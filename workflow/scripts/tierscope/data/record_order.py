"""The order in which processes read the records of a database.

There are two orders. ``blocks`` is that of LMDBIO, whose nodes read contiguous batches,
but blocks are shuffled every epoch: one node reads a block of contiguous records, and
its processes take one batch each in turn. ``records`` is the order of the TFRecord
files with the same seed, record by record, so every read is random.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tierscope.core.description import RunDescription
from tierscope.core.scenario import n_on_lfs
from tierscope.data.shuffle import RunOrder, process_share

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RecordOrder:
    """The order of a run.

    Parameters
    ----------
    n_records : int
        Size of the dataset.
    batch_size : int
        Records that a process consumes in a step.
    n_nodes, processes_per_node : int
        Size of the run.
    shuffle : {"global", "local"}
        Whether blocks (or records) are redistributed every epoch, or once.
    seed, repetition : int
        Seeds of the order.
    order : {"blocks", "records"}
        Unit of the shuffle.
    block_records : int
        Records per block; the last block may have fewer.
    """

    n_records: int
    batch_size: int
    n_nodes: int
    processes_per_node: int
    shuffle: str
    seed: int
    repetition: int
    order: str
    block_records: int

    @property
    def _records(self) -> RunOrder:
        """Return the order of the records as if each was a file."""
        n_processes = self.n_nodes * self.processes_per_node
        seeds = self.seed, self.repetition
        return RunOrder(self.n_records, n_processes, self.shuffle, *seeds)

    def of_process(
        self, rank: int, node: int, node_rank: int, epoch: int
    ) -> "np.ndarray":
        """Return the records that a process reads in an epoch, in reading order.

        Parameters
        ----------
        rank, node, node_rank : int
            The process, its node, and its number on the node.
        epoch : int
            The epoch.
        """
        import numpy as np

        if self.order == "records":
            return self._records.of_process(rank, epoch)
        n_blocks = -(-self.n_records // self.block_records)
        blocks = replace(self._records, n_files=n_blocks, n_processes=self.n_nodes)
        blocks = blocks.of_process(node, epoch)
        # After a short block, batches would no longer align with the fetches.
        blocks = blocks[np.argsort(blocks == n_blocks - 1, kind="stable")]
        parts = [
            step[process_share(len(step), node_rank, self.processes_per_node)]
            for block in blocks.tolist()
            for step in self._steps(block)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def of_processes(self, epoch: int) -> "list[np.ndarray]":
        """Return the records of all processes in an epoch, by rank."""
        n_processes = self.n_nodes * self.processes_per_node
        if self.order == "records":
            records = self._records.of_all(epoch)
            ranks = range(n_processes)
            shares = (process_share(len(records), one, n_processes) for one in ranks)
            return [records[share] for share in shares]
        return [
            self.of_process(rank, *divmod(rank, self.processes_per_node), epoch)
            for rank in range(n_processes)
        ]

    @property
    def most_records(self) -> int:
        """Return the largest number of records of any process in any epoch."""
        if self.order == "records":
            return math.ceil(self.n_records / (self.n_nodes * self.processes_per_node))
        n_blocks = math.ceil(self.n_records / self.block_records)
        n_steps = math.ceil(
            self.block_records / (self.batch_size * self.processes_per_node)
        )
        return math.ceil(n_blocks / self.n_nodes) * n_steps * self.batch_size

    def _steps(self, block: int) -> "list[np.ndarray]":
        """Return the records of a block that the node consumes in each step."""
        import numpy as np

        start = block * self.block_records
        records = np.arange(start, min(start + self.block_records, self.n_records))
        size = self.batch_size * self.processes_per_node
        return [records[at : at + size] for at in range(0, len(records), size)]

    def readers(self, nodes: list[int], epoch: int) -> "np.ndarray":
        """Return the process that reads each record in an epoch.

        Parameters
        ----------
        nodes : list of int
            Node of each rank.
        epoch : int
            The epoch.

        Returns
        -------
        ndarray of int, shape (n_records,)
            The rank; -1 if no process reads the record.
        """
        import numpy as np

        reader = np.full(self.n_records, -1)
        if self.order == "records":  # independent of the nodes
            for rank, part in enumerate(self.of_processes(epoch)):
                reader[part] = rank
            return reader
        n_seen = dict.fromkeys(nodes, 0)
        for rank, node in enumerate(nodes):
            reader[self.of_process(rank, node, n_seen[node], epoch)] = rank
            n_seen[node] += 1
        return reader


def first_records(n_records: int, cache_rate_percent: int) -> "np.ndarray":
    """Return whether each record is on the LFS, which holds the first ones.

    The LFS holds the first part of the file, so that the copy is one contiguous range;
    the order of reads depends only on the shuffle. The part is counted in records, not
    blocks, so that the cache rate equals that of other loaders. Two calls read the
    block at the border.
    """
    import numpy as np

    return np.arange(n_records) < n_on_lfs(n_records, cache_rate_percent)


def order_of(description: RunDescription, repetition: int) -> RecordOrder:
    """Return the order of a run's records."""
    dataset, system = description.dataset, description.system
    training, settings = description.training, description.lmdb
    return RecordOrder(
        n_records=dataset.n_files,
        batch_size=dataset.batch_size,
        n_nodes=system.n_nodes,
        processes_per_node=system.processes_per_node,
        shuffle=training.shuffle,
        seed=training.seed,
        repetition=repetition,
        order=settings.order,
        block_records=settings.block_records,
    )
