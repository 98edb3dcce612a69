"""Made-up runs of a program that loads as PyTorch does, with two workers."""

from dataclasses import replace

import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.model.programs.facts import SeenRun

N_FILES, N_EPOCHS, FILE_BYTES = 8, 2, 100
LOADER = {
    "framework": "pytorch",
    "stream": 0,
    "workers": 2,
    "prefetch_factor": 2,
    "batch_size": 2,
    "style": "map",
    "in_steps": False,
}
PIPELINE = {
    "framework": "tensorflow",
    "stream": 0,
    "workers": 0,
    "prefetch_factor": None,
    "batch_size": 2,
    "readers": 1,
    "prefetch_batches": 3,
}
# Each epoch has four batches and eight samples on each rank.
LOOP = {
    "stream": 0,
    "evaluation": False,
    "batches": 4,
    "first_wait_s": 0.16,
    "first_use_s": 0.1,
    "wait_s": 0.16,
    "use_s": 0.4,
}
FETCH = {"samples": 8, "fetch_s": 0.24}


def tables(n_ranks=1):
    """Return tables of epochs of 1.46 s, in which each rank opens eight files."""
    ranks = [(rank, epoch) for epoch in range(N_EPOCHS) for rank in range(n_ranks)]
    files = [(*one, file) for one in ranks for file in range(N_FILES)]
    epochs = pd.DataFrame(ranks, columns=["rank", "epoch"])
    opens = pd.DataFrame(files, columns=["rank", "epoch", "file_id"])
    opens["file_id"] += N_FILES * opens["rank"]
    return {
        "epochs": epochs.assign(samples=N_FILES, execution_time_s=1.46),
        "opens": opens.assign(opens=1),
        "io_time": epochs.assign(time_s=0.08, bytes=N_FILES * FILE_BYTES),
    }


@pytest.fixture
def made():
    """Return a function that makes a run; it takes what differs of what was seen."""

    def make(n_ranks=1, loader=LOADER, changed=(), **observed):
        ranks = [(rank, epoch) for epoch in range(N_EPOCHS) for rank in range(n_ranks)]
        keys = [{"rank": rank, "epoch": epoch} for rank, epoch in ranks]
        seen = {
            "epochs_by": "hook",
            "loaders": [loader],
            "loops": [LOOP | one for one in keys],
            "fetches": [FETCH | one for one in keys],
        }
        run = describe_run(
            program={"command": ["train.py", "{dataset}"], "in_place": False},
            observed=seen | observed,
        )
        return replace(SeenRun(run, **tables(n_ranks)), **dict(changed))

    return make
