"""Approximate mean value analysis beside the exact one, and where it is exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tierscope.model.analytic.fixed_point import Customers, Stations, solve_fixed_point
from tierscope.storage.queueing_network import ModelError

DEMANDS = [[2.0, 1.0], [0.5, 3.0]]
THINK = [4.0, 0.25]


def solve(demand_s, population, think_s, cv2=None, max_iterations=20_000):
    """Return throughput (n_classes,) and residence times (n_stations, n_classes)."""
    demands = np.array(demand_s, float)
    customers, think_s = np.array(population, float), np.array(think_s, float)
    n_stations = len(demands)
    station_of, class_of = map(np.ascontiguousarray, np.nonzero(demands))
    ones = np.ones(n_stations)
    cv2 = ones if cv2 is None else np.array(cv2, float)
    waiting = solve_fixed_point(
        Stations(station_of, class_of, ones, ones, cv2),
        Customers(customers, np.minimum(customers, 1.0), think_s),
        demands[station_of, class_of],
        np.ones(len(station_of)),
        tolerance=1e-9,
        max_iterations=max_iterations,
    )
    residence_s = np.zeros_like(demands)
    residence_s[station_of, class_of] = demands[station_of, class_of] * waiting
    return customers / (think_s + residence_s.sum(axis=0)), residence_s


def exact_throughput(demand_s, population, think_s):
    """Return throughputs by the recursion over populations (Reiser, Lavenberg 1980)."""
    demands = np.array(demand_s, float)
    queues = {(0,) * len(population): np.zeros(len(demands))}
    for present in itertools.product(*(range(n + 1) for n in population)):
        throughput = np.zeros(len(population))
        residence_s = np.zeros_like(demands)
        for k, number in enumerate(present):
            if number:
                without = tuple(n - (j == k) for j, n in enumerate(present))
                residence_s[:, k] = demands[:, k] * (1 + queues[without])
                throughput[k] = number / (think_s[k] + residence_s[:, k].sum())
        queues[present] = residence_s @ throughput
    return throughput


def test_one_customer_never_waits():
    throughput, residence_s = solve(DEMANDS, [1, 0], THINK)
    assert residence_s[:, 0] == pytest.approx([2.0, 0.5])
    assert throughput.tolist() == pytest.approx([1 / 6.5, 0])


def test_balanced_network_without_delay_is_exact():
    throughput, _ = solve(np.full((4, 1), 0.3), [9], [0.0])
    assert throughput[0] == pytest.approx(9 / (0.3 * 12), rel=1e-6)


def test_throughput_of_one_class_is_near_the_exact_one():
    generator = np.random.default_rng(0)
    errors = []
    for _ in range(100):
        demands = generator.random((generator.integers(1, 5), 1)) ** 2 + 1e-3
        think_s = [(generator.random() ** 2 + 1e-3) * generator.choice([0.1, 1, 10])]
        population = [int(generator.integers(1, 100))]
        near, _ = solve(demands, population, think_s)
        errors.append(near[0] / exact_throughput(demands, population, think_s)[0] - 1)
    assert np.abs(errors).max() < 0.013


def test_throughput_of_several_classes_is_near_the_exact_one():
    generator = np.random.default_rng(0)
    errors = []
    for _ in range(50):
        demands = generator.random((3, 2)) ** 2 + 1e-3
        think_s = generator.random(2) ** 2 + 1e-3
        population = [int(n) for n in generator.integers(1, 20, 2)]
        near, _ = solve(demands, population, think_s)
        errors.append(near / exact_throughput(demands, population, think_s) - 1)
    assert np.abs(errors).mean() < 0.022


@pytest.mark.parametrize("cv2", [0.0, 0.5, 4.0])
def test_saturated_server_works_all_the_time_whatever_its_variation(cv2):
    throughput, _ = solve([[1.0]], [500], [10.0], [cv2])
    assert throughput[0] == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("cv2", [0.0, 1.0, 4.0])
def test_many_customers_who_think_long_are_poisson_arrivals(cv2):
    # Pollaczek and Khinchine: waiting = load * service * (1 + cv2) / 2 / (1 - load)
    _, residence_s = solve([[1.0]], [100_000], [199_998.0], [cv2])
    expected_s = 1 + 0.5 * (1 + cv2) / 2 / (1 - 0.5)
    assert residence_s[0, 0] == pytest.approx(expected_s, rel=1e-4)


def test_two_deterministic_customers_without_thinking_share_the_server():
    throughput, _ = solve([[1.0]], [2], [0.0], [0.0])
    assert throughput[0] == pytest.approx(1)


def test_iteration_that_does_not_converge_is_refused():
    with pytest.raises(ModelError, match=r"change of .* after 4 iterations"):
        solve(DEMANDS, [30, 20], THINK, max_iterations=4)


@st.composite
def networks(draw):
    """Draw demands, populations and think times of up to 4 stations and 3 classes."""
    n_stations, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    demand = st.floats(1e-6, 1e3)
    column = st.lists(demand, min_size=n_stations, max_size=n_stations)
    demands = draw(st.lists(column, min_size=n_classes, max_size=n_classes))
    numbers = st.lists(st.integers(0, 6), min_size=n_classes, max_size=n_classes)
    thinking = st.lists(st.floats(0, 1e3), min_size=n_classes, max_size=n_classes)
    return np.array(demands).T, draw(numbers), draw(thinking)


@settings(max_examples=60, deadline=None)
@given(network=networks())
def test_customers_are_somewhere_and_stations_no_busier_than_always(network):
    """What holds of every closed network (Little; asymptotic bounds)."""
    demands, population, think_s = network
    throughput, residence_s = solve(demands, population, think_s)
    assert (residence_s >= 0).all()
    cycle_s = think_s + residence_s.sum(axis=0)
    np.testing.assert_allclose(throughput * cycle_s, population, rtol=1e-9)
    assert ((demands * throughput).sum(axis=1) <= 1 + 1e-6).all()
    alone = population / (think_s + demands.sum(axis=0))
    assert (throughput <= alone * (1 + 1e-9)).all()
