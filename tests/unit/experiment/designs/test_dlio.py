"""Workload files of DLIO, as people and hostile ones write them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from descriptions import describe_scenario
from hostile_files import hostile_yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tierscope.core.validation import ConfigError, read_schema
from tierscope.experiment.designs.dlio import read_workload_file
from tierscope.experiment.designs.workloads import Workload, read_workloads

RESOURCES = Path(__file__).parents[4] / "resources"
UNET3D = """
model: {name: unet3d, type: cnn, model_size: 499153191}
framework: pytorch
workflow: {generate_data: False, train: True, checkpoint: True}
dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 168
  num_samples_per_file: 1
  record_length_bytes: 146600628
  record_length_bytes_stdev: 68341808
  record_length_bytes_resize: 2097152
reader:
  data_loader: pytorch
  batch_size: 7
  read_threads: 4
  file_shuffle: seed
  sample_shuffle: seed
train: {epochs: 5, computation_time: 0.323}
checkpoint: {checkpoint_folder: checkpoints/unet3d}
metric: {au: 0.90}
"""
COSMOFLOW = """
model: cosmoflow
framework: tensorflow
dataset:
  num_files_train: 524288
  num_samples_per_file: 1
  record_length: 2828486
  record_length_stdev: 71311
  format: tfrecord
reader: {data_loader: tensorflow, read_threads: 4, batch_size: 1, shuffle_size: 2}
train: {computation_time: 0.00350}
metric: {au: 0.70}
"""
BY_TORCH = {"data_loader": "pytorch"}
NPZ = {"dataset": {"format": "npz"}}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a file of a text, or of sections, as a workload."""

    def read(content, name="mine.yaml", **compute_time_s):
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path = tmp_path / name
        path.write_text(text)
        (found,) = read_workloads([str(path)], compute_time_s, [RESOURCES])
        return found

    return read


def sections(reader=(), dataset=(), train=()):
    """Return a file of DLIO's defaults and a computation of a second."""
    return {
        "dataset": dict(dataset),
        "reader": dict(reader),
        "train": {"computation_time": 1} | dict(train),
    }


@pytest.mark.parametrize(
    ("text", "name"), [(UNET3D, "unet3d_h100"), (COSMOFLOW, "cosmoflow_h100")]
)
def test_files_of_mlperf_storage_are_the_workloads_that_we_have_of_them(
    read, text, name
):
    """DLIO knows no least size. A file has its name, also if a workload of ours has."""
    (ours,) = read_workloads([name], {}, [RESOURCES])
    found = read(text, f"{name}.yaml")
    assert found == replace(ours, source=found.source, file_size_least_bytes=1)


def test_source_names_the_file_what_dlio_assumes_and_what_is_left_out(read):
    source = read(UNET3D.replace("epochs", "epoch")).source
    assert source.endswith(
        "mine.yaml, workload file of DLIO; defaults of DLIO: reader.prefetch_size 2; "
        "not simulated: workflow.checkpoint True, train.epoch 5"
    )


def test_what_is_not_given_is_as_dlio_has_it(read):
    found = read({"train": {"computation_time": 1}})
    assert (found.n_files, found.file_size_bytes, found.batch_size) == (8, 65536, 1)
    assert (found.loader, found.workers, found.prefetch_factor) == ("tensorflow", 1, 2)
    assert (found.buffer_bytes, found.utilisation_percent) == (262144, 90)


@pytest.mark.parametrize(
    ("threads", "ahead", "workers", "a_worker"),
    [(4, 2, 4, 1), (4, 5, 4, 2), (1, 2, 1, 2), (4, 0, 4, 2), (0, 2, 0, 0)],
)
def test_workers_share_the_batches_ahead(read, threads, ahead, workers, a_worker):
    """For no batch ahead DLIO takes two for each worker."""
    reader = {"read_threads": threads, "prefetch_size": ahead} | BY_TORCH
    found = read(sections(reader, **NPZ))
    assert (found.workers, found.prefetch_factor) == (workers, a_worker)
    assert found.buffer_bytes == 0


@pytest.mark.parametrize(
    ("batch", "samples", "n_bytes", "a_batch", "n_files"),
    [(400, 1251, 40_000, 1, 25), (8, 4, 400, 2, 8), (4, 4, 400, 1, 8)],
)
def test_samples_of_a_batch_that_follow_each_other_are_a_file(
    read, batch, samples, n_bytes, a_batch, n_files
):
    dataset = {"num_samples_per_file": samples, "record_length": 100.004}
    dataset |= {"record_length_stdev": 10}
    found = read(sections({"batch_size": batch}, dataset))
    assert (found.file_size_bytes, found.file_size_stdev_bytes) == (
        round(n_bytes * 1.00004),
        n_bytes // 10,
    )
    assert (found.batch_size, found.n_files) == (a_batch, n_files)
    assert ("assumed: 400 samples in a row" in found.source) == (batch == 400)


