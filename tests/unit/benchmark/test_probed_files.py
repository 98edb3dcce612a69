import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.probe_launch import ProbeLaunch
from tierscope.benchmark.probed_files import GeneratedFiles, probed_files
from tierscope.core.description import ProbeDescription
from tierscope.core.machine import TierError
from tierscope.core.scenario import Dataset
from tierscope.core.tables import read_table, write_table
from tierscope.data.listing import list_files

CONTENTS = {"a/0": b"0123", "a/1": b"", "b/2": b"456789", "3": b"abcd"}


def described(root, n_processes=1):
    """Return what probes of a user's dataset in a folder depend on."""
    return ProbeDescription.of(
        describe_scenario(
            program={"command": ["train"], "in_place": False},
            dataset={"name": "mine", "path": str(root)},
            system={
                "processes_per_node": n_processes,
                "lfs": {"name": "lfs", "kind": "directory", "root": f"{root}-lfs"},
            },
        )
    )


@pytest.fixture
def root(tmp_path):
    """Return the folder of a dataset of which one file is empty."""
    for name, content in CONTENTS.items():
        path = tmp_path / "dataset" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "dataset"


@pytest.fixture
def manifest(root, tmp_path):
    """Return the manifest of the dataset."""
    columns = list_files(root, tmp_path / "notes").columns()
    write_table(pd.DataFrame(columns), tmp_path / "files.parquet", "user_manifest")
    return tmp_path / "files.parquet"


def test_files_that_are_not_empty_are_probed_under_their_own_names(root, manifest):
    files = probed_files(described(root), manifest)
    assert files.description.dataset == Dataset("mine", 3, 4, 1)
    names = [files.name("gfs", file_id) for file_id in range(3)]
    assert sorted(names) == ["3", "a/0", "b/2"]
    assert (files.root, files.title) == (root, "mine")


def test_lfs_gets_what_is_read_and_the_dataset_stays_as_it_is(root, manifest, tmp_path):
    files, folder = probed_files(described(root), manifest), tmp_path / "copies"
    folder.mkdir()
    files.fill(folder, np.arange(3))
    copies = {files.names[i]: (folder / files.name("lfs", i)) for i in range(3)}
    assert {name: path.read_bytes() for name, path in copies.items()} == {
        name: CONTENTS[name][:4] for name in files.names
    }
    found = {
        os.path.relpath(path, root): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    assert found == CONTENTS


def test_file_that_has_become_shorter_is_named(root, manifest, tmp_path):
    files = probed_files(described(root), manifest)
    (root / "3").write_bytes(b"a")
    with pytest.raises(TierError, match=r"/3: cannot be copied .* got 1 bytes"):
        files.fill(tmp_path, np.arange(3))


def test_lfs_in_the_dataset_is_refused(root, manifest):
    files = probed_files(described(root), manifest)
    files.check()
    os.symlink(root, f"{root}-lfs")
    with pytest.raises(TierError, match="expected two folders of which none holds"):
        files.check()


def test_generated_dataset_needs_no_manifest(tmp_path):
    generated = ProbeDescription.of(describe_scenario())
    files = probed_files(generated, tmp_path / "none")
    assert isinstance(files, GeneratedFiles)
    assert files.name("lfs", 3) == generated.dataset.file_name(3)


def test_dataset_with_fewer_files_than_processes_leaves_an_empty_table(
    root, manifest, tmp_path
):
    description, lines = described(root, n_processes=4), []
    processes = SimpleNamespace(
        rank=0, size=4, node=0, node_rank=0, launch="x", hosts=["a"], has_failed=False
    )
    processes.barrier = lambda: None
    files, devices = probed_files(description, manifest), RealDevices(None)
    ProbeLaunch(description, files, processes, devices, lines.append).run(tmp_path)
    assert read_table(tmp_path / "probes.parquet", "probes").empty
    assert (tmp_path / "probes.json").exists()
    assert lines == [
        "nothing is probed: dataset mine has fewer files that are not empty than the 4 "
        "processes that probe"
    ]
