"""What a figure says of where its numbers come from."""

from types import SimpleNamespace

import pandas as pd
from tierscope.analysis.origin import origin_of
from tierscope.core.tables import write_table

RUN = {
    "source": "measured",
    "system": "laptop",
    "dataset": "small",
    "n_osts": 0,
    "policy": "pinning",
    "loader": "posix",
    "repetition": 0,
}
KEYS = ("dataset", "n_osts", "policy", "loader")


class Named(dict):
    """Inputs or parameters of a script."""

    __getattr__ = dict.get


def script(tmp_path, verdicts=(), drifts=(), **params):
    """Return a script's object with verdicts (rate, epoch, verdict) and drifts."""
    paths = [str(tmp_path / f"{name}.parquet") for name in ("verdicts", "drift")]
    told = {"tier": "gfs", "bytes": 1, "told_by": "block device", "reason": ""}
    rows = [
        RUN
        | told
        | {"cache_rate_percent": rate, "epoch": epoch, "verdict": verdict}
        | {"device_percent": 50.0, "names": "dropped"}
        for rate, epoch, verdict in verdicts
    ]
    write_table(pd.DataFrame(rows), paths[0], "verdicts")
    rows = [
        RUN
        | {"tier": "gfs", "before_s": 1.0, "after_s": 1.0, "median_s": 1.0}
        | {"cache_rate_percent": rate, "drift_percent": percent}
        | {"max_drift_percent": 20, "flagged": abs(percent) > 20}
        for rate, percent in drifts
    ]
    write_table(pd.DataFrame(rows), paths[1], "drift")
    params = Named(provenance="measured, system laptop", **params)
    return SimpleNamespace(input=Named(observations=paths), params=params)


def test_devices_without_drift_need_no_mark(tmp_path):
    origin = origin_of(script(tmp_path, [(0, 0, "device")], [(0, 5.0)]))
    assert origin.mark == ""
    assert str(origin) == "measured, system laptop; GFS reads left the page cache"


def test_only_the_epoch_and_the_scenario_shown_count(tmp_path):
    told = [(0, 0, "page cache"), (0, 1, "device")]
    shown = script(tmp_path, told, [(0, 0.0)], epoch=1)
    assert origin_of(shown).mark == ""
    shown = script(tmp_path, told, [(0, 0.0)], epoch=0)
    assert origin_of(shown).mark == "measured, from the page cache"
    scenario = {key: RUN[key] for key in KEYS}
    shown = script(tmp_path, told, [(0, 0.0)], scenario=scenario, epoch=0)
    assert origin_of(shown).mark == "measured, from the page cache"


def test_drift_is_named_and_marked(tmp_path):
    origin = origin_of(script(tmp_path, [(0, 0, "device")], [(0, 50.0)]))
    assert origin.mark == "drifted"
    assert "drifted by more than 20 % at cache rate 0 %" in str(origin)


def test_numbers_of_models_have_no_observations():
    params = Named(provenance="emulated, system scale-model")
    origin = origin_of(SimpleNamespace(input=Named(observations=[]), params=params))
    assert (str(origin), origin.mark) == ("emulated, system scale-model", "")


def statement(name, answer, epoch=-1, repetition=0):
    """Return a row of table `statements`."""
    said = {"epoch": epoch, "statement": name, "answer": answer, "words": ""}
    return RUN | said | {"cache_rate_percent": 50, "repetition": repetition}


def origin_with(tmp_path, *rows):
    """Return the origin of a program's figure of whose runs this is stated."""
    made = script(tmp_path, [(50, 0, "device")], [(50, 0.0)])
    made.input["observations"].append(str(tmp_path / "statements.parquet"))
    write_table(pd.DataFrame(rows), tmp_path / "statements.parquet", "statements")
    return origin_of(made)


def test_program_that_reads_every_file_once_needs_no_mark(tmp_path):
    rows = [statement(name, "yes", 0) for name in ("cover", "once", "whole")]
    origin = origin_with(tmp_path, statement("epochs", "yes"), *rows)
    assert origin.is_program
    assert not origin.is_whole_run
    assert origin.mark == ""
    assert origin.observed[-1] == "I/O times are sums over the workers of a rank"


def test_access_pattern_of_a_program_is_counted_by_run(tmp_path):
    rows = [statement("once", "no", epoch) for epoch in (0, 1)]
    rows += [statement("once", "yes", epoch, repetition=1) for epoch in (0, 1)]
    assert origin_with(tmp_path, *rows).observed[-1] == (
        "the program's own access pattern: some files were opened more than once (in 1 "
        "of 2 runs)"
    )


def test_reads_that_are_not_seen_are_marked(tmp_path):
    origin = origin_with(tmp_path, statement("whole", "not measured", 0))
    assert origin.mark == "without reads that are not seen"
    assert any(one.startswith("READ is too small") for one in origin.observed)
    other = origin_with(tmp_path, statement("in time", "not measured"))
    assert other.mark == ""
    assert not any(one.startswith("READ is too small") for one in other.observed)


def test_program_without_marks_has_a_whole_run(tmp_path):
    assert origin_with(tmp_path, statement("epochs", "no")).is_whole_run
