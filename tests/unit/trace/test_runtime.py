"""The Darshan runtime of a site: found and set up before, its log checked after."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.core.scenario import Point
from tierscope.core.validation import ConfigError
from tierscope.trace.log import LogError, read_posix
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD
from tierscope.trace.runtime import (
    darshan_environment,
    darshan_settings,
    find_darshan_runtime,
)
from tierscope.trace.tracer import SiteDarshan, make_tracer

LOGS = Path(__file__).parents[2] / "data" / "darshan-logs"


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


def library_in(folder):
    """Return the path of an empty libdarshan.so."""
    folder.mkdir(parents=True)
    library = folder / "libdarshan.so"
    library.touch()
    return library


def test_runtime_of_a_loaded_module_is_found(tmp_path):
    library = library_in(tmp_path / "lib")
    environ = {"LD_LIBRARY_PATH": f"/nowhere::{library.parent}"}
    assert find_darshan_runtime("auto", environ) == library


def test_runtime_that_the_site_preloads_is_found_first(tmp_path):
    library, other = library_in(tmp_path / "lib"), library_in(tmp_path / "other")
    environ = {
        "LD_PRELOAD": f"libdarshan.so /lib/libc.so.6:{library}",
        "LD_LIBRARY_PATH": str(other.parent),
    }
    assert find_darshan_runtime("auto", environ) == library


@pytest.mark.parametrize("folder", ["lib", "lib64"])
def test_runtime_is_found_by_its_command(tmp_path, folder):
    library = library_in(tmp_path / folder)
    command = tmp_path / "bin" / "darshan-config"
    command.parent.mkdir()
    command.write_text("#!/bin/sh")
    command.chmod(0o755)
    environ = {"PATH": str(command.parent)}
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
    library = library_in(tmp_path / "lib")
    assert find_darshan_runtime(str(library), {}) == library


@pytest.mark.parametrize("setting", ["$SITE/libdarshan.so", "${SITE}/libdarshan.so"])
def test_variables_of_a_path_are_filled_in(tmp_path, setting):
    library = library_in(tmp_path / "lib")
    environ = {"SITE": str(library.parent)}
    assert find_darshan_runtime(setting, environ) == library


@pytest.mark.parametrize("environ", [{}, {"SITE": ""}])
def test_variable_that_is_not_set_is_named(environ):
    with pytest.raises(ConfigError, match=r"got '\$SITE/lib.*variable SITE is not set"):
        find_darshan_runtime("$SITE/libdarshan.so", environ)


def test_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"darshan\.runtime: got .*nothing\.so"):
        find_darshan_runtime(str(tmp_path / "nothing.so"), {})
    with pytest.raises(
        FileNotFoundError, match=r"got \$SITE/no\.so \(/nowhere/no\.so\)"
    ):
        find_darshan_runtime("$SITE/no.so", {"SITE": "/nowhere"})


@pytest.fixture
def description(tmp_path):
    """Return a run of 8 files by 4 processes in 3 epochs, traced by Darshan."""
    return describe_scenario(
        **{
            "system": {
                "name": "site",
                "n_nodes": 2,
                "processes_per_node": 2,
                "gfs": {"name": "gfs", "kind": "directory", "root": "/gfs/me"},
                "lfs": {"name": "lfs", "kind": "directory", "root": "$NODE/me"},
            },
            "dataset": {
                "name": "tiny",
                "n_files": 8,
                "file_size_bytes": 4096,
                "batch_size": 2,
            },
            "training": {"epochs": 3},
            "darshan": {"runtime": str(library_in(tmp_path / "lib"))},
        }
    )


def choose(description, staging, n_points=1):
    """Return the tracer of a launch."""
    points = [Point(50, repetition) for repetition in range(n_points)]
    runtime = find_darshan_runtime(description.runtime)
    return make_tracer(description, runtime, Path("native"), staging, points)


def test_site_without_darshan_is_said_to_be_traced_by_ourselves(
    description, tmp_path, monkeypatch
):
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tierscope.trace.runtime._find_in_cache", lambda environ: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NODE", "/node")
    description = changed(description, runtime="auto")
    assert choose(description, tmp_path, 2).describe()["runtime"] == "builtin"


def test_darshan_is_refused_for_a_launch_of_several_points(
    description, tmp_path, monkeypatch
):
    monkeypatch.setenv("NODE", "/node")
    with pytest.raises(ConfigError, match="writes one log per MPI job"):
        choose(description, tmp_path, 2)


def test_each_node_has_settings_for_its_own_local_file_system(
    description, tmp_path, monkeypatch
):
    staging = tmp_path / "with space"
    paths = []
    for node in ("/node0", "/node1", "/node1"):
        monkeypatch.setenv("NODE", node)
        environment = choose(description, staging).environment()
        log = staging / "cache-050" / "rep-0" / "log.darshan"
        assert environment["DARSHAN_LOGFILE"] == str(log)
        paths.append(Path(environment["DARSHAN_CONFIG_PATH"]))
    assert paths[0] != paths[1] == paths[2]
    assert r"NAME_INCLUDE ^/node0/me/data\.ep *" in paths[0].read_text()
    assert r"NAME_INCLUDE ^/node1/me/data\.ep *" in paths[1].read_text()
    assert "MAX_RECORDS 72 POSIX" in paths[1].read_text()  # 2 x 3, a quarter, 64
    assert sorted(staging.glob("*.*")) == sorted(set(paths))


def test_log_that_a_failed_run_left_is_removed(description, tmp_path, monkeypatch):
    monkeypatch.setenv("NODE", "/node")
    log = tmp_path / "cache-050" / "rep-0" / "log.darshan"
    log.parent.mkdir(parents=True)
    log.touch(0o400)
    choose(description, tmp_path)
    assert not log.exists()


def check(log, n_processes=4, after_end_s=-5):
    """Check a log as that of a run that started so long after the log's end."""
    try:
        end_s = read_posix(log)[0].end_time_s
    except LogError:
        end_s = 0
    started = datetime.fromtimestamp(end_s, UTC) + timedelta(seconds=after_end_s)
    SiteDarshan(Path("/site/libdarshan.so"), {}).check_log(log, n_processes, started)