def test_a_computation_that_varies_is_one_of_the_simulator(read):
    (first, second) = (
        read(sections(train={"computation_time": {"mean": 2, "stdev": 0.5}})),
        read(sections(train={"computation_time": 2, "computation_time_stdev": 0.5})),
    )
    assert second == first
    assert "workload file of DLIO; computation varies by 0.5 s;" in first.source
    machine = describe_scenario(system={"devices": {"gfs": {"n_osts": 1}}}).system
    training = first.description(machine, 1).training
    assert training.compute_time.is_random
    assert (training.compute_time.mean_s, training.compute_time.stdev_s) == (2, 0.5)
    constant = read(sections(train={"computation_time_stdev": 1}), mine=3)
    assert (constant.compute_time_s, constant.compute_time_stdev_s) == (3, 0)


def test_hydra_anchors_and_tags_are_understood(read):
    found = read(
        """
workload:
  dataset: {format: npz, record_length_bytes: &size 1e6, record_length: *size}
  reader:
    data_loader: ${workload.framework}
    batch_size: !!int "2"
    read_threads: ${.batch_size}
    prefetch_size: ${..train.epochs}
  framework: pytorch
  train:
    epochs: 6
    computation_time: ${workload.time}
  time: {mean: "${workload.a_second}", stdev: 1e-1}
  a_second: 1
  output: {folder: "${hydra:run.dir}"}
"""
    )
    assert (found.file_size_bytes, found.batch_size) == (1_000_000, 2)
    assert (found.workers, found.prefetch_factor) == (2, 3)
    assert (found.compute_time_s, found.compute_time_stdev_s) == (1, 0.1)


def test_a_section_of_the_older_name_is_read(read):
    assert read({"data_reader": {"batch_size": 3}} | sections()).batch_size == 3


ROW = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
BOMB = ROW + "".join(f"a{i + 1}: &a{i + 1} [{f'*a{i},' * 10}]\n" for i in range(8))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [1", "mine.yaml, line 1: is not valid YAML"),
        ("", "mine.yaml: got nothing, expected keys"),
        ("b: 1", "top level: got b 1, expected workload or its keys"),
        ("workload: 3", "workload: got 3, expected keys"),
        (BOMB, "got aliases that stand for 1111111 values, expected at most 1000000"),
        ("#" + "x" * (1 << 20), "got 1048577 bytes, expected a workload file of DLIO"),
        ("train: !!python/object:os.abc {}", "could not determine a constructor"),
        ("dataset: ${x}", "dataset: got ${x}, expected mapping"),
        ("defaults: [unet3d]", "defaults: got a list by which Hydra adds other files"),
        ({"framework": "pytorch"}, "framework: got pytorch, expected tensorflow with"),
        (sections({"batch_size": True}), "reader.batch_size: got true, expected integ"),
        (sections({"batch_size": 0}), "reader.batch_size: got 0, expected integer f"),
        (sections({"batch_size": "${.batch_size}"}), "batch_size: got ${.batch_size},"),
        (sections({"batch_size": "${oc.env:HOME}"}), "got ${oc.env:HOME}, expected a "),
        (sections({"batch_size": "${.b}"}), "got ${.b}, expected ${key} of a value i"),
        (sections({"data_loader": "dali"}), "data_loader: got 'dali', expected one of"),
        (sections(BY_TORCH), "got tfrecord (default of DLIO), expected npz, npy, hdf5"),
        (sections(**NPZ), "dataset.format: got npz, expected tfrecord with loader t"),
        (sections(dataset={"format": "csv"}), "dataset.format: got 'csv', expected o"),
        (sections(dataset={"record_length": -1}), "dataset.record_length: got -1, ex"),
        (sections(dataset={"record_length": float("nan")}), "record_length: got .nan,"),
        (
            sections(dataset={"record_length": 1, "record_length_bytes": 2}),
            "dataset.record_length: got 1, expected the same as record_length_bytes",
        ),
        (
            sections(BY_TORCH, {"format": "npz", "num_samples_per_file": 2}),
            "dataset.num_samples_per_file: got 2, expected 1 with loader pytorch",
        ),
        (
            sections({"batch_size": 8}, {"num_samples_per_file": 3}),
            "got 3, expected a divisor of batch_size 8, or more",
        ),
        (
            sections({"batch_size": 4, "read_threads": 2}),
            "reader.read_threads: got 2, expected 1 with batches of 4 files, or bat",
        ),
        (sections(dataset={"record_dims": [2, 2]}), "dataset.record_dims: got [2, 2],"),
        (
            sections(train={"computation_time": {"type": "uniform", "min": 1}}),
            "train.computation_time: got unknown key min, expected some of mean, std",
        ),
        (
            sections(train={"computation_time": "long"}),
            "got 'long', expected a number from 0 to 86400, or {mean, stdev} of a n",
        ),
        (
            sections(train={"computation_time": {"mean": 1, "type": "gamma"}}),
            "train.computation_time.type: got 'gamma', expected one of normal",
        ),
        (sections({"prefetch_size": 1025}), "mine.prefetch_factor: got 1025, expected"),
        (
            sections((), {"record_length_bytes": 63}),
            "mine.file_size_bytes: got 63, exp",
        ),
        (
            sections(
                {"batch_size": 64},
                {"num_samples_per_file": 64, "record_length_bytes": 1 << 36},
            ),
            "mine.file_size_bytes: got 4398046511104, expected integer from 64 to",
        ),
    ],
)
def test_what_is_no_workload_is_refused_in_one_line(read, content, words):
    with pytest.raises(ConfigError) as error:
        read(content)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700


