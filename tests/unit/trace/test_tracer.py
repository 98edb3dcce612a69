"""What joins the tracer of a site to the ranks."""

import pytest
from tierscope.core.validation import ConfigError
from tierscope.trace.tracer import SiteDarshan
from unit.storage.test_preloaded import LOADED, MISSING, Processes, loaded


def test_darshan_that_all_processes_have_loaded_is_joined():
    SiteDarshan(loaded(), {}).join(Processes(LOADED, LOADED))


def test_process_in_which_the_loader_refused_darshan_is_counted(tmp_path):
    with pytest.raises(ConfigError, match=r"is not loaded in 1 of 3 processes"):
        SiteDarshan(loaded(), {}).join(Processes(LOADED, MISSING))
    with pytest.raises(ConfigError, match=r"is not loaded in 2 of 2 processes"):
        SiteDarshan(tmp_path / "libdarshan.so", {}).join(Processes(MISSING))
