"""Dynamic policies of our loaders: on each node one server decides, and threads copy.

Programs of the user need none of it (`tierscope.benchmark.programs.placing`). A server
that all ask, and hand their bytes to, decides at instants that virtual time knows.

The server is a thread of the node's first process. As in Monarch there is one decision
thread, so all processes of the node see one state and no lock is held during I/O. The
processes ask it over a Unix socket, not by MPI messages: a socket wakes a waiting
process at once, while MPI would spin or poll on cores that readers need; a socket needs
no MPI_THREAD_MULTIPLE; and the processes notice when a server ends and closes it.

Background traffic (the copies) opens its files through its own aliases,
``<tier root>.bg.ep<N>``. So the paths in a log of any tracer separate it from the
epochs' reads. Emulated devices serve both from the same queues.
"""


class PlacementError(RuntimeError):
    """A node's placement server no longer answers."""
