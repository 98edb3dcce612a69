"""Stage-in: the nodes copy the dataset from the GFS into the ad hoc file system."""

from collections.abc import Callable, Sequence

from tierscope.core.machine import TierError


def stage_in(
    copy: Callable[[str], None],
    names: Sequence[str],
    node: int,
    raise_if_failed: Callable[[], None] = lambda: None,
) -> None:
    """Copy the files with these names, one after the other.

    Parameters
    ----------
    copy : callable
        Copies the file with a given name.
    names : sequence of str
        Names of the files.
    node : int
        Index of this node.
    raise_if_failed : callable
        Raises an error if another process has failed; called before each file.

    Raises
    ------
    TierError
        If a file cannot be copied: the dataset would be incomplete.
    """
    for name in names:
        raise_if_failed()
        try:
            copy(name)
        except OSError as error:
            raise TierError(
                f"node {node}: cannot stage {name} in from the GFS: {error.strerror}."
            ) from error
