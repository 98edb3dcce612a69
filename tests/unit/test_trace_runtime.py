"""Setting up the Darshan runtime of a site."""

import re

import pytest
from tierscope.trace import (
    darshan_environment,
    darshan_settings,
    find_darshan_runtime,
)


def parse(settings):
    """Return the values of each keyword."""
    values = {}
    for line in settings.splitlines():
        keyword, value = line.split(" ", 1)
        values.setdefault(keyword, []).append(value)
    return values


def test_settings_hold_every_record_of_a_process():
    settings = parse(darshan_settings(["/lfs/data.ep", "/gfs/data.ep"], 10_000, 200))
    (limit,) = settings["MAX_RECORDS"]
    n_records, module = limit.split()
    assert module == "POSIX"
    assert int(n_records) == 12564
    assert settings["MODMEM"] == ["11"]  # 12564 x 704 bytes are 8.4 MiB
    assert settings["NAMEMEM"] == ["8"]
    assert settings["MOD_DISABLE"] == ["STDIO,HEATMAP,MPI-IO"]


def test_memory_grows_with_records_and_paths():
    settings = parse(darshan_settings(["/gfs/data.ep"], 1_000_000, 1000))
    assert int(settings["MODMEM"][0]) << 20 > 1_000_000 * 704
    assert int(settings["NAMEMEM"][0]) << 20 > 1_000_000 * 1000


def test_settings_include_the_prefixes_and_exclude_the_rest():
    settings = parse(darshan_settings(["/g.f+s/data.ep", "/lfs"], 1))
    assert settings["NAME_EXCLUDE"] == [".* *"]
    patterns = [line.removesuffix(" *") for line in settings["NAME_INCLUDE"]]
    assert patterns == [r"^/g\.f\+s/data\.ep", "^/lfs"]
    assert re.match(patterns[0], "/g.f+s/data.ep0/s_1.bin")
    assert not re.match(patterns[0], "/gxf+s/data.ep0/s_1.bin")


@pytest.mark.parametrize(
    ("prefixes", "n_records"), [([], 1), (["/gfs"], 0), (["/with space"], 1)]
)
def test_settings_that_cannot_work_are_refused(prefixes, n_records):
    with pytest.raises(ValueError, match="got"):
        darshan_settings(prefixes, n_records)


def test_environment_keeps_records_of_each_process(tmp_path):
    log = tmp_path / "run.darshan"
    environment = darshan_environment("/run/darshan.conf", log)
    assert environment == {
        "DARSHAN_CONFIG_PATH": "/run/darshan.conf",
        "DARSHAN_LOGFILE": str(log),
        "DARSHAN_DISABLE_SHARED_REDUCTION": "1",
    }


def test_existing_log_is_refused(tmp_path):
    log = tmp_path / "run.darshan"
    log.touch()
    with pytest.raises(FileExistsError, match=r"run\.darshan"):
        darshan_environment("/run/darshan.conf", log)


def test_builtin_needs_no_runtime():
    assert find_darshan_runtime("builtin", {}) is None


def test_runtime_of_a_loaded_module_is_found(tmp_path):
    library = tmp_path / "libdarshan.so"
    library.touch()
    environ = {"LD_LIBRARY_PATH": f"/nowhere::{tmp_path}"}
    assert find_darshan_runtime("auto", environ) == library


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("\tlibdarshan.so.0 (libc6,x86-64) => /usr/lib/libdarshan.so.0", True),
        ("\tlibdarshan-util.so (libc6,x86-64) => /usr/lib/libdarshan-util.so", False),
        ("", False),
    ],
)
def test_runtime_in_the_system_cache_is_found(tmp_path, listing, expected):
    ldconfig = tmp_path / "ldconfig"
    ldconfig.write_text(f"#!/bin/sh\ncat <<'EOF'\n1 libs found\n{listing}\nEOF\n")
    ldconfig.chmod(0o755)
    found = find_darshan_runtime("auto", {"PATH": str(tmp_path)})
    assert (str(found) == "/usr/lib/libdarshan.so.0") == expected
    assert (found is None) != expected


def test_runtime_given_as_a_path_is_taken(tmp_path):
    library = tmp_path / "libdarshan.so"
    library.touch()
    assert find_darshan_runtime(str(library), {}) == library


def test_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"darshan\.runtime: got .*nothing\.so"):
        find_darshan_runtime(str(tmp_path / "nothing.so"), {})
