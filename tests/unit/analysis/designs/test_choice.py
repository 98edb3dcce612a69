"""What is chosen among designs, of hand-made tables."""

import numpy as np
import pandas as pd
import pytest
from design_tables import COST, HOURLY, designs, row, servers
from tierscope.analysis.designs.choice import choose, costs, designs_of, front
from tierscope.data.costs import Cost, Unit


def test_cheapest_design_that_meets_the_goal_and_what_misses_below_it():
    found = choose(designs_of(servers(40, 80, 93, 99)), COST)
    assert (found.by, found.need, found.chosen, found.miss) == ("price", 8, 2, 1)
    assert found.undecided == ()


def test_what_crosses_the_goal_is_undecided_and_never_chosen():
    table = designs(
        row(80, object_servers=1),
        row(91, 88, 94, object_servers=2),
        row(95, 94, 96, object_servers=3),
    )
    found = choose(designs_of(table), COST)
    assert (found.chosen, found.miss, found.undecided) == (2, 0, (1,))
    none = choose(designs_of(table[table["design"] < 2]), COST)
    assert (none.chosen, none.miss, none.undecided) == (-1, 0, (1,))


def test_costs_add_up_what_has_a_price():
    table = designs(
        row(50, object_servers=2, n_nodes=3, n_lfs_devices=6, lfs_gib=1000.0),
        row(50, object_servers=2, n_nodes=3, n_lfs_devices=0, lfs_gib=1000.0),
    )
    found = costs(designs_of(table), HOURLY)
    assert found["price"].tolist() == [200 + 6 * 30 + 6000 * 0.01, 200]
    assert found["watts"].tolist() == [20, 20]
    assert found["rack_units"].isna().all()
    useful = 8 * 0.5
    assert found["hour_price"].tolist() == pytest.approx(
        [(0.44 + 16) / useful, (0.2 + 16) / useful]
    )
    assert costs(designs_of(table), Cost())["price"].isna().all()


def test_without_prices_the_least_hardware_is_chosen():
    table = designs(
        row(91, object_servers=4, n_links=1),
        row(92, object_servers=2, n_links=2),
        row(99, object_servers=4, n_links=2),
    )
    found = choose(designs_of(table), Cost())
    assert (found.by, found.chosen) == ("hardware", 1)


def test_a_design_without_room_on_the_lfs_is_not_chosen():
    table = servers(95, 96)
    table.loc[0, "fits_lfs"] = False
    assert choose(designs_of(table), COST).chosen == 1


def test_limits_leave_designs_out():
    table = designs_of(servers(80, 95, 99))
    assert choose(table, COST, {"price": 199}).chosen == -1
    assert choose(table, COST, {"watts": 20}).chosen == 1
    assert choose(table, COST, {"object_server": 1}).chosen == -1
    roomy = Cost(units={"object_server": Unit(price=100, usable_tib=50)})
    assert choose(table, roomy, {"usable_tib": 120}).chosen == 2


def test_every_workload_must_meet_its_goal():
    table = servers(80, 95, 99)
    other = table.assign(workload="other", goal_value=60.0, verdict="meets")
    both = pd.concat([table, other]).assign(share=0.5)
    assert choose(designs_of(both), COST).chosen == 1
    other.loc[1, "verdict"] = "undecided"
    both = pd.concat([table, other]).assign(share=0.5)
    assert choose(designs_of(both), COST).chosen == 2
    looked_at = designs_of(both[(both["workload"] == "net") | (both["design"] < 2)])
    assert looked_at.index.tolist() == [0, 1]


def test_as_many_accelerators_are_needed_as_any_design_feeds():
    rows = [
        row(au, object_servers=servers, n_accelerators=n)
        for servers, used in ((1, (95, 80)), (2, (99, 94)))
        for n, au in zip((8, 16), used, strict=True)
    ]
    table = designs_of(designs(*rows))
    assert (found := choose(table, COST)).chosen == 3
    assert (found.need, found.miss) == (16, 1)
    assert choose(table, COST, need=8).chosen == 0


def test_a_useful_hour_can_be_cheapest_with_more_storage():
    table = designs_of(servers(91, 99))
    assert choose(table, COST).chosen == 0
    assert choose(table, HOURLY, by="price").chosen == 0
    assert choose(table, HOURLY).chosen == 1


def test_goals_of_times_are_met_from_below():
    keys = {"goal": "io_time_s", "goal_value": 4.0}
    table = designs(
        row(verdict="misses", io_time_s=5.0, object_servers=1, **keys),
        row(verdict="meets", io_time_s=3.0, object_servers=2, **keys),
    )
    found = designs_of(table)
    assert found["margin"].tolist() == [-25, 25]
    assert choose(found, COST).chosen == 1
    assert choose(found, COST).null == {}


def test_null_models_choose_by_what_they_say():
    table = servers(80, 95, 99).assign(linear=[95.0, 96, 97], demand=[50.0, 96, 99])
    assert choose(designs_of(table), COST).null == {"linear": 0, "demand": 1}


def test_of_equally_cheap_designs_the_best_is_chosen():
    table = designs(row(91), row(95, placement="adhoc"), row(93))
    assert choose(designs_of(table), COST).chosen == 1


def test_a_bound_counts_as_its_best_case():
    table = servers(80, 99)
    bound = {"known_by": "bound", "utilisation_percent": np.nan}
    table.loc[0, [*bound, "utilisation_high_percent"]] = [*bound.values(), 85.0]
    found = designs_of(table)
    assert found["margin"].tolist() == [-5, 9]
    assert found["is_simulated"].tolist() == [False, True]
    assert choose(found, COST).miss == 0


def test_front_has_what_nothing_beats():
    cost = np.array([[1.0], [2], [3], [3], [4]])
    value = np.array([10.0, 20, 15, 20, np.nan])
    assert front(cost, value).tolist() == [True, True, False, False, False]
    both = np.array([[1.0, 2], [2, 1], [2, 2]])
    assert front(both, np.array([5.0, 5, 5])).tolist() == [True, True, False]


def test_if_nothing_meets_the_nearest_to_the_goal_is_named():
    table = servers(70, 85, 80)
    assert choose(designs_of(table), COST).miss == 1
    table.loc[1, "known_by"] = "bound"
    assert choose(designs_of(table), COST).miss == 2
    only_bounds = table.assign(known_by="bound")
    assert choose(designs_of(only_bounds), COST).chosen == -1
