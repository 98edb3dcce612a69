"""A file of ours that is empty or cut short ends in a line that says what to delete.

A power cut leaves such files. Each reader of JSON, tables, arrays and leases is here.
"""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.programs.ended.kept import ended_program
from tierscope.benchmark.programs.ended.own_changes import changed_by_program
from tierscope.core.description import ProbeDescription, Run, RunDescription
from tierscope.core.files import write_array
from tierscope.core.parquet import read_parquet
from tierscope.core.tables import empty_table, open_table, read_table, write_table
from tierscope.core.validation import read_json
from tierscope.data.lmdb.file import (
    provenance_here,
    read_checksums,
    read_provenance,
)
from tierscope.experiment.start import read_run
from tierscope.logs.chunks.listing import listed_logs
from tierscope.model.calibration.uncertainty import Uncertainty
from tierscope.model.programs.description import ModelledProgram
from tierscope.storage import lease
from tierscope.storage.lease import Holder, Lease

JSON = json.dumps(describe_scenario().as_json())
HOLDER = json.dumps(asdict(Holder.this_process("test", "1")))
DATABASE = json.dumps(asdict(provenance_here(9, 600, 4)))
OF_TEXTS = {
    "any.json": (JSON, read_json),
    "scenario.json": (JSON, RunDescription.read),
    "probes.json": (JSON, ProbeDescription.read),
    "model.json": (JSON, ModelledProgram.read),
    "uncertainty.json": (JSON, Uncertainty.read),
    "run.json": (JSON, Run.read),
    "x/cache-000/rep-0/run.json": (
        JSON,
        lambda path: changed_by_program([path.parents[3]], "/data"),
    ),
    "finished/run.json": (JSON, read_run),
    "run/.nodes-1/ended.json": (JSON, lambda path: ended_program(path.parents[1])),
    "listing/2026.jsonl": ('["/a.darshan", 1, 2, 3]\n', listed_logs),
    "database/provenance.json": (DATABASE, lambda path: read_provenance(path.parent)),
    ".lease": (HOLDER, lambda path: Lease(path, "test").take()),
}
TABLES = ("manifest", "user_manifest", "run_epochs", "opens", "decisions", "io_time")


@pytest.fixture(autouse=True)
def _no_time_to_write_a_lease(monkeypatch):
    monkeypatch.setattr(lease, "_WRITING_S", 0)


def assert_is_refused(path, read, part):
    """Cut a file down to a part of it, and read it."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises((ValueError, RuntimeError)) as error:
        read(path)
    line = str(error.value)
    assert "\n" not in line
    assert str(path) in line
    assert re.search(
        r"\bdelete (it|its folder|the (file|folder|run's folder))\b|rm ", line
    )


@pytest.mark.parametrize("part", [0, 0.5])
@pytest.mark.parametrize("name", OF_TEXTS)
def test_damaged_text_is_named_with_what_to_delete(tmp_path, name, part):
    path, (text, read) = tmp_path / name, OF_TEXTS[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert_is_refused(path, read, part)


@pytest.mark.parametrize("part", [0, 0.5])
@pytest.mark.parametrize("read", [read_table, open_table, None])
@pytest.mark.parametrize("name", TABLES)
def test_damaged_table_is_named_with_what_to_delete(tmp_path, name, read, part):
    path = tmp_path / f"{name}.parquet"
    write_table(empty_table(name), path, name)
    read_one = read_parquet if read is None else lambda path: read(path, name)
    assert_is_refused(path, read_one, part)


@pytest.mark.parametrize("part", [0, 0.5])
def test_damaged_array_of_a_database_is_named_with_what_to_delete(tmp_path, part):
    path = tmp_path / "records.npy"
    write_array(path, np.zeros(9, "<u4"))
    assert_is_refused(path, lambda path: read_checksums(path.parent, 9), part)
