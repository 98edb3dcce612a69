from types import SimpleNamespace

import pytest

from snakemake_logger_plugin_tierscope import LogHandler


class Stream:
    """A terminal or a file that keeps what is written."""

    def __init__(self, is_terminal=False):
        self.text, self._is_terminal = "", is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return self._is_terminal


@pytest.fixture
def file():
    return Stream()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return Stream(is_terminal=True)


@pytest.fixture
def logger(monkeypatch, file):
    """Return a function that makes a logger that writes to a stream."""
    monkeypatch.setattr("snakemake_logger_plugin_tierscope.REFRESH_S", 3600)
    monkeypatch.setattr("logging.raiseExceptions", True)
    made = []

    def make(stream=file, **settings):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr("sys.stdout", stream)
        common = {"dryrun": False, "verbose": False, "printshellcmds": False}
        common |= {"quiet": None, "stdout": False}
        handler = LogHandler(SimpleNamespace(**(common | settings)), None)
        made.append(handler)
        return handler

    yield make
    for handler in made:
        handler.close()
