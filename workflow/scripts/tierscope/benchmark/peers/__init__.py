"""Ad hoc file system: stage-in, one server per node, and reads from peers.

Every node copies the files that it owns from the GFS to its LFS, so each byte leaves
the GFS once. Then its processes read the node's own files from the LFS and request the
others from the owners' servers. The paths in a log of any tracer separate three kinds
of traffic: stage-in opens files through the aliases of background traffic
(``<tier root>.bg.ep0``), servers through ``<LFS root>.peer.ep<N>``, and the epochs' own
reads through the usual aliases. Emulated devices serve all three from the same queues.

A read from a peer is not a POSIX call of the reader, so its process times it from the
request to the last byte (class NET-READ). The owner reports the part that its LFS took.
A mount can replace the servers; then that part is not known.
"""

from tierscope.benchmark.placement import PlacementError


class PeerError(PlacementError):
    """A node cannot get a file of another node."""
