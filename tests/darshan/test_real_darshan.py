"""The tiny experiment on two plain directories, traced by a real Darshan runtime.

make test-darshan DARSHAN=/path/to/libdarshan.so
"""

import json
import os
import re
from pathlib import Path

import pytest
from darshan_sites import (
    CONFIG,
    POSIX,
    TENSORFLOW,
    counts,
    make_project,
    run_folder,
    run_json,
)
from tierscope.trace.log import read_any_log

LIBRARY = os.environ.get("TIERSCOPE_DARSHAN")

pytestmark = pytest.mark.skipif(
    not LIBRARY, reason="needs a Darshan runtime: make test-darshan DARSHAN=..."
)
SWEEP = CONFIG["sweep"] | {"loaders": ["posix", "tensorflow"]}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Return a project measured with the real runtime."""
    job = {"darshan": str(Path(LIBRARY).absolute())}
    project = make_project(tmp_path_factory, job, sweep=SWEEP)
    project.snakemake("audits")
    return project


@pytest.fixture(scope="module")
def builtin(tmp_path_factory):
    """Return a project measured with our tracer."""
    project = make_project(tmp_path_factory, {"darshan": "builtin"}, sweep=SWEEP)
    project.snakemake("audits")
    return project


@pytest.mark.parametrize("scenario", [POSIX, TENSORFLOW])
def test_runs_are_traced_by_it_and_audits_pass(real, scenario):
    tracer = run_json(real, scenario)["tracer"]
    library = str(Path(LIBRARY).absolute())
    assert tracer.items() >= {"runtime": "darshan", "library": library}.items()
    assert re.fullmatch(r"3\.\d+\.\d+.*", tracer["version"])
    folder = run_folder(real, scenario)
    assert json.loads((folder / "audit.json").read_text())["passed"]
    log = read_any_log(folder / "log.darshan")
    assert log.n_processes == run_json(real, scenario)["n_processes"] == 2
    assert re.fullmatch(r"3\.\d+\.\d+.*", log.metadata["lib_ver"])


@pytest.mark.parametrize("scenario", [POSIX, TENSORFLOW])
def test_its_log_counts_what_the_builtin_tracer_counts(real, builtin, scenario):
    assert counts(real, scenario) == counts(builtin, scenario)
    assert len(counts(real, scenario)) == 2 * 32
