"""Dynamic policies at work: on every node one server decides, and threads copy.

The server is a thread of the node's first process: one decision thread, as in Monarch,
so that all processes of the node see one state and no lock is held during I/O. The
processes ask it over a Unix socket and not by MPI messages: a socket wakes a waiting
process at once, where MPI would spin or poll on cores that readers need, it needs no
MPI_THREAD_MULTIPLE, and a server that ends closes it, which the others notice.

Background traffic (the copies) opens its files through aliases of its own,
``<tier root>.bg.ep<N>``, so a log tells it from the epochs' reads by path, whichever
tracer wrote it. Emulated devices serve both from the same queues.
"""


class PlacementError(RuntimeError):
    """A node's placement server does not answer any more."""
