"""Which unknown input would change the choice."""

from dataclasses import replace

import numpy as np
import pytest
from small_designs import DEVICES, plan, simulate, study_of
from tierscope.core.tables import check_table
from tierscope.data.costs import Cost, Unit
from tierscope.data.designs import Goal, Storage
from tierscope.model.calibration.uncertainty import Source, Uncertainty
from tierscope.model.designs.inputs import inputs_of
from tierscope.model.designs.study import simulate_study

RATE, REQUEST = "gfs.ost_bandwidth_bytes_per_s", "lfs.request_s"
SOURCES = {"gfs": {"ost_bandwidth_bytes_per_s": "measured by fio (x.json)"}}
SOURCES["gfs"]["link_bytes_per_s"] = "fitted to measurements"
SOURCES["lfs"] = {"request_s": "assumed: as of another drive"}


def described(**keys):
    return plan(devices={**DEVICES, "sources": SOURCES, "origin": "declared", **keys})


def test_values_say_how_they_are_known():
    found = {one.parameter: one for one in inputs_of([described()], None)}
    origins = {name: one.origin for name, one in found.items()}
    assert origins == {
        RATE: "measured",
        "gfs.link_bytes_per_s": "calibrated",
        REQUEST: "assumed",
        "compute_time_s": "declared",
    }  # and none that costs nothing
    rate = found[RATE]
    assert (rate.value, rate.low, rate.high) == pytest.approx((1e8, 1e8 / 1.2, 1.2e8))


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ("fitted to the paper's statements, then longer by hand", "reconstructed"),
        ("one-way Put, measured: somebody, 2018", "measured"),
        ("by hand: one of 6 interfaces, measured together", "assumed"),
        ("4 ports, Sec. 5.1", "declared"),
    ],
)
def test_the_first_words_that_tell_it_say_how_a_value_is_known(source, origin):
    sources = {"gfs": {"ost_bandwidth_bytes_per_s": source}}
    given = replace(described(sources=sources), computed="measured")
    found = {one.parameter: one.origin for one in inputs_of([given], None)}
    assert (found[RATE], found["compute_time_s"]) == (origin, "measured")


def test_what_is_calibrated_may_be_off_by_its_error():
    one = Source("pure", np.array([[0.04]]), np.inf)
    draws = Uncertainty((RATE,), (one,)).as_json()
    found = {one.parameter: one for one in inputs_of([described()], draws)}
    factor = np.exp(1.96 * 0.2)
    assert found[RATE].origin == "calibrated"
    assert found[RATE].high == pytest.approx(1e8 * factor, rel=1e-3)
    assert found[REQUEST].high == pytest.approx(0.12)


def test_of_a_fitted_parameter_the_ends_are_those_of_the_fit():
    given = described()
    rate = next(one for one in inputs_of([given], None) if one.parameter == RATE)
    ends = (rate.changed(given, value) for value in (9e7, 1.3e8))
    found = {one.parameter: one for one in inputs_of([given, *ends], None)}
    assert found[RATE][2:] == ("calibrated", 1e8, 9e7, 1.3e8)
    assert found[REQUEST].high == pytest.approx(0.12)


def test_inputs_are_changed_one_at_a_time():
    given = described()
    for one in inputs_of([given], None):
        changed = one.changed(given, one.high)
        again = {new.parameter: new.value for new in inputs_of([changed], None)}
        before = {old.parameter: old.value for old in inputs_of([given], None)}
        assert again == before | {one.parameter: one.high}


def test_a_computation_that_varies_gets_another_mean():
    computes = {"distribution": "normal", "mean_s": 0.1, "stdev_s": 0.04}
    given = plan(compute_time_s=computes)
    (one,) = [x for x in inputs_of([given], None) if x.parameter == "compute_time_s"]
    time = one.changed(given, one.high).description.training.compute_time
    assert (time.mean_s, time.stdev_s) == (pytest.approx(0.12), 0.04)


def table_of(goal, n_servers=6, **keys):
    """Return what forty accelerators ask of servers whose number is chosen."""
    storages = [
        Storage(object_servers=n, cache_rate_percent=0) for n in range(1, n_servers)
    ]
    keys = {"cost": Cost(units={"object_server": Unit(price=1.0)})} | keys
    study = study_of(described(), storages, goal, accelerators=(40,), **keys)
    found = simulate_study(study, simulate, [].append, [].append)
    assert check_table(found.inputs, "designs_inputs").equals(found.inputs)
    table = found.inputs.set_index("parameter")
    return table[["choice", "choice_low", "choice_high"]].T.to_dict("list")


def test_a_rate_that_is_not_sure_changes_the_choice():
    """Four servers (design 3) feed about 89 % of forty, three about 70 %."""
    found = table_of(80.0)
    assert found[RATE] == [3, 4, 2]
    assert found[REQUEST] == [3, 3, 3]  # nothing is on the LFS
    assert found["compute_time_s"] == [3, 4, 2]


def test_with_less_there_may_be_none_that_meets_the_goal():
    assert table_of(80.0, n_servers=5)[RATE] == [3, -1, 2]
    assert table_of(80.0, limits={"price": 4.0})[RATE] == [3, -1, 2]


def test_if_none_meets_the_goal_the_nearest_is_tried():
    """Of one price all, three servers are nearest: they feed 70 %."""
    cost = Cost(units={"node": Unit(price=1.0)})
    assert table_of(80.0, n_servers=4, cost=cost)[RATE] == [-1, -1, 2]


def test_none_is_chosen_by_an_input_of_a_workload_while_another_misses():
    """A goal of 100 % is out of reach; the other, of 1 %, is met by any."""
    given = study_of(described(), [Storage(1, cache_rate_percent=0)], 1.0)
    names = {
        "plans": described(),
        "shares": 0.5,
        "goals": Goal("utilisation_percent", 1),
    }
    both = {key: {"tiny": one, "other": one} for key, one in names.items()}
    both["goals"]["other"] = Goal("utilisation_percent", 100)
    study = replace(given, accelerators=(40,), **both)
    found = simulate_study(study, simulate, [].append, [].append).inputs
    assert set(found["workload"]) == {"tiny", "other"}
    assert set(found[["choice", "choice_low", "choice_high"]].stack()) == {-1}


def test_what_misses_may_be_chosen_if_an_input_is_better():
    assert table_of(80.0, n_servers=4)[RATE] == [-1, -1, 2]
