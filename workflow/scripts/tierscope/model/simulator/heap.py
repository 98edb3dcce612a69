"""The heap of the events to come: the earliest first, those of an instant by tag.

An event is the arrival of a customer at a station; each customer has at most one.
"""

import numpy as np

from tierscope.model.simulator.compiling import compiled, inlined

# Times in the heap are whole numbers, too; as floats they are compared faster. A tag is
# the kind of the event and, below it, the customer's key: its place in the order of
# equal events, and its number in the lowest bits.
EVENT = np.dtype([("time_ns", "f8"), ("tag", "i8")])
CUSTOMER_BITS = 24
KEY_BITS = 2 * CUSTOMER_BITS
MOST_CUSTOMERS = 1 << CUSTOMER_BITS
NEVER = np.iinfo(np.int64).max


@inlined
def tag_of(kind, key):
    """Return the tag of an event of a customer."""
    return np.int64(kind) << KEY_BITS | key


@compiled
def empty_heap(n_customers):
    """Return a heap without events, with room for one of each customer.

    It is padded, so that every node has all its four children.
    """
    heap = np.zeros(n_customers + 4, EVENT)
    heap["time_ns"][:], heap["tag"][:] = NEVER, NEVER
    return heap


@inlined
def first_event(heap):
    """Return when the earliest event of the heap is, and which customer's."""
    return np.int64(heap[0].time_ns), heap[0].tag & (MOST_CUSTOMERS - 1)


@compiled
def _first_of_two(heap, a, b):
    """Return which of two events of the heap comes first."""
    one, other = heap[a], heap[b]
    if other.time_ns < one.time_ns:
        return b
    if other.time_ns == one.time_ns and other.tag < one.tag:
        return b
    return a


@compiled
def _first_of_four(heap, child):
    """Return which of four events that stand side by side comes first.

    Written without branches that depend on which it is, as nobody can predict that;
    that times are equal is rare and looked at apart.
    """
    a_ns, b_ns = heap[child].time_ns, heap[child + 1].time_ns
    c_ns, d_ns = heap[child + 2].time_ns, heap[child + 3].time_ns
    ab_ns, cd_ns = min(a_ns, b_ns), min(c_ns, d_ns)
    if (a_ns == b_ns) | (c_ns == d_ns) | (ab_ns == cd_ns):
        first = _first_of_two(heap, child, child + 1)
        return _first_of_two(heap, first, _first_of_two(heap, child + 2, child + 3))
    return child + (2 + (d_ns < c_ns) if cd_ns < ab_ns else (b_ns < a_ns) + 0)


@compiled
def _rise(heap, position, time_ns, tag):
    """Put an event into a hole of the heap, or as far above it as it is early."""
    while position > 0:
        parent = heap[(position - 1) >> 2]
        if parent.time_ns < time_ns or (parent.time_ns == time_ns and parent.tag < tag):
            break
        heap[position] = parent
        position = (position - 1) >> 2
    heap[position].time_ns, heap[position].tag = time_ns, tag


@inlined
def replace_root(heap, size, time_ns, tag):
    """Replace the earliest event of the heap, of four children a node, by a new one.

    The hole goes down to a leaf without asking whether the new event fits before: that
    is rarely so.
    """
    time_ns = np.float64(time_ns)
    position, child = 0, 1
    while child < size:
        first = _first_of_four(heap, child)
        heap[position] = heap[first]
        position, child = first, 4 * first + 1
    _rise(heap, position, time_ns, tag)


@compiled
def add_event(heap, size, time_ns, tag):
    """Add an event behind the last one of a heap of this size."""
    _rise(heap, size, time_ns, tag)


@compiled
def remove_root(heap, size):
    """Remove the earliest event of a heap of this size: the last takes its place."""
    time_ns, tag = heap[size - 1].time_ns, heap[size - 1].tag
    heap[size - 1].time_ns, heap[size - 1].tag = NEVER, NEVER
    if size > 1:
        replace_root(heap, size - 1, time_ns, tag)
