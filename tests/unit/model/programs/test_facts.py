import numpy as np
import pytest
from tierscope.model.programs.facts import ProgramFacts, program_facts
from tierscope.storage.queueing_network import ModelError
from unit.model.programs.conftest import (
    FILE_BYTES,
    LOADER,
    LOOP,
    N_FILES,
    PIPELINE,
    tables,
)

SIZES = np.full(N_FILES, FILE_BYTES)
LOOPS = [LOOP | {"rank": 0, "epoch": epoch} for epoch in (0, 1)]


def test_program_with_workers_loads_as_pytorch(made):
    facts = ProgramFacts("pytorch", 2, 2, 2, 0, False, n_ranks=1, n_epochs=2)
    assert program_facts([made(), made()], SIZES) == facts
    assert facts.words == (
        "loads as pytorch: batches of 2, 2 workers a rank, 2 batches ahead, 1 rank, "
        "2 epochs"
    )


def test_trainer_without_workers_reads_nothing_ahead(made):
    alone = LOADER | {"workers": 0, "prefetch_factor": None}
    facts = program_facts([made(loader=alone)], SIZES)
    assert (facts.workers, facts.prefetch_factor) == (0, 0)
    assert "no worker, 1 rank" in facts.words


def test_pipeline_with_one_reader_loads_as_tensorflow(made):
    facts = program_facts([made(loader=PIPELINE)], SIZES)
    assert facts == ProgramFacts("tensorflow", 2, 0, 0, 3, False, 1, 2)
    assert "one reader, 3 batches ahead" in facts.words


def test_ranks_that_share_the_files_and_meet_in_each_step(made):
    run = made(n_ranks=2, loader=LOADER | {"in_steps": True})
    facts = program_facts([run], np.full(2 * N_FILES, FILE_BYTES))
    assert (facts.n_ranks, facts.in_steps) == (2, True)


def test_evaluation_on_other_files_does_not_count(made):
    others = {"loaders": [LOADER, LOADER | {"stream": 1, "batch_size": 99}]}
    loops = [*LOOPS, LOOP | {"rank": 0, "epoch": 1, "stream": 1, "evaluation": True}]
    assert program_facts([made(**others, loops=loops)], SIZES).batch_size == 2


SECOND = LOOP | {"rank": 0, "epoch": 0, "stream": 1}
OTHER = LOADER | {"stream": 1, "batch_size": 4}


@pytest.mark.parametrize(
    ("loader", "observed", "words"),
    [
        (LOADER, {"epochs_by": "mark", "loaders": []}, "got no loader that the hook"),
        (LOADER | {"framework": "keras"}, {}, "got loops of keras, expected those of"),
        (LOADER, {"loaders": [LOADER, PIPELINE]}, "got pytorch and tensorflow, "),
        (LOADER, {"loops": LOOPS[:1]}, "got 0 loops that took all batches in epoch 1"),
        (
            LOADER,
            {"loops": [*LOOPS, LOOP | {"rank": 0, "epoch": 2}]},
            "a loop in epoch 2",
        ),
        (LOADER, {"loops": [*LOOPS, SECOND]}, "got 2 loops that took all batches in"),
        (
            LOADER,
            {"loops": [LOOPS[0], LOOPS[1] | {"left": True}]},
            "got a loop in epoch 1 of rank 0 that was left before its end, expected",
        ),
        (LOADER, {"loaders": [LOADER, OTHER | {"stream": 0}]}, "batch_size 2 and 4"),
        (LOADER, {"loops": [LOOPS[0], LOOPS[1] | {"batches": 3}]}, "got 3 batches in"),
        (LOADER | {"style": "iterable"}, {}, "got an IterableDataset, expected one of"),
        (LOADER | {"batch_size": None}, {}, "got no batch size"),
        (PIPELINE | {"readers": 4}, {}, "got a pipeline with 4 parallel calls"),
        (PIPELINE | {"readers": -1}, {}, "with AUTOTUNE parallel calls"),
        (PIPELINE | {"prefetch_batches": -1}, {}, r"got prefetch\(AUTOTUNE\)"),
    ],
)
def test_program_that_loads_otherwise_is_refused_in_one_line(
    loader, observed, words, made
):
    with pytest.raises(ModelError, match=words) as refusal:
        program_facts([made(loader=loader, **observed)], SIZES)
    line = str(refusal.value)
    assert line.startswith("program train.py '{dataset}': got ")
    assert "\n" not in line


def test_old_runs_whose_loops_were_not_timed_are_refused(made):
    run = made()
    del run.run.observed["loops"]
    with pytest.raises(ModelError, match="got runs whose loops were not timed"):
        program_facts([run], SIZES)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("opens", {"opens": 2}, r"got 2 reads of each file in an epoch, expected 1"),
        ("opens", {"file_id": 3}, "got reads of 1 of 8 files in epoch 0"),
        ("io_time", {"bytes": 100}, "got 0.125 of the bytes of each file"),
    ],
)
def test_files_that_are_not_read_once_as_a_whole_are_refused(name, change, words, made):
    table = tables()[name].assign(**change)
    with pytest.raises(ModelError, match=words):
        program_facts([made(changed={name: table})], SIZES)


def test_runs_that_load_differently_are_refused(made):
    other = made(loader=LOADER | {"workers": 3})
    with pytest.raises(ModelError, match=r"got .* 3 workers .*, expected .* 2 workers"):
        program_facts([made(), other], SIZES)
