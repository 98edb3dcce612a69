import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.probed_files import probed_files
from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.core.scenario import Dataset
from tierscope.core.tables import write_table
from tierscope.model.programs.description import (
    ModelledProgram,
    model_program,
    read_model_description,
)
from tierscope.model.simulator.run import workload_of
from tierscope.storage.probes import plan
from tierscope.storage.queueing_network import ModelError
from unit.model.programs.conftest import FILE_BYTES, LOADER, LOOP, N_FILES, PIPELINE

DEVICES = {
    "origin": "made up",
    "gfs": {
        "open_s": 0.1,
        "close_s": 0.1,
        "metadata_latency_s": 0.1,
        "n_osts": 4,
        "ost_bandwidth_bytes_per_s": 100.0,
        "read_latency_s": 0.1,
        "link_bytes_per_s": 100.0,
        "request_bytes": 100,
    },
    "lfs": {
        "request_bytes": 100,
        "request_s": 0.1,
        "latency_s": 0.1,
        "processes_per_server": 1,
    },
}
NO_TIMES = np.zeros(0)


def sizes(n_ranks=1):
    """Return the sizes of the files."""
    return np.full(n_ranks * N_FILES, FILE_BYTES)


def described(devices=DEVICES):
    """Return the settings of the program's runs."""
    one = describe_scenario(program={"command": ["train.py"], "in_place": True})
    return replace(one, system=replace(one.system, devices=devices))


def test_times_come_from_ideal_runs(made):
    """Four steps of 0.1 s wait for the first batch only: two samples of 0.03 s.

    0.1 s of that wait is the start of workers, and 0.9 s pass after the loop.
    """
    modelled = model_program(described(), [made()], [made()], sizes(), NO_TIMES)
    training = modelled.description.training
    assert training.compute_time.mean_s == pytest.approx(0.1)
    assert (training.epochs, training.seed, training.in_steps) == (2, 1, False)
    # A fetch takes 0.03 s a sample, of which 0.01 s are I/O time.
    processor = modelled.description.system.devices["processor"]
    assert processor == {"sample_s": pytest.approx(0.02)}
    assert training.compute_time.warmup_s == pytest.approx((0.0, 0.0))
    assert modelled.rest_s == pytest.approx((1.0, 1.0))
    assert modelled.words == (
        "The program loads as pytorch: batches of 2, 2 workers a rank, 2 batches "
        "ahead, 1 rank, 2 epochs. By its ideal runs it computes for 0.100 s a usual "
        "step, takes 0.0200 s of processor time a sample (from its fetches), and 1.00 "
        "s an epoch for the rest."
    )


def test_reads_of_a_pipeline_tell_the_processor_time(made):
    runs = [made(loader=PIPELINE, fetches=[])]
    modelled = model_program(described(), runs, runs, sizes(), np.array([0.01, 0.03]))
    assert modelled.description.system.devices["processor"]["sample_s"] == 0.02
    assert "(between its reads)" in modelled.words
    with pytest.raises(ModelError, match="got no times between reads"):
        model_program(described(), runs, runs, sizes(), NO_TIMES)


def test_program_without_workers_fetches_while_its_device_computes(made):
    """Launching takes 0.1 s of a step of 0.3 s: 0.05 s of each of its two samples."""
    alone = LOADER | {"workers": 0, "prefetch_factor": None}
    device = {"busy_s": 1.2, "first_busy_s": 0.3, "idle_s": 0.0}
    for because, workers, sample_s in (
        ("", 1, 0.02 + 0.05),
        ("never behind", 0, 0.02),  # it waits for its device: nothing overlaps
    ):
        seen = LOOP | {"device": device, "least_because": because, "rank": 0}
        loops = [seen | {"epoch": epoch} for epoch in (0, 1)]
        runs = [made(loader=alone, loops=loops)]
        modelled = model_program(described(), runs, runs, sizes(), NO_TIMES)
        loader = modelled.description.loader
        assert (loader.workers, loader.prefetch_factor) == (workers, workers)
        processor = modelled.description.system.devices["processor"]
        assert processor["sample_s"] == pytest.approx(sample_s)
        assert ("while its device computes" in modelled.words) == bool(workers)


