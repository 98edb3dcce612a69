"""Interfaces of a loader, and of a feed of files whose paths are not known before."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from tierscope.core.description import LoaderSettings
from tierscope.storage.clock import Clock, Role

DEFAULT_BUFFER_BYTES = 1 << 18


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


class BatchLoader:
    """What loaders have in common that read each batch of files as a whole."""

    teller = Role.READER

    def __init__(
        self, batch_size: int, settings: LoaderSettings, clock: Clock | None = None
    ):
        self._batch_size, self._settings, self._clock = batch_size, settings, clock
        self._buffer_bytes = settings.buffer_bytes or DEFAULT_BUFFER_BYTES

    def _batches(self, paths: Sequence[str]) -> list[Sequence[str]]:
        """Return the paths of each batch."""
        size = self._batch_size
        return [paths[first : first + size] for first in range(0, len(paths), size)]

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Refuse files whose paths are not known before."""
        raise NotImplementedError("loader pytorch: got a policy that moves files")