def test_a_path_without_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in ("nowhere.yml", str(tmp_path), str(tmp_path / "pipe.yaml")):
        with pytest.raises(ConfigError, match=r"got '.*', expected a workload"):
            read_workload_file(path)


def test_two_workloads_of_one_name_are_refused(tmp_path):
    path = tmp_path / "unet3d_h100.yaml"
    path.write_text(UNET3D)
    with pytest.raises(ConfigError, match="whose name is that of another workload"):
        read_workloads(["unet3d_h100", str(path)], {}, [RESOURCES])


@pytest.mark.parametrize(
    ("file", "name"),
    [("My Net.v2.yaml", "my_net_v2"), ("3d.yml", "dlio_3d"), ("é.yaml", "dlio_")],
)
def test_a_workload_has_the_name_of_its_file(read, file, name):
    assert read(UNET3D, file).name == name


def wild():
    """Return a strategy of files with some keys of DLIO, and any values."""
    sections = read_schema("dlio")["properties"].items()
    keys = [(one, key) for one, keys in sections for key in keys.get("properties", ())]
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.integers(0, 9),
        st.floats(),
        st.text(max_size=9),
        st.sampled_from(
            ["pytorch", "tensorflow", "npz", "${.batch_size}", "${a", "1e9"]
        ),
    )
    values = scalars | st.lists(scalars, max_size=2)
    values |= st.dictionaries(st.sampled_from(["mean", "stdev", "type", ""]), scalars)
    pairs = st.tuples(st.sampled_from(keys), values)
    return st.lists(pairs, max_size=8)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=wild() | st.text(max_size=200) | st.binary(max_size=50))
def test_a_wild_file_is_a_workload_or_a_refusal_of_one_line(tmp_path, content):
    path = tmp_path / "wild.yaml"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8", errors="replace", newline="")
    else:
        made = {}
        for (section, key), value in content:
            made.setdefault(section, {})[key] = value
        path.write_text(yaml.safe_dump(made))
    words, found = "", None
    try:
        name, values = read_workload_file(str(path))
        found = Workload(name=name, **{"compute_time_s": 1, **values})
    except ConfigError as error:
        words = str(error)
    if found:
        words = found.source
        assert min(found.n_files, found.file_size_bytes, found.batch_size) >= 1
        assert min(found.workers, found.prefetch_factor, found.buffer_bytes) >= 0
    assert len(words.splitlines()) == 1


def test_a_file_without_computation_is_one_of_a_workload_that_computes_nothing(read):
    assert read({"train": {"epochs": 1}, "metric": {"au": 1}}).compute_time_s == 0


@given(st.randoms(use_true_random=False), st.sampled_from([UNET3D, COSMOFLOW]))
def test_hostile_file_is_refused_in_one_short_line_or_read(tmp_path_factory, rng, text):
    path = tmp_path_factory.getbasetemp() / "hostile.yaml"
    path.write_text(hostile_yaml(text, rng))
    try:
        read_workloads([str(path)], {}, [RESOURCES])
    except ConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert len(str(error)) < 3000  # noqa: PT017
