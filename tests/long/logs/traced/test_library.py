"""Where the tracer's library comes from."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import sessions
from tierscope.core.validation import ConfigError
from tierscope.logs.traced.library import NATIVE, tracer_library


@pytest.fixture(autouse=True)
def compiler(tmp_path, monkeypatch):
    """Compile without optimisation, a quarter of the time; return the compiler."""
    path = tmp_path / "compiler"
    path.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    return path


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return the folder of an installed package's source, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "native"
    shutil.copytree(NATIVE, folder)
    (folder / "Makefile").unlink()
    return folder


def test_clone_compiles_into_its_results(tmp_path):
    native = tmp_path / "workflow" / "native"
    shutil.copytree(NATIVE, native)
    library = tracer_library(native)
    assert library.relative_to(tmp_path / "results" / "native").name == (
        "libtierscope_trace.so"
    )
    compiled_ns = library.stat().st_mtime_ns
    assert tracer_library(native).stat().st_mtime_ns == compiled_ns


class LateMake:
    """A compilation that has begun and waits, as on a busy machine."""

    def __init__(self, compiler, folder):
        native = folder / "workflow" / "native"
        shutil.copytree(NATIVE, native)
        self.folder, self.command = folder, ["make", "--silent", "-C", native]
        self.begun, self.gate = folder / "begun", folder / "gate"
        wait = f"touch {self.begun}; while ! test -e {self.gate}; do sleep 0.01; done"
        self.process = sessions.start([*self.command, f"CC={wait}; {compiler}"], folder)
        while not self.begun.exists():
            assert self.process.poll() is None
            time.sleep(0.01)

    def compile_meanwhile(self):
        """Compile; return what the libraries are then."""
        subprocess.run(self.command, check=True)
        libraries = self.libraries()
        assert len(libraries) == 3
        return libraries

    def libraries(self):
        """Return the status of each file beside the libraries, and of these."""
        return {path: path.stat() for path in self.folder.glob("results/native/*/*")}


@pytest.fixture
def late_make(compiler, tmp_path):
    return LateMake(compiler, tmp_path)


def test_launches_that_compile_together_do_not_replace_what_one_has_loaded(late_make):
    libraries = late_make.compile_meanwhile()
    late_make.gate.touch()
    assert late_make.process.wait(sessions.HANG_S) == 0
    found = late_make.libraries()
    assert sorted(found) == sorted(libraries)
    pairs = [(before, found[path]) for path, before in libraries.items()]
    assert all(now.st_ino == before.st_ino for before, now in pairs)
    assert any(now.st_mtime_ns > before.st_mtime_ns for before, now in pairs)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_launch_leaves_the_libraries_of_another(late_make, signum):
    libraries = late_make.compile_meanwhile()
    os.killpg(late_make.process.pid, signum)
    assert late_make.process.wait(sessions.HANG_S) != 0
    assert late_make.libraries() == libraries


def test_new_source_replaces_a_library(tmp_path):
    native = tmp_path / "workflow" / "native"
    shutil.copytree(NATIVE, native)
    library = tracer_library(native)
    before = library.read_bytes()
    (native / "trace" / "trace.c").open("a").write("int tierscope_is_new;\n")
    os.utime(native / "trace" / "trace.c", (time.time() + 60,) * 2)
    assert tracer_library(native).read_bytes() != before


def test_installed_package_compiles_once_into_the_cache(
    installed, tmp_path, monkeypatch
):
    library = tracer_library(installed)
    assert library.parent == tmp_path / "cache" / "tierscope"
    assert library.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert tracer_library(installed) == library
    (installed / "trace" / "trace.c").open("a").write("/* a new version */\n")
    with pytest.raises(
        ConfigError, match="no-such-compiler: not found, but the tracer"
    ):
        tracer_library(installed)
    assert list(library.parent.iterdir()) == [library]


def test_clone_whose_path_cannot_be_preloaded_uses_the_cache(installed, tmp_path):
    native = tmp_path / "a clone" / "workflow" / "native"
    shutil.copytree(NATIVE, native)
    assert tracer_library(native) == tracer_library(installed)


def test_source_that_does_not_compile_is_one_line(installed):
    (installed / "trace" / "trace.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(ConfigError, match="compiling the tracer failed") as caught:
        tracer_library(installed)
    assert "\n" not in str(caught.value)


def test_cache_that_cannot_be_written_is_one_line(installed, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot make .*; set XDG_CACHE_HOME to"):
        tracer_library(installed)


def test_path_that_cannot_be_preloaded_is_refused(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(tmp_path, "a cache")))
    with pytest.raises(ConfigError, match="expected none in the path of a library"):
        tracer_library(installed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_library_that_another_user_has_prepared_is_refused(installed, tmp_path):
    library = tracer_library(installed)
    os.chown(library.parent, 4321, 4321)
    (tmp_path / "cache").chmod(0o1777)
    with pytest.raises(ConfigError, match="belongs to user 4321, who can replace it"):
        tracer_library(installed)
