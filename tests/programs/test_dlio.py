"""A workload file that we wrote: DLIO 2.0.0 generates its files and reads them."""

import os
import subprocess

import pytest
from integration.programs import Programs
from tierscope.experiment.designs.dlio_loaders import LOADERS
from tierscope.experiment.designs.dlio_text import workload_text
from tierscope.experiment.designs.workloads import Workload

N_FILES, EPOCHS, N_BYTES = 64, 2, 65536


@pytest.fixture
def dlio(python, has_dlio, tmp_path):
    """Return the command that runs DLIO on two ranks, and its environment."""
    if not has_dlio:
        pytest.skip("needs pydftracer 1.0.2, which PyPI has for x86-64")
    # DLIO calls it for TFRecord files, to index them for another loader.
    indexer = tmp_path / "bin" / "tfrecord2idx"
    indexer.parent.mkdir()
    indexer.write_text("#!/bin/sh\n")
    indexer.chmod(0o755)
    words = [python.with_name("mpiexec"), "-n", 2, python.with_name("dlio_benchmark")]
    words += ["--config-dir", tmp_path / "dlio", "workload=mine"]
    words += [f"++workload.output.folder={tmp_path}/out"]
    path = f"{indexer.parent}{os.pathsep}{os.environ['PATH']}"
    return [*map(str, words)], os.environ | {"PATH": path}


@pytest.mark.parametrize("loader", LOADERS)
def test_dlio_generates_and_reads_the_files_of_a_workload(loader, dlio, tmp_path):
    workload = Workload(
        name="mine",
        n_files=N_FILES,
        file_size_bytes=N_BYTES,
        file_size_stdev_bytes=8000,
        batch_size=4,
        compute_time_s=0.01,
        loader=loader,
        utilisation_percent=90,
        source="",
        **LOADERS[loader].of_program(2, 2, 2),
    )
    path = tmp_path / "dlio" / "workload" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(workload_text(workload, "Mine.", EPOCHS, {}))
    command, environment = dlio
    folder = f"++workload.dataset.data_folder={tmp_path / 'my data'}"
    generate = ["++workload.workflow.generate_data=True", folder]
    generate.append("++workload.workflow.train=False")
    subprocess.run([*command, *generate], env=environment, cwd=tmp_path, check=True)
    files = [*(tmp_path / "my data" / "train").iterdir()]
    assert len(files) == N_FILES
    mean_bytes = sum(one.stat().st_size for one in files) / N_FILES
    assert mean_bytes == pytest.approx(N_BYTES, rel=0.1)
    here = [*command, "++workload.dataset.data_folder={dataset}"]
    run = Programs(tmp_path).run(here, minutes=20)
    assert run.failed == []
    opens = run.evidence.opens
    assert (opens.groupby("epoch")["file_id"].nunique() == N_FILES).all()
    assert opens["epoch"].nunique() == EPOCHS
