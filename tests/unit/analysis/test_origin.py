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
