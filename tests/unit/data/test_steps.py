import math

import numpy as np
import pytest
from tierscope.core.description import ComputeTime
from tierscope.data.steps import StepTimes, UsedSteps, compute_times_ns

S = 1_000_000_000
SEEDS = (7, 1, 2)


def test_constant_time_is_the_same_in_each_step():
    assert (
        compute_times_ns(ComputeTime(mean_s=0.25), 3, SEEDS, 0).tolist() == [S // 4] * 3
    )
    never = ComputeTime("normal", mean_s=0.25, stdev_s=0)
    assert compute_times_ns(never, 2, SEEDS, 0).tolist() == [S // 4] * 2


@pytest.mark.parametrize("distribution", ["normal", "lognormal"])
def test_random_times_have_the_mean_and_the_standard_deviation(distribution):
    compute = ComputeTime(distribution, mean_s=2, stdev_s=0.5)
    times_s = compute_times_ns(compute, 40_000, SEEDS, 3) / S
    assert times_s.mean() == pytest.approx(2, abs=0.01)
    assert times_s.std() == pytest.approx(0.5, abs=0.01)


def test_time_depends_on_all_seeds_and_on_nothing_else():
    compute = ComputeTime("lognormal", mean_s=2, stdev_s=0.5)
    first = compute_times_ns(compute, 4, SEEDS, 3).tolist()
    assert compute_times_ns(compute, 9, SEEDS, 3).tolist()[:4] == first
    others = [((8, 1, 2), 3), ((7, 0, 2), 3), ((7, 1, 3), 3), (SEEDS, 2)]
    for seeds, rank in others:
        assert compute_times_ns(compute, 4, seeds, rank).tolist() != first


def test_time_below_zero_counts_as_zero():
    compute = ComputeTime("normal", mean_s=0, stdev_s=1)
    times_ns = compute_times_ns(compute, 1000, SEEDS, 0)
    assert times_ns.min() == 0
    assert 400 < np.count_nonzero(times_ns == 0) < 600
    assert compute_times_ns(ComputeTime("lognormal", 0, 1), 3, SEEDS, 0).sum() == 0


def test_first_step_of_each_epoch_has_its_warmup():
    compute = ComputeTime(mean_s=1, warmup_s=(4, 0.5, 0))
    firsts_s = [compute_times_ns(compute, 3, (7, 1, one), 0) / S for one in range(3)]
    assert np.array(firsts_s).tolist() == [[5, 1, 1], [1.5, 1, 1], [1, 1, 1]]
    assert compute_times_ns(compute, 0, (7, 1, 0), 0).tolist() == []


def test_utilisation_is_computation_over_time_without_the_first_step():
    # In 10 s: 4 s of computation, of which 1 s in a first step of 2 s.
    steps = StepTimes(4 * S, 5 * S, 1 * S, 2 * S, 1 * S, n_steps=3)
    columns = steps.columns()
    assert columns.pop("utilisation_percent") == 100 * 3 / 8
    assert columns == {"compute_time_s": 4, "stall_s": 5, "rest_s": 1}


def test_utilisation_of_a_single_step_is_not_known():
    steps = StepTimes(1 * S, 1 * S, 0, 2 * S, 1 * S, n_steps=1)
    assert math.isnan(steps.columns()["utilisation_percent"])


@pytest.mark.parametrize(
    ("first_s", "all_s", "n_steps", "usual", "warmup"),
    [
        (5.0, 9.0, 5, 1.0, 4.0),
        (0.5, 4.5, 5, 1.0, 0.0),  # a short first step has no warm-up
        (5.0, 5.0, 1, 5.0, 0.0),
        (0.0, 0.0, 0, 0.0, 0.0),
    ],
)
def test_warmup_is_what_the_first_step_takes_longer_than_a_usual_one(
    first_s, all_s, n_steps, usual, warmup
):
    used = UsedSteps(n_steps, all_s, first_s, idle_s=0.0, first_idle_s=0.0)
    assert (used.usual_s, used.warmup_s) == (usual, warmup)
