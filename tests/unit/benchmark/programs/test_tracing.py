import subprocess
from pathlib import Path

import pytest
from tierscope.benchmark.programs.tracing import (
    OwnTracer,
    prepare_tracing,
    remove_counts,
    tracing_environment,
    with_preloadable_libraries,
)
from tierscope.core.validation import ConfigError

NODE = {
    "tracer": "/tracer.so",
    "library": "/redirect.so",
    "traced": ["/links", "/my data"],
}


def test_our_tracer_takes_any_path_and_needs_no_settings(tmp_path):
    node = NODE | {"spools": "/spools", "settings": str(tmp_path / "settings")}
    prepare_tracing(node, 8)
    assert not (tmp_path / "settings").exists()
    found = tracing_environment(node)
    assert found["TIERSCOPE_TRACE_PREFIXES"] == "/links/\n/my data/"


def test_logs_may_be_written_again_until_the_counts_are_removed(
    trace_library, redirect_library, tmp_path
):
    (tmp_path / "file").write_text("text")
    logs, tracer = tmp_path / "logs", OwnTracer(Path(trace_library))
    known = tracer.begin(logs) | {"library": redirect_library}
    environment = tracing_environment(known | {"traced": [str(tmp_path)]})
    subprocess.run(["cat", tmp_path / "file"], env=environment, check=True)
    found = tracer.end(logs, 1e10, [])
    (log,) = logs.glob("*.darshan")
    assert found["interference"]["n_processes"] == 1
    log.unlink()
    assert tracer.end(logs, 1e10, []) == found
    remove_counts(logs)
    assert list(logs.iterdir()) == [log]
    with pytest.raises(ConfigError, match="has no counts"):
        tracer.end(logs, 1e10, [])


def test_library_behind_a_blank_is_preloaded_by_a_link(tmp_path):
    node = NODE | {"tracer": "/my clone/libtierscope_trace.so"}
    found = with_preloadable_libraries(node, tmp_path)
    assert found == node | {"tracer": str(tmp_path / "libtierscope_trace.so")}
    assert Path(found["tracer"]).readlink() == Path("/my clone/libtierscope_trace.so")


def test_site_traces_only_the_tiers_behind_the_redirection(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/own.so")
    node = NODE | {"darshan_logs": "/logs", "settings": str(tmp_path / "settings")}
    prepare_tracing(node | {"traced": ["/links", "/data"]}, 8)
    assert "/data/" in Path(node["settings"]).read_text()
    found = tracing_environment(node)
    assert found["LD_PRELOAD"] == "/redirect.so:/tracer.so:/own.so"
    assert found["DARSHAN_CONFIG_PATH"] == node["settings"]
    assert found["DARSHAN_DISABLE_SHARED_REDUCTION"] == "1"


def test_path_that_a_site_cannot_trace_is_refused(tmp_path):
    node = NODE | {"darshan_logs": "/logs", "settings": str(tmp_path / "settings")}
    message = "^darshan.runtime: .*expected builtin.*expected none with white space"
    with pytest.raises(ConfigError, match=message):
        prepare_tracing(node, 8)
