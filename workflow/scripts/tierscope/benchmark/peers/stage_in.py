"""Stage-in: the nodes copy the dataset from the GFS into the ad hoc file system."""

from collections.abc import Callable, Sequence

from tierscope.core.files import os_errors_as
from tierscope.core.machine import TierError


def stage_in(
    copy: Callable[[str], None],
    names: Sequence[str],
    node: int,
    raise_if_failed: Callable[[], None] = lambda: None,
) -> None:
    """Copy the files with these names, one after the other.

    `raise_if_failed` is called before each. A TierError says which file cannot be
    copied: the dataset would be incomplete.
    """
    for name in names:
        raise_if_failed()
        words = f"node {node}: cannot stage {name} in from the GFS"
        with os_errors_as(TierError, words):
            copy(name)