@pytest.mark.parametrize(
    ("log", "n_processes"),
    [("mpi4_small_alias", 4), ("mpi4_large_alias", 4), ("mpi2_small_noreduce", 2)],
)
@pytest.mark.parametrize("after_end_s", [-5, 0])
def test_genuine_log_of_the_run_is_accepted(log, n_processes, after_end_s):
    check(LOGS / f"{log}.darshan", n_processes, after_end_s)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("mpi4_small_partial64", "is partial: Darshan ran out of memory"),
        ("mpi2_small_noreduce", "is of 2 processes, expected 4"),
        ("nonmpi_small_alias", "is of 1 processes, expected 4"),
        ("nonmpi_child_uname", "has no POSIX module"),
        ("nothing", "was not written when MPI ended: /site/libdarshan.so"),
    ],
)
def test_genuine_log_that_is_not_the_whole_run_is_refused(log, reason):
    with pytest.raises(LogError, match=rf"/{log}\.darshan: {reason}"):
        check(LOGS / f"{log}.darshan")


def test_log_of_an_earlier_time_is_refused():
    with pytest.raises(LogError, match=": is of an earlier run"):
        check(LOGS / "mpi4_small_alias.darshan", after_end_s=1)


def test_cut_and_damaged_logs_are_refused(tmp_path):
    data = (LOGS / "mpi4_small_alias.darshan").read_bytes()
    log = tmp_path / "log.darshan"
    log.write_bytes(data[:-100])
    with pytest.raises(LogError, match=r"log\.darshan: truncated"):
        check(log)
    log.write_bytes(data[:-100] + bytes(100))
    with pytest.raises(LogError, match=r"log\.darshan: corrupt in its POSIX records"):
        check(log)


def test_records_of_all_processes_together_are_refused(tmp_path):
    records = np.zeros(2, POSIX_RECORD)
    records["id"], records["rank"] = [1, 2], [0, -1]
    log = tmp_path / "log.darshan"
    write_log(
        log,
        {"POSIX": records},
        {1: "/gfs/data.ep0/a", 2: "/gfs/data.ep0/b"},
        LoggedJob(n_processes=4, exe="python", mounts={}, started_s=1, ended_s=9),
    )
    with pytest.raises(LogError, match="has 1 records shared by all processes"):
        check(log)
