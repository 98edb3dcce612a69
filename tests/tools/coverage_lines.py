"""Give lines that Snakemake ran in copies of our scripts back to the scripts.

    python tests/tools/coverage_lines.py DATA ...

Snakemake copies a script to `.snakemake/scripts/tmpX.NAME.py`, behind a preamble, and
runs the copy; so coverage's data speak of files that are gone.
"""

import re
import sys
from pathlib import Path

from coverage import CoverageData
from coverage.exceptions import DataError

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
PREAMBLE_LINES = 3  # which Snakemake 9 puts in front of a script
_COPY = re.compile(r".*/\.snakemake/scripts/tmp[^./]+\.(\w+\.py)$")


def give_back(path: str) -> None:
    """Rename the copies in a file of coverage's data to what they are copies of."""
    data = CoverageData(path)
    try:
        data.read()
    except DataError:  # of a process that a test has killed while it wrote
        Path(path).unlink()
        return
    lines: dict[str, set[int]] = {}
    for file in data.measured_files():
        offset, name = 0, file
        if copy := _COPY.match(file):
            offset, name = PREAMBLE_LINES, str(SCRIPTS / copy[1])
        found = {line - offset for line in data.lines(file) or [] if line > offset}
        lines[name] = lines.get(name, set()) | found
    data.erase()
    renamed = CoverageData(path)
    renamed.add_lines(lines)
    renamed.write()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        give_back(argument)
