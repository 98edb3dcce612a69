"""Lines on a terminal, with one at the bottom that is rewritten; or in a file."""

import os
import shutil
from typing import TextIO

_CLEAR = "\r\x1b[K"


class Screen:
    """Writes lines to a stream and, on a terminal, a status line below them."""

    def __init__(self, stream: TextIO):
        self._stream, self._status = stream, ""
        self.is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"

    def line(self, text: str) -> None:
        """Write text that stays, if there is any."""
        if not text:
            return
        if self._status:
            text, self._status = f"{_CLEAR}{text}", ""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def status(self, text: str) -> None:
        """Replace the line at the bottom of a terminal; a file gets none."""
        if not self.is_terminal:
            return
        width = shutil.get_terminal_size().columns - 1
        text = text if len(text) <= width else f"{text[: width - 3]}..."
        if text != self._status:
            self._stream.write(f"{_CLEAR}{text}")
            self._stream.flush()
            self._status = text
