"""What a loader is, and what it reads where paths are not known before."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tierscope.storage.clock import Role


class Feed(Protocol):
    """The files of an epoch where each one's path is asked for when its turn comes.

    The methods are called from whichever threads the loader has.
    """

    def __len__(self) -> int:
        """Return how many files there are."""

    def path(self, index: int) -> str:
        """Return the path of the file of this index, which is opened next."""

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Note that a file was read whole; `content()` returns its bytes just now."""


class Loader(Protocol):
    """Reads files of one sample each in the order given.

    `teller` says who tells a feed of files that were read whole: the reader when it has
    closed one, or the consumer when it has taken the batch.
    """

    teller: Role

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Do the same with files whose paths are not known before."""
