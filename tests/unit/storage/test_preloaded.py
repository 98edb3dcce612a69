import hashlib
import mmap
from pathlib import Path

import numpy as np  # noqa: F401 - a library that is loaded
import pytest
from tierscope.core.validation import ConfigError
from tierscope.storage.preloaded import (
    REPLACED,
    digests_of_loaded,
    is_loaded,
    is_replaced,
    refuse_unless_loaded,
)
from tierscope.trace.tracer import BuiltinTracer

LOADED, MISSING, OLD = (True, False), (False, False), (False, True)


class Processes:
    """This process, and others that are told: have the library, have an old one."""

    rank, size = 0, 3

    def __init__(self, *others):
        self.others = others

    def gather(self, answer):
        return [answer, *self.others]

    def barrier(self):
        pass


def loaded():
    words = Path("/proc/self/maps").read_text().split()
    return next(
        Path(word) for word in words if word.endswith(".so") and "numpy" in word
    )


def test_library_of_the_same_name_elsewhere_is_not_loaded(tmp_path):
    other = tmp_path / loaded().name
    other.touch()
    assert is_loaded(loaded())
    assert not is_loaded(other)
    assert not is_loaded(tmp_path / "missing.so")


def test_link_to_a_loaded_library_is_loaded(tmp_path):
    link = tmp_path / "libother.so"
    link.symlink_to(loaded())
    assert is_loaded(link)


def test_paths_with_blanks_are_found(tmp_path):
    library = tmp_path / "with blank" / "lib x.so"
    library.parent.mkdir()
    library.touch()
    maps = f"7f00-7f01 r-xp 00000000 fd:00 12   {library}\n7f02-7f03 rw-p 0 00:00 0\n"
    assert is_loaded(library, maps)


def test_loaded_libraries_have_the_digests_of_their_files(tmp_path):
    trace, other = tmp_path / "libtrace.so.1", tmp_path / "my own.so"
    trace.write_bytes(b"one")
    other.write_bytes(b"two")
    (tmp_path / "link.so").symlink_to(other)
    lines = [f"7f-80 r-xp 00 fd:00 12   {path}\n" for path in (trace, trace, other)]
    maps = "".join([*lines, "7f-80 r-xp 00 fd:00 12   /x/libdevice.so (deleted)\n"])
    one, two = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))
    assert digests_of_loaded(("libtrace.so",), maps=maps) == {"libtrace.so.1": one}
    assert digests_of_loaded(("no",), tmp_path / "link.so", maps) == {"my own.so": two}
    replaced = {"libdevice.so (deleted)": REPLACED}
    assert digests_of_loaded(("libdevice.so",), maps=maps) == replaced
    assert digests_of_loaded(("no",), maps=maps) == {}


def test_library_of_this_process_is_digested():
    digest = hashlib.sha256(loaded().read_bytes()).hexdigest()
    assert digests_of_loaded(("none",), loaded()) == {loaded().name: digest}


def test_processes_without_the_library_are_counted():
    refuse_unless_loaded(loaded(), Processes(LOADED, LOADED))
    with pytest.raises(ConfigError, match=r"in 2 of 3 processes; the messages of ld"):
        refuse_unless_loaded(loaded(), Processes(MISSING, MISSING))


def test_library_that_was_replaced_during_the_start_is_named():
    with pytest.raises(ConfigError, match=r"in 1 of 3 processes; it was replaced"):
        refuse_unless_loaded(loaded(), Processes(OLD, LOADED))


def test_mapped_file_that_is_gone_was_replaced(tmp_path):
    library, other = tmp_path / "libx.so", tmp_path / "liby.so"
    library.write_bytes(b"x")
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert is_loaded(library)
        assert not is_replaced(library)
        other.write_bytes(b"x")
        other.replace(library)
        assert not is_loaded(library)
        assert is_replaced(library)
        library.unlink()
        assert is_replaced(library)
        assert not is_replaced(other)


def test_builtin_tracer_that_is_not_there_is_refused(tmp_path):
    tracer = BuiltinTracer(tmp_path / "libtierscope_trace.so", [])
    with pytest.raises(ConfigError, match=r"trace\.so: is not loaded in 3 of 3"):
        tracer.join(Processes(MISSING, MISSING))
