"""Times of ideal runs, whose epochs of 1.46 s have four steps and eight samples."""

import numpy as np
import pytest
from tierscope.model.programs.ideal_times import ideal_times
from unit.model.programs.conftest import FETCH, LOOP, tables

NO_TIMES = np.zeros(0)
FIRST, LATER = ({"rank": 0, "epoch": epoch} for epoch in (0, 1))
WARM = LOOP | {"first_use_s": 0.7, "use_s": 1.0}
DEVICE = {"busy_s": 1.2, "first_busy_s": 0.6, "idle_s": 0.05, "behind_s": 0.1}


def times_of(*runs):
    """Return the times of runs with batches of two samples."""
    return ideal_times(runs, NO_TIMES, 2)


def test_first_step_is_in_no_mean_but_in_the_warmup_of_its_epoch(made):
    """0.7 s of computation, then three steps of 0.1 s."""
    times = times_of(made(loops=[WARM | FIRST, LOOP | LATER]))
    assert times.compute_s == pytest.approx(0.1)
    assert times.warmup_s == pytest.approx((0.6, 0.0))
    assert times.rest_s == pytest.approx((0.4, 1.0))


def test_parts_of_an_epoch_add_up_to_it(made):
    """The model waits 0.06 s for the two samples of the first batch."""
    brief = LOOP | {"first_use_s": 0.01, "use_s": 0.31}  # first step below a usual one
    for loop in (WARM, LOOP, brief, LOOP | {"batches": 1, "use_s": 0.1}):
        times = times_of(made(loops=[loop | FIRST, loop | LATER]))
        simulated_s = loop["batches"] * times.compute_s + 0.06
        whole_s = simulated_s + times.warmup_s[0] + times.rest_s[0]
        assert whole_s == pytest.approx(1.46)


def test_computation_is_that_of_the_devices_where_they_were_seen(made):
    """Launching takes 0.1 s a step, computing 0.2 s: the loop hides the rest."""
    loops = [LOOP | {"device": DEVICE} | one for one in (FIRST, LATER)]
    times = times_of(made(loops=loops))
    assert times.compute_s == pytest.approx(0.2)
    assert times.warmup_s == pytest.approx((0.4, 0.4))
    # 1.46 s without 0.21 s of waiting, of which 0.1 s are the start of workers.
    assert times.rest_s == pytest.approx((0.15, 0.15))


def test_first_fetches_are_in_no_mean_but_in_the_rest_of_their_epoch(made):
    """Two samples of 0.33 s, then six of 0.03 s, of which 0.01 s are I/O time."""
    slow = {"fetch_s": 0.84, "first_fetch_s": 0.66, "first_samples": 2}
    wait = {"first_wait_s": 0.76, "wait_s": 0.76}
    run = made(
        fetches=[FETCH | slow | FIRST, FETCH | LATER],
        loops=[LOOP | wait | FIRST, LOOP | LATER],
    )
    times = times_of(run)
    assert times.sample_s == pytest.approx(0.02)
    assert times.rest_s == pytest.approx((1.0, 1.0))  # 0.7 s of it the first batch


def test_first_fetches_count_if_there_are_no_others(made):
    only = FETCH | {"first_fetch_s": 0.24, "first_samples": 8}
    times = times_of(made(fetches=[only | FIRST, only | LATER]))
    assert times.sample_s == pytest.approx(0.02)


def test_means_are_over_loops_of_all_ranks_and_runs(made):
    epochs = tables()["epochs"].assign(execution_time_s=3.46)
    runs = [made(), made(changed={"epochs": epochs})]
    assert times_of(*runs).rest_s == pytest.approx((2.0, 2.0))


def test_words_name_warmup_by_epoch_and_computation_that_is_a_least(made):
    some = [WARM | FIRST, LOOP | LATER]
    assert times_of(made(loops=some)).words == (
        "By its ideal runs it computes for 0.100 s a usual step, takes 0.0200 s of "
        "processor time a sample (from its fetches), and 0.700 s an epoch for the "
        "rest. Its first step takes 0.600 s longer in the first epoch, and 0.00 s in "
        "later ones: warm-up."
    )
    least = LOOP | {"least_because": "other streams"}
    words = times_of(made(loops=[least | FIRST, least | LATER])).words
    assert "computes for at least 0.100 s a usual step" in words
    assert words.endswith(
        "Computation is a least (other streams): predicted utilisation is, too."
    )
