"""What parts of a log may inflate to: keys of a configuration of logs."""

from dataclasses import dataclass
from typing import Annotated

from tierscope.core.given.keys import from_to

_FACTOR = from_to(1, 1_000_000)


@dataclass(frozen=True)
class Inflation:
    """How many bytes a part of a log may have for each that it takes there."""

    names: Annotated[
        int, _FACTOR, "For names; paths of over 900 letters may need more."
    ] = 48
    records: Annotated[int, _FACTOR, "For records of a module."] = 500


USUAL = Inflation()
OURS = Inflation(1 << 40, 1 << 40)  # of logs that nobody else makes
