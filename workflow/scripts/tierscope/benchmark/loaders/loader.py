"""Interfaces of a loader, and of a feed of files whose paths are not known before."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from tierscope.storage.clock import Role


class Feed(Protocol):
    """The files of an epoch; the loader asks for each path when its turn comes.

    The loader may call the methods from any of its threads.
    """

    def __len__(self) -> int:
        """Return how many files there are."""

    def path(self, index: int) -> str:
        """Return the path of the file of this index, which the loader opens next."""

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Note that a file was read whole; for now `content()` returns its bytes."""


class Loader(Protocol):
    """Reads files of one sample each in the order given.

    `teller` is the role that reports whole files to a feed: the reader when it closes a
    file, or the consumer when it takes the batch. A loader that `reads_in_epochs_only`
    waits for the clock of an epoch.
    """

    teller: Role
    reads_in_epochs_only: bool

    def epoch(self, paths: Sequence[str]) -> Iterable[tuple[int, int]]:
        """Return an iterable of (samples, bytes) of each batch."""

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Do the same with files whose paths are not known before."""
