"""What jobs have said that their logs could not take, as on a full disk.

Jobs of this machine find it by the variable `TIERSCOPE_SPARE_LOG`: the path of a file
in memory that has no other name, and where that link leads, by which a job of another
machine knows that it is something else there. A line is JSON: the log's path, and a
text.
"""

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "TIERSCOPE_SPARE_LOG"
_MEMORY = "/dev/shm"


class SpareLog:
    """A file in memory for the words of all jobs, while this process runs."""

    def __init__(self):
        self._file, self._place = -1, ""
        self._shown: set[str] = set()  # logs
        with suppress(OSError):  # then words go where standard error does
            prefix = f"tierscope-{secrets.token_hex(8)}-"
            self._file, path = tempfile.mkstemp(prefix=prefix, dir=_MEMORY)
            os.unlink(path)
            place = f"/proc/{os.getpid()}/fd/{self._file}"
            self._place = f"{place} {os.readlink(place)}"
            os.environ[VARIABLE] = self._place

    def text_for(self, log: Path) -> str:
        """Return what was said in place of a log."""
        path = os.path.abspath(log)
        self._shown.add(path)
        return "".join(words for of, words in self._lines() if of == path)

    def lines_left(self) -> list[str]:
        """Return what was said in place of logs that nobody asked for."""
        return [
            f"{os.path.relpath(of)} could not take: {line}"
            for of, words in self._lines()
            if of not in self._shown
            for line in words.splitlines()
        ]

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of logs, and what was said in their place."""
        content = b""
        with suppress(OSError):  # there is none
            content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        for line in content.splitlines():
            with suppress(ValueError):  # its job was killed meanwhile
                of, words = json.loads(line)
                yield of, words

    def close(self) -> None:
        """Give the memory back, once."""
        if self._place and os.environ.get(VARIABLE) == self._place:
            del os.environ[VARIABLE]
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
