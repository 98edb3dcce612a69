"""Choices among designs of drawn storage, beside the truth and the whole grid."""

import numpy as np
import pytest
from studies.choices import (
    check,
    drawn,
    places,
    simulate,
    utilisation_percent,
)
from tierscope.analysis.designs.choice import choose, designs_of
from tierscope.model.designs.draws import drawn_plans
from tierscope.model.designs.study import simulate_study

DRAWS = 3


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_choice_meets_the_goal_and_the_next_cheaper_one_misses_it(seed):
    found = check(seed, simulations=120, repetitions=6)
    assert found["meets"]
    assert found["cheaper_misses"]
    assert found["simulations"] <= 120


@pytest.mark.parametrize("seed", [2, 3])
def test_search_chooses_as_the_whole_grid_does(seed):
    case = drawn(seed)
    whole = utilisation_percent(drawn_plans(case.plan, case.uncertainty, DRAWS))
    goal = case.goal(whole.mean(axis=1))
    study = case.study(goal, 120, DRAWS)
    table = simulate_study(study, simulate, str, str).designs.set_index("design")
    place = places(table)
    price, whole = case.prices()[place], whole[place]
    choice = choose(designs_of(table.reset_index()), case.cost)
    surely = (whole >= goal).all(axis=1)
    assert price[choice.chosen] == price[surely].min()
    known = table["n_repetitions"].to_numpy() > 0
    found = table["utilisation_percent"].to_numpy()[known]
    assert (found >= whole.min(axis=1)[known]).all()
    assert (found <= whole.max(axis=1)[known]).all()
    assert np.isfinite(found).all()
