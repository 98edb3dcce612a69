"""Grids of designs on storage that one can compute in the head."""

import itertools
from dataclasses import replace

import pytest
from small_designs import AU, plan, simulate, study_of
from tierscope.core.columns.designs import MEETS, MISSES, UNDECIDED
from tierscope.core.tables import check_table
from tierscope.data.costs import Cost, Unit
from tierscope.data.designs import Design, Goal, Storage
from tierscope.model.designs.draws import drawn_plans
from tierscope.model.designs.evidence import Evidence
from tierscope.model.designs.feeding import Trial, simulating
from tierscope.model.designs.search import Grid
from tierscope.model.designs.study import simulate_study

SERVERS = [Storage(object_servers=n, cache_rate_percent=0) for n in range(1, 9)]
# One source of errors: a server's rate is known to 5 %.
RATE = "gfs.ost_bandwidth_bytes_per_s"
DRAWS = {
    "parameters": [RATE],
    "sources": [
        {"name": "pure", "degrees": None, "deviation": 0.0, "covariance": [[0.0025]]}
    ],
}


def forty_on(storages=SERVERS, goal=80.0, found=None, **keys):
    """Return forty accelerators that ask for 400 files a second.

    With one reader each they find four servers busy for about nine tenths of the time.
    """
    found = found or plan()
    return study_of(found, storages, goal, accelerators=(40,), **keys)


def evidence_of(study):
    variants = {
        name: [[one] for one in drawn_plans(plan, study.draws, study.repetitions)]
        for name, plan in study.plans.items()
    }
    return Evidence(study, variants, simulate, [].append)


def searched(study):
    evidence = evidence_of(study)
    (grid := Grid(evidence)).simulate()
    return evidence, grid


def verdicts(study):
    evidence, grid = searched(study)
    return {
        design.storage.object_servers: evidence.verdict_of_all(design)
        for design in grid.designs
        if evidence.n_draws("tiny", design)
    }


def tables(study, what=simulate):
    return simulate_study(study, what, [].append, [].append)


def test_what_misses_by_its_bound_and_what_is_no_better_is_not_simulated():
    """Three servers feed thirty at most; when all are fed more is no better."""
    found = verdicts(forty_on())
    assert {4, 5} <= set(found) <= {4, 5, 6, 7}
    assert set(found.values()) == {MEETS}
    table = tables(forty_on()).designs
    assert check_table(table, "designs").equals(table)
    simulated = [int(one in found) for one in range(1, 9)]
    assert table["n_repetitions"].tolist() == simulated
    assert table["known_by"].tolist() == [["bound", "simulated"][n] for n in simulated]
    expected = [MISSES] * 3 + [[UNDECIDED, MEETS][n] for n in simulated[3:]]
    assert table["verdict"].tolist() == expected
    most = table["utilisation_high_percent"].tolist()[:3]
    assert most == pytest.approx([25, 50, 75], rel=0.06)
    assert table["epoch_time_low_s"][2] == pytest.approx(80 / 3, rel=0.05)


def test_pruning_asks_no_price():
    dear = Cost(units={"object_server": Unit(price=5.0, price_per_gib=None)})
    with_price, without = forty_on(cost=dear), forty_on()
    assert verdicts(with_price) == verdicts(without)
    table = tables(with_price).designs
    assert table["price"].tolist() == [5.0 * n for n in range(1, 9)]


def test_the_border_is_found_with_few_simulations():
    """Of 60 designs the metadata service, which costs nothing, tells nothing."""
    storages = [
        Storage(object_servers=n, metadata_speed=speed, cache_rate_percent=0)
        for n, speed in itertools.product(range(1, 16), (1.0, 2.0, 3.0, 4.0))
    ]
    evidence, _ = searched(forty_on(storages, goal=97.0, simulations=24))
    assert evidence.n_simulations <= 18
    found = {
        one.storage.object_servers: evidence.verdict("tiny", one)
        for _, one in evidence.paces
    }
    least = min(n for n, verdict in found.items() if verdict == MEETS)
    assert found[least - 1] == MISSES


def test_simulations_are_at_most_so_many_and_near_the_goal_first():
    study = forty_on(repetitions=8, draws=DRAWS, simulations=20, goal=88.0)
    evidence, _ = searched(study)
    assert 15 <= evidence.n_simulations <= 20  # a quarter is left for answers
    draws = {
        one.storage.object_servers: evidence.n_draws("tiny", one)
        for _, one in evidence.paces
    }
    assert draws[4] == max(draws.values()) >= 4


def test_one_simulation_may_be_all():
    evidence, _ = searched(forty_on(simulations=1))
    assert evidence.n_simulations == 1


def test_seeds_go_with_draws_and_are_those_of_all_designs():
    study = forty_on(repetitions=5, draws=DRAWS, goal=88.0)
    evidence, _ = searched(study)
    four, plans = Design(40, SERVERS[3]), evidence.variants["tiny"]
    rates = [one.machine.devices["gfs"][RATE[4:]] for (one,) in plans]
    used = [some[0].utilisation_percent for some in evidence.paces["tiny", four]]
    assert (rates[0], len(set(rates))) == (1e8, 5)
    paces = simulate([Trial(one, four, i) for i, (one,) in enumerate(plans)])
    assert used == [one.utilisation_percent for one in paces]
    band = evidence.band("tiny", four, AU)
    assert (band.low, band.high) == (min(used), max(used))
    assert evidence.verdict("tiny", four) == UNDECIDED


