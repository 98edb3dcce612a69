"""What joins the tracer of a site to the ranks."""

from pathlib import Path

import numpy as np  # noqa: F401 - the library that is loaded
import pytest
from tierscope.trace.tracer import SiteDarshan
from tierscope.validation import ConfigError


class Rank0:
    """Rank 0 of some processes, all of which answer as this one does but one."""

    def __init__(self, *others):
        self.others = others

    def gather(self, answer):
        return [answer, *self.others]


def loaded_library():
    """Return the path of a library that this process has loaded."""
    maps = Path("/proc/self/maps").read_text().split()
    return next(Path(word) for word in maps if word.endswith(".so") and "numpy" in word)


def test_darshan_that_all_processes_have_loaded_is_joined():
    SiteDarshan(loaded_library(), {}).join(Rank0(True, True))


def test_process_in_which_the_loader_refused_darshan_is_counted(tmp_path):
    with pytest.raises(ConfigError, match=r"is not loaded in 1 of 3 processes"):
        SiteDarshan(loaded_library(), {}).join(Rank0(True, False))
    with pytest.raises(ConfigError, match=r"is not loaded in 2 of 2 processes"):
        SiteDarshan(tmp_path / "libdarshan.so", {}).join(Rank0(False))
