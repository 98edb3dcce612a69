"""Where the tracer's library comes from."""

import shutil
from pathlib import Path

import pytest
from tierscope.core.validation import ConfigError
from tierscope.jobs.traced.library import NATIVE, tracer_library


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return the folder of an installed package's source, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    folder = tmp_path / "native"
    folder.mkdir()
    shutil.copy(NATIVE / "trace.c", folder)
    return folder


def test_clone_compiles_into_its_results(tmp_path):
    native = tmp_path / "workflow" / "native"
    native.mkdir(parents=True)
    for name in ("Makefile", "trace.c"):
        shutil.copy(NATIVE / name, native)
    library = tracer_library(native)
    assert library.relative_to(tmp_path / "results" / "native").name == (
        "libtierscope_trace.so"
    )
    compiled_ns = library.stat().st_mtime_ns
    assert tracer_library(native).stat().st_mtime_ns == compiled_ns


def test_installed_package_compiles_once_into_the_cache(
    installed, tmp_path, monkeypatch
):
    library = tracer_library(installed)
    assert library.parent == tmp_path / "cache" / "tierscope"
    assert library.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert tracer_library(installed) == library
    (installed / "trace.c").open("a").write("/* a new version */\n")
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
    (installed / "trace.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(ConfigError, match="compiling the tracer failed") as caught:
        tracer_library(installed)
    assert "\n" not in str(caught.value)


def test_cache_that_cannot_be_written_is_one_line(installed, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot make .*: "):
        tracer_library(installed)


def test_path_that_cannot_be_preloaded_is_refused(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(tmp_path, "a cache")))
    with pytest.raises(ConfigError, match="expected none in the path of a library"):
        tracer_library(installed)