def test_one_draw_is_as_unsure_as_many_of_another_design():
    evidence = evidence_of(forty_on(repetitions=3, draws=DRAWS, goal=65.0))
    three, four = Design(40, SERVERS[2]), Design(40, SERVERS[3])
    evidence.add([("tiny", three)])
    assert (
        evidence.ends("tiny", three)
        == (used := evidence.band("tiny", three, AU))[:1] * 2
    )
    assert evidence.verdict("tiny", three) == MEETS  # about 70 %
    for _ in range(3):
        evidence.add([("tiny", four)])
    first = evidence.paces["tiny", four][0][0].utilisation_percent
    band = evidence.band("tiny", four, AU)
    ratios = (band.low / first, band.high / first)
    assert ratios[0] <= 1 < ratios[1]
    assert evidence.ends("tiny", three) == tuple(used.mean * one for one in ratios)


def test_a_design_meets_if_every_workload_meets_its_goal():
    small, large = plan(compute_time_s=0.4), plan()
    study = replace(
        forty_on(),
        plans={"small": small, "large": large},
        shares={"small": 0.5, "large": 0.5},
        goals={"small": Goal(AU, 80.0), "large": Goal(AU, 80.0)},
    )
    evidence, grid = searched(study)
    assert evidence.verdict("small", grid.designs[0]) == UNDECIDED  # not simulated
    for at, verdict in ((0, MISSES), (3, MEETS)):
        assert evidence.verdict("large", grid.designs[at]) == verdict
        assert evidence.verdict_of_all(grid.designs[at]) == verdict
    table = tables(study).designs
    assert table["design"].tolist() == [*range(8)] * 2
    assert table["share"].unique().tolist() == [0.5]


@pytest.mark.parametrize(
    ("quantity", "value"), [("epoch_time_s", 22.0), ("io_time_s", 3.5)]
)
def test_times_are_goals_too(quantity, value):
    """8000 files by 400 a second take 20 s; each of forty reads 200 of them."""
    found = plan(steps=1000, compute_time_s=0.01)
    study = replace(forty_on(found=found), goals={"tiny": Goal(quantity, value)})
    evidence, _ = searched(study)
    times = {
        design.storage.object_servers: evidence.band("tiny", design, quantity).mean
        for _, design in evidence.paces
    }
    assert times
    for n, time_s in times.items():
        met = evidence.verdict("tiny", Design(40, SERVERS[n - 1])) == MEETS
        assert met == (time_s <= value)


def test_tables_do_not_depend_on_the_number_of_processes():
    study = forty_on(repetitions=3, draws=DRAWS, goal=97.0)
    alone = tables(study)
    with simulating(3) as pool:
        together = tables(study, pool)
    assert alone.designs.equals(together.designs)
    assert alone.inputs.equals(together.inputs)


def test_null_models_scale_and_divide_rates():
    table = tables(forty_on(goal=60.0)).designs.set_index("object_servers")
    assert table["demand"].tolist()[:4] == pytest.approx([25, 50, 75, 100])
    first = table[table["known_by"] == "simulated"].iloc[0]
    used = first["utilisation_percent"]
    assert table["linear"][first.name] == used
    assert table["linear"][1] == pytest.approx(used / first.name)


@pytest.mark.parametrize(
    ("quantity", "times"),
    [("epoch_time_s", [80, 40, 80 / 3, 20]), ("io_time_s", [80, 40, 80 / 3, 20])],
)
def test_null_models_say_times_too(quantity, times):
    """They are of 8000 files by 100 a second and server."""
    study = forty_on(found=plan(steps=1000, compute_time_s=0.01))
    table = tables(replace(study, goals={"tiny": Goal(quantity, 22.0)})).designs
    assert table["demand"].tolist()[:4] == pytest.approx(times)
    ratios = table["linear"] * table["object_servers"]
    first = table[table["known_by"] == "simulated"].iloc[0]
    expected = first[quantity] * first["object_servers"]
    assert ratios.tolist() == pytest.approx([expected] * 8)


def test_the_chosen_design_has_all_its_draws():
    study = forty_on(repetitions=8, draws=DRAWS, simulations=24, goal=80.0)
    table = tables(study).designs
    meets = table[table["verdict"] == MEETS]
    assert meets["n_repetitions"].iloc[0] == 8


def test_of_answers_it_is_known_what_limits_them():
    table = tables(forty_on(goal=60.0)).designs
    asked = table[table["limit"] != "not asked"]
    assert asked["verdict"].tolist() == [MISSES, MEETS]
    assert asked["limit"].tolist() == ["gfs_read"] * 2


def test_what_was_not_simulated_is_no_better_than_with_more_hardware():
    """One simulation tells of the other designs with at most four servers."""
    storages = [
        Storage(object_servers=4, metadata_speed=speed, cache_rate_percent=0)
        for speed in (1.0, 2.0, 3.0)
    ]
    evidence, grid = searched(forty_on(storages, goal=95.0, simulations=2))
    (_, known), *others = evidence.paces
    assert not others
    used = evidence.band("tiny", known, AU).mean
    less, more = grid.designs[: grid.designs.index(known)], grid.designs[-1]
    assert less
    for one in less:
        assert evidence.band("tiny", one, AU).high == used
        assert evidence.verdict("tiny", one) == MISSES
    assert evidence.verdict("tiny", more) == (MISSES if more == known else UNDECIDED)
