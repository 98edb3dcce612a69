"""Lines on a terminal, with one at the bottom that is rewritten; or in a file."""

import os
import shutil
from contextlib import suppress
from typing import TextIO

_CLEAR = "\r\x1b[K"


class Screen:
    """Writes lines to a stream and, on a terminal, a status line below them.

    What cannot be written is lost, and nothing else: the stream may be closed (None),
    its disk full, or its reader gone.
    """

    def __init__(self, stream: TextIO | None):
        self._stream, self._status = stream, ""
        self.is_terminal = bool(
            stream and stream.isatty() and os.environ.get("TERM") != "dumb"
        )

    def line(self, text: str) -> None:
        """Write text that stays, if there is any."""
        if not text:
            return
        if self._status:
            text, self._status = f"{_CLEAR}{text}", ""
        self._write(f"{text}\n")

    def status(self, text: str) -> None:
        """Replace the line at the bottom of a terminal; a file gets none."""
        if not self.is_terminal:
            return
        width = shutil.get_terminal_size().columns - 1
        text = text if len(text) <= width else f"{text[: width - 3]}..."
        if text != self._status:
            self._write(f"{_CLEAR}{text}")
            self._status = text

    def _write(self, text: str) -> None:
        """Write text; letters that the stream's encoding lacks become escapes."""
        if self._stream is None:
            return
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        with suppress(OSError, ValueError):
            known = text.encode(encoding, "backslashreplace").decode(encoding)
            self._stream.write(known)
            self._stream.flush()

    def close(self) -> None:
        """Forget what could not be written, which else gives an exit status of 120."""
        try:
            if self._stream:
                self._stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        except ValueError:
            pass  # Snakemake has closed it
