"""Layouts of module records are those of Darshan."""

import pytest
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.posix_records import POSIX_RECORD


@pytest.mark.parametrize("interface", ["POSIX", "STDIO", "MPI-IO"])
def test_current_layout_has_the_counters_of_pydarshan(pydarshan, interface):
    backend = pydarshan.backend.cffi_backend
    counters = backend.counter_names(interface)
    timers = backend.fcounter_names(interface)
    layout = RECORD_TYPES[interface][max(RECORD_TYPES[interface])]
    assert list(layout.names) == ["id", "rank", *counters, *timers]
    assert all(layout[timer] == "<f8" for timer in timers)
    assert all(layout[counter] == "<i8" for counter in counters)


def test_layouts_have_the_sizes_of_darshan():
    """The sizes that ``darshan-<module>-logutils.c`` defines."""
    bytes_ = {
        interface: {version: layout.itemsize for version, layout in versions.items()}
        for interface, versions in RECORD_TYPES.items()
    }
    assert bytes_["POSIX"] == {1: 680, 2: 648, 3: 664, 4: 704}
    assert bytes_["STDIO"] == {1: 240, 2: 248}
    assert bytes_["MPI-IO"] == {1: 544, 2: 544, 3: 560}
    assert RECORD_TYPES["POSIX"][4] == POSIX_RECORD


def test_older_records_lack_counters_in_the_middle():
    posix = RECORD_TYPES["POSIX"]
    assert posix[4].names.index("POSIX_READS") == 5  # after id, rank, opens
    assert posix[3].names.index("POSIX_READS") == 3
    assert posix[1].names[8:12] == (
        "POSIX_FOPENS",
        "POSIX_FREADS",
        "POSIX_FWRITES",
        "POSIX_FSEEKS",
    )
    assert RECORD_TYPES["STDIO"][1].names[3] == "STDIO_READS"
