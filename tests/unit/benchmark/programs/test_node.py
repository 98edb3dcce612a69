"""What a node's first rank writes down at the end of a run."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.node import Node


@pytest.mark.parametrize("left", [[], ["links"], ["notes"]])
def test_folder_in_memory_that_somebody_removed_fails_the_run(tmp_path, left):
    for name in left:
        (tmp_path / name).mkdir()
    meeting = SimpleNamespace(local=tmp_path, shared=tmp_path, rank=0)
    node = Node(None, None, meeting, None, Path("data"), "launch")
    with pytest.raises(BenchmarkError, match=r"(links|notes): is gone, expected it"):
        node.finish()
