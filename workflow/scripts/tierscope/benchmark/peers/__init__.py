"""Ad hoc file system at work: stage-in, a server a node, and reads from peers.

Every node copies the files that it owns from the GFS to its LFS, so each byte leaves
the GFS once. Then its processes read their node's files as always and ask the owners'
servers for the others. Three things are told apart by path, whichever tracer writes the
log: stage-in opens files through the aliases of background traffic
(``<tier root>.bg.ep0``), servers through ``<LFS root>.peer.ep<N>``, and the epochs' own
reads as always. Emulated devices serve all of them from the same queues.

A read from a peer is no POSIX call of the reader, so its process times it: from the
request until the last byte is there (class NET-READ). The owner reports how long its
LFS took of that. In place of servers there can be a mount; with
it that time is not known.
"""

from tierscope.benchmark.placement import PlacementError


class PeerError(PlacementError):
    """A node cannot get a file of another one."""
