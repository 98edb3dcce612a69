"""Ad hoc file system: one namespace over the nodes' LFS, each file on one node.

It follows the ad hoc file systems for deep learning (CLUSTER 2021) and GekkoFS, but
without chunks: a file's owner is the hash of its path modulo the number of nodes.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from tierscope.core.scenario import Dataset
from tierscope.policies.node import Place
from tierscope.policies.static import Fixed
from tierscope.policies.view import NodeView

if TYPE_CHECKING:
    import numpy as np

NO_NODE = -1  # owns nothing: only a mount knows the owners
_PART = 1 << 16  # so many files are hashed at a time


def file_owners(n_files: int, n_nodes: int) -> "np.ndarray":
    """Return the node that owns each file of a dataset: int, shape (n_files,).

    The hashes are kept, as a call of a million files takes a second without them.
    """
    import numpy as np

    parts = [_hashes(part) for part in range(-(-n_files // _PART))]
    return (np.concatenate(parts)[:n_files] % n_nodes).astype(np.int32)


@lru_cache(maxsize=160)
def _hashes(part: int) -> "np.ndarray":
    """Return the hash of each path of a part of the files of any dataset."""
    import numpy as np

    paths = map(Dataset.file_name, range(part * _PART, (part + 1) * _PART))
    digests = (blake2b(path.encode(), digest_size=8).digest() for path in paths)
    return np.frombuffer(b"".join(digests), ">u8")


class AdHoc(Fixed):
    """Reads staged files from their owner and the others from the GFS.

    `staged` and `owners` have an entry a file. The node is the reading one; `NO_NODE`
    if staged files are read through a mount.
    """

    def __init__(self, staged: "np.ndarray", owners: "np.ndarray", node: int):
        super().__init__(staged & (owners == node))
        self.staged, self.owners, self.node = staged, owners, node

    def begin_read(self, file_id: int) -> Place:
        """Return the own LFS or that of a peer; the GFS if the file is not staged."""
        if not self.staged[file_id]:
            return Place.GFS
        return Place.LFS if self.owners[file_id] == self.node else Place.PEER

    def files_of(self, node: int) -> "np.ndarray":
        """Return the staged files that a node owns, ascending."""
        import numpy as np

        return np.flatnonzero(self.staged & (self.owners == node))


def adhoc_of_node(view: NodeView) -> AdHoc:
    """Return the policy of a node; only a mount knows which node owns a file."""
    owners = file_owners(view.n_files, view.description.system.n_nodes)
    node = view.node if view.option("mount") is None else NO_NODE
    return AdHoc(view.pinning.on_lfs(), owners, node)
