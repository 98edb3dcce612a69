import json
import sys

import pytest
from descriptions import describe_scenario
from tierscope.benchmark.run_folder import is_complete, software_versions

PROGRAM = {"command": ["train", "{dataset}"], "in_place": False}


@pytest.mark.parametrize("sections", [{}, {"program": PROGRAM}])
def test_run_is_complete_with_its_log_or_logs_and_this_description(tmp_path, sections):
    description = describe_scenario(**sections)
    (tmp_path / "run.json").write_text(json.dumps({"hash": description.hash}))
    names = ["epochs", *(("opens", "marks", "program_processes") if sections else ())]
    for name in names:
        (tmp_path / f"{name}.parquet").touch()
    assert not is_complete(tmp_path, description)
    if sections:
        (tmp_path / "logs").mkdir()
    else:
        (tmp_path / "log.darshan").touch()
    assert is_complete(tmp_path, description)
    other = describe_scenario(**sections, training={"seed": 2})
    assert not is_complete(tmp_path, other)


@pytest.mark.parametrize("lacks", ["mpi4py", "mpi4py.MPI"])
def test_measurement_without_mpi_has_an_mpi_of_unknown_version(monkeypatch, lacks):
    monkeypatch.setitem(sys.modules, lacks, None)
    versions = software_versions()
    assert versions["mpi"] == "unknown"
    assert versions["python"]


def test_measurement_goes_on_if_the_library_of_mpi_is_missing(monkeypatch):
    def load():
        raise RuntimeError("cannot load MPI library")

    monkeypatch.setattr("tierscope.benchmark.run_folder.load_mpi", load)
    assert software_versions()["mpi"] == "unknown"