def test_ranks_of_a_node_share_its_servers_and_meet_in_steps(made):
    runs = [made(n_ranks=2, loader=LOADER | {"in_steps": True})]
    modelled = model_program(described(), runs, runs, sizes(2), NO_TIMES)
    system = modelled.description.system
    assert (system.n_processes, system.processes_per_node) == (2, 2)
    assert system.devices["lfs"]["processes_per_server"] == 2
    assert modelled.description.training.in_steps


def test_workload_is_that_of_the_loader_that_loads_alike(made, tmp_path):
    modelled = model_program(described(), [made()], [made()], sizes(), NO_TIMES)
    path = tmp_path / "program.json"
    path.write_text(json.dumps(modelled.as_json()))
    assert ModelledProgram.read(path) == modelled
    description, program = read_model_description({}, [str(path)])
    workload = workload_of(description)
    assert (workload.n_files, workload.file_size_bytes) == (N_FILES, FILE_BYTES)
    assert (workload.workers, workload.prefetch_factor, workload.batch_size) == (
        2,
        2,
        2,
    )
    table = pd.DataFrame({"loader": ["program"], "n_osts": [0]})
    assert program.measured(table).to_numpy().tolist() == [["pytorch", 4]]
    probes = pd.DataFrame({"n_osts": [0]})
    assert program.measured(probes).to_dict("list") == {"n_osts": [4]}


def test_probes_of_a_modelled_program_are_those_that_are_made(made, tmp_path):
    """The program starts two ranks; the system's one process probes 14 files."""
    mixed, runs = sizes(n_ranks=2), [made(n_ranks=2)]
    mixed[:2] = FILE_BYTES - 5
    modelled = model_program(described(), runs, runs, mixed, NO_TIMES).description
    manifest = {
        "file_id": range(len(mixed)),
        "path": [str(number) for number in range(len(mixed))],
        "size_bytes": mixed,
    }
    rest = {"ost": -1, "mtime_ns": 0, "is_link": False}
    path = tmp_path / "files.parquet"
    write_table(pd.DataFrame(manifest).assign(**rest), path, "user_manifest")
    files = probed_files(ProbeDescription.of(described()), path)
    assert files.description.dataset == Dataset("mine", 14, FILE_BYTES, 1)
    content = json.loads(json.dumps(modelled.as_json()))
    probed = ProbeDescription.of(RunDescription.from_json(content))
    assert plan(probed) == plan(files.description)
    assert (modelled.system.n_processes, probed.system.n_processes) == (2, 1)
    assert probed.system.devices["lfs"]["processes_per_server"] == 1


def test_storage_that_cannot_be_probed_is_said(made):
    runs, one = [made()], described()
    one = replace(one, system=replace(one.system, processes_per_node=9))
    modelled = model_program(one, runs, runs, sizes(), NO_TIMES)
    assert modelled.description.probed is None
    assert modelled.words.endswith(
        " The storage is not probed: got 8 files that are not empty, expected at least "
        "9, one for each process."
    )


def test_our_loaders_have_a_description_and_no_program():
    content = describe_scenario().as_json()
    found = read_model_description(content, [])
    assert found == (RunDescription.from_json(content), None)


def test_sizes_that_vary_are_said(made):
    some = np.array([50, 150] * 4)
    modelled = model_program(described(), [made()], [made()], some, NO_TIMES)
    assert modelled.description.dataset.file_size_bytes == 100
    said = "Sizes of files vary by 50 %; the models take their mean, 100 B."
    assert modelled.words.endswith(said)


def test_system_without_devices_is_refused(made):
    with pytest.raises(ModelError, match="system made-up has no devices, expected"):
        model_program(described(None), [made()], [made()], sizes(), NO_TIMES)
