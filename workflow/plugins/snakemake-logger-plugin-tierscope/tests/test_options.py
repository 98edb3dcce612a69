"""Options in place of keys."""

import logging
import os

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tierscope.options import (
    VARIABLE,
    given_options,
    in_options,
)

OPTIONS = {
    "sweep.cache_rates_percent": "--rates",
    "loader.minutes": "--minutes",
    "in_place: true": "--in-place",
    "datasets.small.path": "--dataset",
    "system": "--system",
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "results/ds/sweep.yaml: sweep.cache_rates_percent.1: got 150, expected 3",
            "--rates: got 150, expected 3",
        ),
        ("config: sweep.cache_rates_percent: got 0", "--rates: got 0"),
        (
            "takes longer than 3 min (loader.minutes).",
            "takes longer than 3 min (--minutes).",
        ),
        ("the path (or in_place: true)", "the path (or --in-place)"),
        ("a\nmine.yml: datasets.small.path: got 'x'", "a\n--dataset: got 'x'"),
        ("system: got 'nope'", "--system: got 'nope'"),
        # Other keys, and ordinary words.
        ("config: loader.minutes_more: got 1", "config: loader.minutes_more: got 1"),
        ("config: my.loader.minutes: got 1", "config: my.loader.minutes: got 1"),
        ("loader.minutes.most: got 1", "loader.minutes.most: got 1"),
        ("the file system: got 1", "the file system: got 1"),
        ("system one-process: got 1", "system one-process: got 1"),
    ],
)
def test_options_stand_in_place_of_keys(text, said):
    assert in_options(text, OPTIONS) == said
    assert in_options(text, {}) == text


def test_jobs_do_not_see_the_options(monkeypatch):
    monkeypatch.setenv(VARIABLE, '{"loader.minutes": "--minutes"}')
    assert given_options() == {"loader.minutes": "--minutes"}
    assert VARIABLE not in os.environ
    assert given_options() == {}


def test_errors_have_options_and_what_jobs_say_has_keys(logger, file, monkeypatch):
    monkeypatch.setenv(VARIABLE, '{"loader.minutes": "--minutes"}')
    handler = logger()
    for event, text in (
        (None, "the key is loader.minutes"),
        (LogEvent.ERROR, "WorkflowError:\nconfig: loader.minutes: got 0"),
    ):
        level = logging.ERROR if event else logging.INFO
        record = logging.LogRecord("snakemake", level, "", 0, text, (), None)
        record.event = event
        handler.emit(record)
    handler.close()
    assert file.text == "the key is loader.minutes\n--minutes: got 0\n"
