import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tierscope.model.analytic.mva import (
    REMOVALS,
    TooLargeError,
    exact_mva,
    schweitzer_mva,
)
from tierscope.storage.network import ModelError

DEMANDS = [[2.0, 1.0], [0.5, 3.0], [4.0, 0.25]]  # the last is a delay
DELAY = [False, False, True]


def brute_force(demand_s, population, delay):
    """Return mean queue lengths of a product-form network by adding all its states."""
    demands = np.array(demand_s)
    n_stations, n_classes = demands.shape
    ways = [
        [
            way
            for way in itertools.product(range(number + 1), repeat=n_stations)
            if sum(way) == number
        ]
        for number in population
    ]
    total, queues = 0.0, np.zeros((n_stations, n_classes))
    for placed in itertools.product(*ways):
        state = np.array(placed).T  # stations, classes
        weight = 1.0
        for i in range(n_stations):
            for k in range(n_classes):
                weight *= demands[i, k] ** state[i, k] / math.factorial(state[i, k])
            if not delay[i]:
                weight *= math.factorial(state[i].sum())
        total += weight
        queues += weight * state
    return queues / total


@st.composite
def networks(draw):
    """Draw demands, populations and delays of up to 4 stations and 3 classes."""
    n_stations, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    demand = st.floats(1e-6, 1e3)
    column = st.lists(demand, min_size=n_stations, max_size=n_stations)
    demands = draw(st.lists(column, min_size=n_classes, max_size=n_classes))
    population = draw(
        st.lists(st.integers(0, 6), min_size=n_classes, max_size=n_classes)
    )
    delay = draw(st.lists(st.booleans(), min_size=n_stations, max_size=n_stations))
    return np.array(demands).T, population, delay


class TestExact:
    @pytest.mark.parametrize("population", [(3, 2), (0, 4), (5, 1)])
    def test_queues_are_those_of_all_states_of_the_product_form(self, population):
        result = exact_mva(DEMANDS, population, delay=DELAY)
        expected = brute_force(DEMANDS, population, DELAY)
        np.testing.assert_allclose(result.queue_length, expected, rtol=1e-12)

    @pytest.mark.parametrize("n_customers", [1, 2, 7, 500])
    def test_throughput_of_a_balanced_network(self, n_customers):
        result = exact_mva(np.full((4, 1), 0.3), [n_customers])
        expected = n_customers / (0.3 * (n_customers + 4 - 1))
        assert result.throughput_per_s[0] == pytest.approx(expected, rel=1e-12)

    def test_one_station_with_thinking_customers_is_erlangs_loss_formula(self):
        # Machine repair: the server idles with the blocking probability of N lines.
        service_s, think_s, n_customers = 2.0, 10.0, 6
        offered = think_s / service_s
        terms = [offered**k / math.factorial(k) for k in range(n_customers + 1)]
        result = exact_mva([[service_s], [think_s]], [n_customers], delay=[0, 1])
        expected = (1 - terms[-1] / sum(terms)) / service_s
        assert result.throughput_per_s[0] == pytest.approx(expected, rel=1e-12)

    def test_too_many_states_are_refused(self):
        with pytest.raises(ModelError, match=r"exact-mva: got 19998 .* in 2 .* at 1"):
            exact_mva([[1.0, 1.0]], [9999, 9999])
        with pytest.raises(TooLargeError, match=r"inf pairs .* take schweitzer"):
            exact_mva(np.ones((1, 999)), [9] * 999)


