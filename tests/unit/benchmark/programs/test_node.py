"""What a node's first rank writes down at the end of a run."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs import node as module
from tierscope.benchmark.programs.node import Node
from tierscope.core.description import ProgramSettings


@pytest.mark.parametrize("left", [[], ["links"], ["notes"]])
def test_folder_in_memory_that_somebody_removed_fails_the_run(tmp_path, left):
    for name in left:
        (tmp_path / name).mkdir()
    meeting = SimpleNamespace(local=tmp_path, shared=tmp_path, rank=0)
    node = Node(None, None, meeting, (), Path("data"), "launch")
    with pytest.raises(BenchmarkError, match=r"(links|notes): is gone, expected it"):
        node.finish()


@pytest.mark.parametrize(
    ("processes", "escaped", "in_place", "said", "reason"),
    [
        ([], [], False, "no process of it was redirected, so /tierscope/mine does", ""),
        ([], [], False, "does not exist for it: train is of Go", "is of Go"),
        ([], [], True, "; train has AddressSanitizer", "has AddressSanitizer"),
        ([1], ["go (is linked statically)"], False, "started: go (is linked", ""),
        ([1], ["e (starts without our environment)"], False, "loader.in_place: ", ""),
        ([1], [], False, None, ""),
        ([], ["go (is linked statically)"], True, None, ""),
    ],
)
def test_line_on_a_failed_program_names_what_was_not_redirected(
    monkeypatch, processes, escaped, in_place, said, reason
):
    monkeypatch.setattr(
        "tierscope.benchmark.programs.node.reason_of", lambda *_: reason
    )
    program, dataset = ProgramSettings((), in_place), SimpleNamespace(name="mine")
    settings = SimpleNamespace(program=program, dataset=dataset)
    node = Node(settings, None, None, (), Path("data"), "launch")
    node.table = SimpleNamespace(processes=lambda: processes, escaped=lambda: escaped)
    words = node.what_escaped("train", Path("library"))
    assert (said in words) if said else not words


@pytest.mark.parametrize(
    ("processes", "in_place", "is_refused"),
    [([], True, True), ([1], True, False), ([], False, False)],
)
def test_program_that_is_not_seen_for_long_is_ended(
    monkeypatch, processes, in_place, is_refused
):
    now_s = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    settings = SimpleNamespace(program=ProgramSettings((), in_place))
    node = Node(settings, None, None, (), Path("data"), "launch")
    node.keeper = SimpleNamespace(step=lambda: None)
    node.table = SimpleNamespace(processes=lambda: processes)
    for now_s[0] in (100.0, 699.0):
        node.keep()
    now_s[0] = 701.0
    if not is_refused:
        return node.keep()
    with pytest.raises(BenchmarkError, match=r"^no process .* in 10 minutes"):
        node.keep()
