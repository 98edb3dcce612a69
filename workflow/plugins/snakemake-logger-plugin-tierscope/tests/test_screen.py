"""Streams that cannot be written: what is shown is lost, and nothing else."""

import io
import os

import pytest

from snakemake_logger_plugin_tierscope.screen import Screen


def test_closed_stream_shows_nothing():
    screen = Screen(None)
    screen.line("a word")
    screen.status("a word")
    screen.close()
    assert not screen.is_terminal


@pytest.mark.parametrize("is_full", [True, False])
def test_full_disk_and_a_reader_that_is_gone_change_nothing(is_full):
    """At its end Python would write again what could not be written."""
    if is_full:
        writer = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, writer = os.pipe()
        os.close(reader)
    stream = os.fdopen(writer, "w")
    screen = Screen(stream)
    screen.line("a word")
    screen.close()
    stream.close()


def test_letters_that_the_encoding_lacks_are_escapes():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin1")
    Screen(stream).line("\u30c7 word")
    assert stream.buffer.getvalue() == b"\\u30c7 word\n"
