"""What jobs have said that their logs could not take, as on a full disk.

Jobs of this machine find it by the variable `TIERSCOPE_SPARE_LOG`: the path of a file
in the memory of this process, and its name, by which a job of another machine knows
that the path is of something else. A line is JSON: the log's path, and a text.
"""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

VARIABLE = "TIERSCOPE_SPARE_LOG"


class SpareLog:
    """A file in memory for the words of all jobs, while this process runs."""

    def __init__(self):
        name = f"tierscope-{secrets.token_hex(8)}"
        self._file = os.memfd_create(name)
        self._place = f"/proc/{os.getpid()}/fd/{self._file} {name}"
        os.environ[VARIABLE] = self._place

    def text_for(self, log: Path) -> str:
        """Return what was said in place of a log."""
        path, text = os.path.abspath(log), ""
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        for line in content.splitlines():
            with suppress(ValueError):  # its job was killed meanwhile
                of, words = json.loads(line)
                text += words if of == path else ""
        return text

    def close(self) -> None:
        """Give the memory back, once."""
        if os.environ.get(VARIABLE) == self._place:
            del os.environ[VARIABLE]
        with suppress(OSError):
            os.close(self._file)
