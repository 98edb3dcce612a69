import numpy as np
import pytest
from scipy.stats import hypergeom, norm
from tierscope.data.shuffle import process_share
from tierscope.model.analytic.order_statistics import (
    count_times,
    deal_hits,
    log_hypergeometric,
    rank_times,
    slowest_probability,
)
from tierscope.model.analytic.tiered import RankGroups
from tierscope.storage.queueing_network import Network, TierModel, Workload

IDLE = TierModel()


def network(n_ranks, group_size=None, **lfs):
    """Return a machine whose LFS groups have this many ranks."""
    return Network(n_ranks, IDLE, TierModel(group_size=group_size, **lfs))


def one_kind(n_ranks):
    """Return one group of ranks."""
    return RankGroups(np.array([1]), np.array([n_ranks]), np.ones(1))


class TestHits:
    def test_probabilities_are_hypergeometric(self):
        hits = np.arange(-1, 8)
        ours = np.exp(log_hypergeometric(hits, 20, 6, 7))
        assert ours == pytest.approx(hypergeom.pmf(hits, 20, 6, 7), abs=1e-14)

    @pytest.mark.parametrize("rate", [0, 1, 35, 50, 99, 100])
    @pytest.mark.parametrize(
        ("n_ranks", "group_size", "n_files"),
        [(8, None, 768), (8, 8, 16), (32, 8, 97), (3072, 64, 6144), (7, 3, 7)],
    )
    def test_all_hits_are_dealt(self, n_ranks, group_size, n_files, rate):
        counts = deal_hits(network(n_ranks, group_size), n_files, rate)
        assert counts.probability.sum(axis=1) == pytest.approx(1)
        assert (counts.n_hits <= counts.n_files).all()
        assert (counts.n_hits >= 0).all()
        assert (counts.groups.n_groups * counts.groups.n_ranks).sum() == n_ranks
        by_count = counts.groups.share @ counts.probability * n_ranks
        assert by_count @ counts.n_files == pytest.approx(n_files)
        # Groups stand at quantiles, whole numbers, of their hits.
        n_groups = counts.groups.n_groups.sum()
        pinned = round(n_files * rate / 100)
        assert by_count @ counts.n_hits == pytest.approx(pinned, abs=0.5 * n_groups)

    def test_hits_of_the_ranks_of_one_group_are_those_of_the_shuffle(self):
        counts = deal_hits(network(4), 40, 30)
        expected = hypergeom.pmf(counts.n_hits, 40, 12, 10)
        assert counts.probability[0] == pytest.approx(expected)

    def test_equal_groups_are_one_kind(self):
        assert len(deal_hits(network(64, 2), 640, 100).groups.share) == 1

    def test_work_of_groups_spreads_as_hits_and_slowness_together(self):
        n_groups, size, n_each = 400, 4, 50
        spread = 0.1
        machine = network(n_groups * size, size, object_server_spread=spread)
        counts = deal_hits(machine, n_groups * size * n_each, 50)
        hits = counts.probability @ counts.n_hits / n_each
        weights = counts.groups.share
        logs = np.log(hits * counts.groups.slowness)
        mean = weights @ logs
        of_hits = 0.5 / (size * n_each) / 0.5
        expected = np.sqrt(spread**2 + of_hits)
        assert np.sqrt(weights @ (logs - mean) ** 2) == pytest.approx(
            expected, rel=0.02
        )

    def test_slowness_alone_stands_at_the_normal_quantiles(self):
        machine = network(6, 2, object_server_spread=0.1)
        slowness = deal_hits(machine, 60, 100).groups.slowness
        expected = np.exp(0.1 * norm.ppf([1 / 6, 3 / 6, 5 / 6]))
        assert slowness == pytest.approx(expected)


class TestMaximum:
    def test_of_two_ranks_the_slower_counts(self):
        time_s, probability = np.array([[3.0, 1.0]]), np.array([[0.25, 0.75]])
        slowest = slowest_probability(time_s, probability, one_kind(2))
        assert slowest[0] == pytest.approx([1 - 0.75**2, 0.75**2])

    def test_groups_multiply(self):
        groups = RankGroups(np.array([2, 1]), np.array([1, 1]), np.ones(2))
        time_s = np.array([[1.0, 4.0], [2.0, 3.0]])
        slowest = slowest_probability(time_s, np.full((2, 2), 0.5), groups)
        # Both ranks of the first kind below 4 with 1/4, then the second kind decides.
        assert slowest == pytest.approx(np.array([[0, 3 / 4], [1 / 8, 1 / 8]]))

    @pytest.mark.parametrize("rate", [10, 50, 90])
    def test_independence_is_near_the_most_hits_of_real_shuffles(self, rate):
        n_ranks, n_each = 64, 48
        n_files = n_ranks * n_each
        counts = deal_hits(network(n_ranks), n_files, rate)
        slowest = slowest_probability(
            counts.n_hits[np.newaxis].astype(float), counts.probability, counts.groups
        )
        generator = np.random.default_rng(1)
        pinned = np.arange(n_files) < n_files * rate // 100
        most = [
            max(
                shuffled[process_share(n_files, rank, n_ranks)].sum()
                for rank in range(n_ranks)
            )
            for shuffled in (generator.permutation(pinned) for _ in range(300))
        ]
        # A third of a hit: four standard errors of the 300 shuffles, and more.
        assert slowest[0] @ counts.n_hits == pytest.approx(np.mean(most), abs=0.33)


class TestTimes:
    def test_without_queues_a_rank_takes_the_sum_of_its_files(self):
        gfs = TierModel(open_latency_s=1, read_latency_s=3)
        lfs = TierModel(open_latency_s=0.5, read_latency_s=2)
        machine, workload = Network(4, gfs, lfs), Workload(40, 100)
        counts = deal_hits(machine, 40, 30)
        times_s = count_times(machine, workload, counts)
        hits, missed = counts.n_hits, counts.n_files - counts.n_hits
        expected = np.stack([3 * missed, missed, 2 * hits, 0.5 * hits], axis=1)
        assert times_s[0] == pytest.approx(expected)

    def test_last_rank_ends_when_the_saturated_server_has_served_all(self):
        # 64 ranks, 3200 files, half of them at a server of 1 s each.
        machine = Network(64, TierModel(open_s=1), IDLE)
        slowest_s, mean_s = rank_times(machine, Workload(3200, 100), 50)
        assert slowest_s.sum() == pytest.approx(1600, rel=0.01)
        # The mean of the time at which a rank has all: half the mean difference of
        # two ranks' counts (s.d. over root pi, s.d. = 3.5) before.
        expected = 1600 * (1 - 3.5 / np.sqrt(np.pi) / 25)
        assert mean_s.sum() == pytest.approx(expected, rel=0.01)

    def test_slow_group_decides_where_the_servers_of_groups_are_the_bottleneck(self):
        machine = network(64, 8, request_s=1.0, object_server_spread=0.1)
        slowest_s, _ = rank_times(machine, Workload(640, 100), 100)
        slowest = np.exp(0.1 * norm.ppf(15 / 16))
        assert slowest_s.sum() == pytest.approx(80 * slowest, rel=0.01)
