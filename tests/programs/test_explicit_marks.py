"""Programs without a framework that the hook knows mark their epochs themselves."""

import sys
from pathlib import Path

from redirected import VIRTUAL

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_processes_of_multiprocessing_read_for_the_epoch_of_their_parent(redirect):
    example = EXAMPLES / "multiprocessing_files.py"
    found = redirect(sys.executable, example, "--data", VIRTUAL)
    assert found.of_epochs() == [(72, 72)] * 3
    assert found.notes == []