class TestSchweitzer:
    @pytest.mark.parametrize("removal", REMOVALS)
    def test_one_customer_never_waits(self, removal):
        result = schweitzer_mva(DEMANDS, [1, 0], delay=DELAY, removal=removal)
        assert result.residence_s[:, 0] == pytest.approx([2.0, 0.5, 4.0])
        assert result.throughput_per_s.tolist() == pytest.approx([1 / 6.5, 0])

    @pytest.mark.parametrize("removal", REMOVALS)
    def test_balanced_network_without_delay_is_exact(self, removal):
        result = schweitzer_mva(np.full((4, 1), 0.3), [9], removal=removal)
        assert result.throughput_per_s[0] == pytest.approx(9 / (0.3 * 12), rel=1e-6)

    @pytest.mark.parametrize(
        ("removal", "worst"), [("proportional", 0.07), ("marginal", 0.013)]
    )
    def test_throughput_of_one_class_is_near_the_exact_one(self, removal, worst):
        generator = np.random.default_rng(0)
        errors = []
        for _ in range(200):
            demands = generator.random((generator.integers(2, 6), 1)) ** 2 + 1e-3
            demands[0] *= generator.choice([0.1, 1, 10])
            delay = [True] + [False] * (len(demands) - 1)
            population = [int(generator.integers(1, 100))]
            exact = exact_mva(demands, population, delay=delay)
            near = schweitzer_mva(demands, population, delay=delay, removal=removal)
            errors.append(near.throughput_per_s / exact.throughput_per_s - 1)
        assert np.abs(errors).max() < worst

    @pytest.mark.parametrize(
        ("removal", "mean"), [("proportional", 0.03), ("marginal", 0.022)]
    )
    def test_throughput_of_several_classes_is_near_the_exact_one(self, removal, mean):
        generator = np.random.default_rng(0)
        errors = []
        for _ in range(200):
            demands = generator.random((4, 2)) ** 2 + 1e-3
            population = generator.integers(1, 20, 2)
            delay = [True, False, False, False]
            exact = exact_mva(demands, population, delay=delay)
            near = schweitzer_mva(demands, population, delay=delay, removal=removal)
            errors.append(near.throughput_per_s / exact.throughput_per_s - 1)
        assert np.abs(errors).mean() < mean

    @pytest.mark.parametrize("cv2", [0.0, 0.5, 4.0])
    def test_saturated_server_works_all_the_time_whatever_its_variation(self, cv2):
        result = schweitzer_mva(
            [[1.0], [10.0]],
            [500],
            delay=[False, True],
            service_cv2=[cv2, 1],
            removal="marginal",
        )
        assert result.throughput_per_s[0] == pytest.approx(1, rel=1e-4)

    @pytest.mark.parametrize("cv2", [0.0, 1.0, 4.0])
    def test_many_customers_who_think_long_are_poisson_arrivals(self, cv2):
        # Pollaczek and Khinchine: waiting = load * service * (1 + cv2) / 2 / (1 - load)
        result = schweitzer_mva(
            [[1.0], [199_998.0]],
            [100_000],
            delay=[False, True],
            service_cv2=[cv2, 1],
            removal="marginal",
        )
        expected_s = 1 + 0.5 * (1 + cv2) / 2 / (1 - 0.5)
        assert result.residence_s[0, 0] == pytest.approx(expected_s, rel=1e-4)

    def test_two_deterministic_customers_without_thinking_share_the_server(self):
        result = schweitzer_mva([[1.0]], [2], service_cv2=[0.0])
        assert result.throughput_per_s[0] == pytest.approx(1)

    def test_several_servers_are_a_faster_one_and_a_delay(self):
        result = schweitzer_mva([[3.0]], [1], servers=[3])
        assert result.residence_s[0, 0] == pytest.approx(3)
        crowd = schweitzer_mva([[3.0]], [1000], servers=[3])
        assert crowd.throughput_per_s[0] == pytest.approx(1, rel=2e-3)

    def test_iteration_that_does_not_converge_is_refused(self):
        with pytest.raises(ModelError, match=r"change of .* after 4 iterations"):
            schweitzer_mva(DEMANDS, [30, 20], delay=DELAY, max_iterations=4)


class TestLaws:
    """What holds of every closed network (Little; asymptotic bounds)."""

    @pytest.mark.parametrize("solver", ["exact", *REMOVALS])
    @settings(max_examples=60, deadline=None)
    @given(network=networks())
    def test_customers_are_somewhere_and_stations_no_busier_than_always(
        self, solver, network
    ):
        demands, population, delay = network
        if solver == "exact":
            result = exact_mva(demands, population, delay=delay)
        else:
            result = schweitzer_mva(demands, population, delay=delay, removal=solver)
        queues, throughput = result.queue_length, result.throughput_per_s
        assert (queues >= 0).all()
        np.testing.assert_allclose(queues.sum(axis=0), population, rtol=1e-9)
        np.testing.assert_allclose(queues, result.residence_s * throughput, rtol=1e-9)
        busy = (demands * throughput).sum(axis=1)[~np.array(delay)]
        assert (busy <= 1 + 1e-6).all()
        alone = population / demands.sum(axis=0)
        assert (throughput <= alone * (1 + 1e-9)).all()


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"demand_s": [[-1.0]]}, "demand_s: got .*-1.0.*, expected numbers of at"),
            ({"demand_s": [1.0]}, r"demand_s: got shape \(1,\)"),
            ({"demand_s": [[0.0]]}, "demand_s: got none of class 0"),
            ({"demand_s": [[math.inf]]}, "demand_s: got .*inf"),
            ({"population": [-3]}, "population: got .*-3.*, expected 1 numbers"),
            ({"population": [1, 2]}, "expected 1 numbers of at least 0"),
            ({"servers": [0]}, "servers: got .*0.*, expected integers of at least 1"),
            ({"service_cv2": [-1]}, "service_cv2: got .*-1"),
            ({"delay": [True, False]}, "delay: got shape"),
            ({"removal": "half"}, "removal: got 'half', expected one of proportional"),
        ],
    )
    def test_impossible_arguments_are_refused_in_one_line(self, changes, words):
        arguments = {"demand_s": [[1.0]], "population": [3]} | changes
        with pytest.raises(ModelError, match=words) as error:
            schweitzer_mva(**arguments)
        assert "\n" not in str(error.value)

    def test_exact_needs_whole_customers(self):
        with pytest.raises(ModelError, match=r"population: got \[1.5\], .* integers"):
            exact_mva([[1.0]], [1.5])
