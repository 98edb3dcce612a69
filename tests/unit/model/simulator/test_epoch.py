from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.simpy_network import simulate_with_simpy
from describe_dataset import make_manifest
from descriptions import changed
from snakemake.utils import update_config
from tierscope.analysis.breakdown import sum_io_time
from tierscope.audit.run import Evidence, audit
from tierscope.core.columns import RUN_KEYS
from tierscope.core.description import FileSizes, Run, run_keys
from tierscope.core.scenario import Point, Scenario
from tierscope.core.tables import check_table
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.system import read_system
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.simulator.epoch import KnownServers, simulate_epoch
from tierscope.model.simulator.log import simulated_run_json, write_simulated_log
from tierscope.model.simulator.run import (
    class_times,
    planned_reads,
    simulate_reads,
    tables_of,
)
from tierscope.storage.emulated.scale import emulated_machine, scale_lfs
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    Service,
    TierModel,
    Workload,
    network_of,
)
from tierscope.trace.file_records import read_file_records

ROOT = Path(__file__).parents[4]
RESOURCES = ROOT / "resources"
IDLE = TierModel()
EXPONENTIAL = Service("exponential")


def simulate(gfs=IDLE, lfs=IDLE, n_ranks=1, files_per_rank=1, local=(), **options):
    """Simulate an epoch in which rank r reads the files r n, r n + 1, ...; seed 1."""
    seed = options.pop("seed", 1)
    slowness = options.pop("slowness", None)
    sample_s = options.pop("sample_s", 0.0)
    known = options.pop("known", None)
    n_files = n_ranks * files_per_rank
    on_lfs = np.zeros(n_files, bool)
    on_lfs[list(local)] = True
    return simulate_epoch(
        Network(n_ranks, gfs, lfs, sample_s=sample_s),
        Workload(n_files, **{"file_size_bytes": 100, **options}),
        np.arange(n_files),
        on_lfs,
        np.random.default_rng(seed),
        slowness,
        known=known,
    )


class TestOneStation:
    """Cases that one can follow with a pencil."""

    def test_file_passes_metadata_server_object_server_link_and_metadata_server(self):
        tier = TierModel(
            open_s=1,
            close_s=0.5,
            open_latency_s=2,
            close_latency_s=3,
            request_s=4,
            bandwidth_bytes_per_s=10,
            read_latency_s=5,
            n_links=1,
            link_bytes_per_s=20,
        )
        epoch = simulate(tier)
        read_s = 3 + 4 + 10 + 5 + 5
        assert epoch.instants_s.tolist() == [[0, 3, read_s, read_s, 30.5]]
        assert (epoch.meta_time_ns, epoch.read_time_ns) == ([6.5e9], [24e9])
        assert epoch.execution_time_s == 30.5
        assert epoch.n_events == 4

    def test_ranks_queue_in_the_order_of_their_arrival_at_the_start_by_rank(self):
        epoch = simulate(TierModel(open_s=1), n_ranks=3, files_per_rank=2)
        assert epoch.instants_s[:, 1].tolist() == [1, 4, 2, 5, 3, 6]

    def test_metadata_servers_share_a_queue(self):
        epoch = simulate(TierModel(open_s=1, n_metadata_servers=2), n_ranks=3)
        assert epoch.instants_s[:, 1].tolist() == [1, 1, 2]

    def test_free_operations_ask_no_server(self):
        tier = TierModel(open_s=1, close_latency_s=3)
        epoch = simulate(tier, n_ranks=2)
        assert epoch.instants_s[:, 4].tolist() == [4, 5]
        assert epoch.n_events == 4

    def test_file_lives_on_the_server_of_its_number(self):
        tier = TierModel(request_s=1, n_object_servers=2)
        epoch = simulate(tier, n_ranks=3)
        assert epoch.finished_s.tolist() == [1, 1, 2]

    def test_groups_of_ranks_have_servers_of_their_own(self):
        tier = TierModel(request_s=1, group_size=2)
        epoch = simulate(lfs=tier, n_ranks=3, local=range(3))
        assert epoch.finished_s.tolist() == [1, 2, 1]

    def test_links_are_shared_by_equal_parts_of_the_ranks(self):
        tier = TierModel(n_object_servers=4, n_links=2, link_bytes_per_s=100)
        epoch = simulate(tier, n_ranks=4)
        assert epoch.finished_s.tolist() == [1, 2, 1, 2]

    def test_requests_of_other_ranks_come_between(self):
        tier = TierModel(request_s=1, request_bytes=50)
        epoch = simulate(tier, n_ranks=2)
        assert epoch.finished_s.tolist() == [3, 4]

    def test_read_calls_are_cut_into_requests(self):
        workload = Workload(1, 100, buffer_bytes=40)
        assert workload.call_bytes().tolist() == [40, 40, 20]
        tier = TierModel(request_bytes=30)
        assert workload.request_bytes(tier).tolist() == [30, 10, 30, 10, 20]

    def test_server_is_as_fast_as_without_limit_until_its_credit_is_used_up(self):
        tier = TierModel(
            bandwidth_bytes_per_s=100, limit_bytes_per_s=10, limit_credit_bytes=250
        )
        epoch = simulate(tier, files_per_rank=4)
        # The third file waits until the bucket has filled up by 20 bytes once more.
        assert epoch.instants_s[:, 2].tolist() == [1, 2, 5, 15]
        assert epoch.busy_ns[1] == 15e9
        assert epoch.full_ns[1] == 25e9
        next_epoch = simulate(
            tier, files_per_rank=2, known=KnownServers(full_ns=epoch.full_ns)
        )
        assert next_epoch.instants_s[:, 2].tolist() == [10, 20]

    def test_credit_comes_back_while_nobody_reads(self):
        tier = TierModel(
            bandwidth_bytes_per_s=100, limit_bytes_per_s=50, limit_credit_bytes=100
        )
        epoch = simulate(tier, files_per_rank=3, compute_time_s=2)
        assert epoch.instants_s[:, 2].tolist() == [1, 4, 7]

    def test_credit_of_each_server_is_its_own(self):
        tier = TierModel(limit_bytes_per_s=10, limit_credit_bytes=100)
        epoch = simulate(replace(tier, n_object_servers=3), files_per_rank=4)
        assert epoch.instants_s[:, 2].tolist() == [0, 0, 0, 10]

    def test_file_lives_on_its_observed_or_its_random_server(self):
        tier = TierModel(request_s=1, n_object_servers=3)
        epoch = simulate(tier, n_ranks=3, known=KnownServers(np.array([2, 0, 2])))
        assert epoch.finished_s.tolist() == [1, 1, 2]
        spread = replace(tier, placement="random")
        busy_ns = simulate(spread, n_ranks=3, files_per_rank=100).busy_ns[1:4]
        assert busy_ns.sum() == 300e9
        assert 60e9 < busy_ns.min() < busy_ns.max() < 140e9
        again = simulate(spread, n_ranks=3, files_per_rank=100).busy_ns[1:4]
        assert busy_ns.tolist() == again.tolist()

    def test_files_have_their_own_sizes(self):
        sizes = FileSizes(mean_bytes=100, deviation_bytes=40, least_bytes=50)
        tier = TierModel(bandwidth_bytes_per_s=1, request_bytes=60, read_latency_s=1)
        epoch = simulate(tier, files_per_rank=256, sizes=sizes)
        read_s = epoch.read_time_ns / 1e9
        wanted = [size + -(-size // 60) for size in sizes.values()]
        assert sorted(read_s.tolist()) == wanted
        assert min(sizes.values()) == 50
        drawn = np.clip(np.random.default_rng(0).normal(100, 40, 10**5), 50, None)
        assert np.mean(sizes.values()) == pytest.approx(drawn.mean(), rel=0.005)
        assert np.std(sizes.values()) == pytest.approx(drawn.std(), rel=0.02)

    @pytest.mark.parametrize("n_files", [4, 28, 350])
    def test_any_number_of_files_has_the_mean_of_the_sizes(self, n_files):
        sizes = FileSizes(mean_bytes=100, deviation_bytes=40)
        tier = TierModel(bandwidth_bytes_per_s=1)
        read_s = simulate(tier, files_per_rank=n_files, sizes=sizes).read_time_ns / 1e9
        assert read_s.mean() == pytest.approx(100, rel=0.005)

    def test_workers_read_files_of_their_own_sizes_as_well(self):
        sizes = FileSizes(mean_bytes=100, deviation_bytes=40, least_bytes=50)
        tier = TierModel(bandwidth_bytes_per_s=1)
        options = {"files_per_rank": 512, "sizes": sizes, "batch_size": 4}
        one = simulate(tier, **options)
        workers = simulate(tier, **options, workers=2, prefetch_factor=1)
        assert workers.busy_ns[1] == one.busy_ns[1] == 2 * sum(sizes.values()) * 1e9

    def test_slow_server_takes_longer(self):
        tier = TierModel(request_s=1, n_object_servers=2)
        slowness = (np.array([1, 1.5]), np.ones(1))
        epoch = simulate(tier, n_ranks=2, slowness=slowness)
        assert epoch.finished_s.tolist() == [1, 1.5]

    @pytest.mark.parametrize(
        ("prefetch", "begins_s", "finished_s"),
        [
            (0, [0, 6, 12], 18),  # read 1, compute 5
            (1, [0, 1, 6], 16),  # the second is read while the first is computed
            (2, [0, 1, 2], 16),
        ],
    )
    def test_loader_reads_ahead_as_far_as_it_may(self, prefetch, begins_s, finished_s):
        epoch = simulate(
            TierModel(request_s=1),
            files_per_rank=3,
            prefetch_batches=prefetch,
            compute_time_s=5,
        )
        assert epoch.instants_s[:, 0].tolist() == begins_s
        assert epoch.finished_s == [finished_s]


class TestOrder:
    """What comes first of what comes in one nanosecond."""

    def test_close_comes_before_opens_and_those_in_the_order_of_ranks(self):
        # Opened at 1, 2, 3 and read 2 later. At 3 rank 0 closes. At 4 rank 1 closes,
        # then rank 0 opens, until 5 and 6. At 5 rank 2 closes before rank 1 opens.
        tier = TierModel(open_s=1, close_s=1, read_latency_s=2)
        epoch = simulate(tier, n_ranks=3, files_per_rank=2)
        assert epoch.instants_s[::2].tolist() == [
            [0, 1, 3, 3, 4],
            [0, 2, 4, 4, 5],
            [0, 3, 5, 5, 7],
        ]
        # At 7 rank 2 opens, until 9. So rank 0, whose bytes are there at 8, closes
        # until 10, when those of rank 1 come; then rank 1 and rank 2 close.
        assert epoch.instants_s[1::2].tolist() == [
            [4, 6, 8, 8, 10],
            [5, 8, 10, 10, 11],
            [7, 9, 11, 11, 12],
        ]


class TestBatches:
    """One rank; opens take 1, closes 1, the processor of a sample s; by a pencil."""

    @pytest.mark.parametrize(
        ("options", "instants_s", "finished_s"),
        [
            # Processor time lies between the last byte and the close.
            (
                {"files_per_rank": 2, "batch_size": 2, "sample_s": 5},
                [[0, 1, 1, 6, 7], [7, 8, 8, 13, 14]],
                14,
            ),
            # No batch is read ahead: the next is asked for 3 after the last was taken.
            # The end is found at the last ask: 1 + 3 + 1 + 1 + 3, then the close.
            (
                {"files_per_rank": 2, "compute_time_s": 3},
                [[0, 1, 1, 4, 5], [5, 6, 6, 9, 10]],
                10,
            ),
            # One is read ahead. Batch 1 is ready at 3, and taken at 1 + 10: so long the
            # reader holds its file open. Batch 2 is ready at 13 and taken at 21.
            (
                {"files_per_rank": 3, "prefetch_batches": 1, "compute_time_s": 10},
                [[0, 1, 1, 1, 2], [2, 3, 3, 11, 12], [12, 13, 13, 21, 22]],
                31,
            ),
            # Two are read ahead: batch 1 needs nobody, batch 2 that batch 1 is taken.
            (
                {"files_per_rank": 3, "prefetch_batches": 2, "compute_time_s": 10},
                [[0, 1, 1, 1, 2], [2, 3, 3, 3, 4], [4, 5, 5, 11, 12]],
                31,
            ),
            # The last batch is not full: ready only after its close, at 6, not at 5.
            (
                {"files_per_rank": 3, "batch_size": 2, "compute_time_s": 1}
                | {"prefetch_batches": 4},
                [[0, 1, 1, 1, 2], [2, 3, 3, 3, 4], [4, 5, 5, 5, 6]],
                7,
            ),
        ],
    )
    def test_reader_and_consumer_wait_for_each_other(
        self, options, instants_s, finished_s
    ):
        epoch = simulate(TierModel(open_s=1, close_s=1), **options)
        assert epoch.instants_s.tolist() == instants_s
        assert epoch.finished_s.tolist() == [finished_s]

    def test_processor_time_keeps_no_server_busy(self):
        epoch = simulate(TierModel(request_s=1), n_ranks=2, sample_s=10)
        assert epoch.finished_s.tolist() == [11, 12]
        assert epoch.read_time_ns.tolist() == [1e9, 2e9]
        assert epoch.meta_time_ns.tolist() == [0, 0]

    def test_each_request_passes_server_and_link(self):
        # Servers 3, 3, 1 s and links 1, 1, 1/3 s of 30, 30, 10 bytes; latency 0.5 each.
        tier = TierModel(
            request_bytes=30,
            bandwidth_bytes_per_s=10,
            read_latency_s=0.5,
            n_links=1,
            link_bytes_per_s=30,
        )
        epoch = simulate(tier, file_size_bytes=70)
        assert epoch.instants_ns[0, 2] == 10_833_333_333
        assert epoch.busy_ns[1:3].tolist() == [7_000_000_000, 2_333_333_333]
        assert epoch.n_events == 6


class TestSimpy:
    """The same network written with SimPy gives the same instants in nanoseconds."""

    @pytest.mark.parametrize(
        ("gfs", "options"),
        [
            ({}, {}),
            ({"n_metadata_servers": 3, "close_s": 0.0}, {}),
            ({"open_s": 0.0, "n_links": 0}, {"prefetch_batches": 0}),
            ({"request_bytes": 30}, {"buffer_bytes": 70}),
            ({}, {"compute_time_s": 0.0123, "prefetch_batches": 0}),
            ({}, {"compute_time_s": 0.0123, "prefetch_batches": 1}),
            ({}, {"compute_time_s": 0.0123, "prefetch_batches": 2, "batch_size": 2}),
            ({}, {"compute_time_s": 1.5, "prefetch_batches": 1, "batch_size": 4}),
        ],
    )
    @pytest.mark.parametrize("differ", [True, False])
    def test_deterministic_services_give_equal_instants(self, gfs, options, differ):
        """Equal servers make many arrivals of one nanosecond."""
        n_ranks, n_files = 21, 21 * 7 + 3
        generator = np.random.default_rng(5)
        tiers = [
            TierModel(
                **{
                    "open_s": 0.00137,
                    "close_s": 0.00041,
                    "open_latency_s": 0.0113,
                    "close_latency_s": 0.0057,
                    "n_object_servers": 3,
                    "bandwidth_bytes_per_s": 12345.6,
                    "read_latency_s": 0.0031,
                    "n_links": 2,
                    "link_bytes_per_s": 34567.8,
                    **gfs,
                }
            ),
            TierModel(
                group_size=5, open_latency_s=0.0023, request_bytes=40, request_s=0.0049
            ),
        ]
        slowness = tuple(
            1
            + differ * generator.random(tier.n_groups(n_ranks) * tier.n_object_servers)
            for tier in tiers
        )
        arguments = (
            Network(n_ranks, *tiers, sample_s=0.0023),
            Workload(
                n_files, 100, **{"batch_size": 3, "prefetch_batches": 2} | options
            ),
            generator.permutation(n_files),
            generator.random(n_files) < 0.5,
        )
        ours = simulate_epoch(*arguments, generator, slowness)
        instants_ns, finished_ns, n_events = simulate_with_simpy(*arguments, slowness)
        assert np.array_equal(ours.instants_ns, instants_ns)
        assert np.array_equal(ours.finished_ns, finished_ns)
        assert ours.n_events == n_events


class TestTheory:
    """Queues whose answer is known; a saturated exponential server feeds the second."""

    @pytest.mark.parametrize(
        ("service", "response_s"),
        [
            (EXPONENTIAL, 0.5 + 0.5**2 * 2),  # M/M/1
            (Service(), 0.5 + 0.5**2),  # M/D/1: service + square / (2 (1 - load))
            (Service("lognormal", 1.5), 0.5 + 0.5**2 * (1 + 1.5**2)),  # M/G/1
        ],
    )
    def test_response_time_of_a_queue_with_poisson_arrivals(self, service, response_s):
        tier = TierModel(
            open_s=1,
            request_s=0.5,
            metadata_service=EXPONENTIAL,
            object_service=service,
        )
        epoch = simulate(tier, n_ranks=200, files_per_rank=20_000)
        assert epoch.read_time_ns.mean() == pytest.approx(response_s * 1e9, rel=0.01)

    @pytest.mark.parametrize("n_ranks", [1, 3, 8])
    def test_throughput_of_two_stations_in_a_circle(self, n_ranks):
        tier = TierModel(
            open_s=1,
            request_s=0.5,
            metadata_service=EXPONENTIAL,
            object_service=EXPONENTIAL,
        )
        epoch = simulate(tier, n_ranks=n_ranks, files_per_rank=200_000)
        until_s = epoch.finished_s.min()
        throughput = (epoch.instants_s[:, 4] <= until_s).sum() / until_s
        expected = (1 - 0.5**n_ranks) / (1 - 0.5 ** (n_ranks + 1))
        assert throughput == pytest.approx(expected, rel=0.01)

    def test_lognormal_service_times_have_their_mean_and_variation(self):
        tier = TierModel(request_s=2, object_service=Service("lognormal", 1.35))
        read_ns = simulate(tier, files_per_rank=1_000_000).read_time_ns
        assert read_ns.mean() == pytest.approx(2e9, rel=0.01)
        assert read_ns.std() / read_ns.mean() == pytest.approx(1.35, rel=0.02)


class TestConservation:
    """What must hold whatever is drawn."""

    @pytest.fixture
    def epoch(self):
        tier = TierModel(
            open_s=0.01,
            close_s=0.002,
            request_bytes=30,
            request_s=0.03,
            n_object_servers=2,
            n_links=1,
            link_bytes_per_s=1000,
        )
        lfs = TierModel(request_s=0.05, group_size=2)
        return simulate(
            tier,
            lfs,
            n_ranks=4,
            files_per_rank=50,
            local=range(0, 200, 4),
            batch_size=7,
        )

    def test_every_file_is_read_once_and_each_rank_does_one_thing_at_a_time(
        self, epoch
    ):
        by_rank = epoch.instants_ns.reshape(4, -1)
        assert (np.diff(by_rank, axis=1) >= 0).all()
        assert np.array_equal(epoch.finished_ns, by_rank[:, -1])

    def test_busy_time_is_the_sum_of_the_services(self, epoch):
        metadata, *servers, link, idle, _, lfs, other_lfs = epoch.busy_ns / 1e9
        assert metadata == 150 * (0.01 + 0.002)
        assert sum(servers) == 150 * 4 * 0.03
        assert link == 150 * 100 / 1000
        assert idle == 0
        assert lfs == other_lfs == 25 * 0.05
        assert (epoch.busy_ns <= epoch.finished_ns.max()).all()

    def test_same_seed_gives_the_same_instants_another_seed_others(self):
        tier = TierModel(open_s=1, metadata_service=EXPONENTIAL)
        first, again, other = (
            simulate(tier, n_ranks=3, files_per_rank=5, seed=seed).instants_ns
            for seed in (1, 1, 2)
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


class TestBadInput:
    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"open_s": -1}, "open_s: got -1, expected a number of at least 0"),
            ({"bandwidth_bytes_per_s": -5}, "-5, expected a number above 0"),
            ({"link_bytes_per_s": 0}, "link_bytes_per_s: got 0, expected a number"),
            ({"n_object_servers": 0}, "n_object_servers: got 0, expected an integer"),
            ({"n_metadata_servers": 1.5}, "got 1.5, expected an integer of at least 1"),
            ({"request_s": float("nan")}, "request_s: got nan"),
        ],
    )
    def test_impossible_stations_are_refused(self, values, words):
        with pytest.raises(ModelError, match=words) as error:
            TierModel(**values)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("gamma",), "got 'gamma', expected one of deterministic, exponential"),
            (("lognormal",), "cv: got None with distribution lognormal"),
            (("exponential", 2), "cv: got 2 with distribution exponential"),
            (("lognormal", -1), "cv: got -1, expected a number above 0"),
        ],
    )
    def test_impossible_services_are_refused(self, arguments, words):
        with pytest.raises(ModelError, match=words):
            Service(*arguments)

    def test_more_ranks_than_files_are_refused(self):
        network, workload = Network(3, IDLE, IDLE), Workload(2, 100)
        files = np.arange(2)
        with pytest.raises(ModelError, match=r"n_files: got 2, .* each of 3 ranks"):
            simulate_epoch(
                network, workload, files, files > 0, np.random.default_rng(1)
            )

    @pytest.mark.parametrize(
        ("on_lfs", "words"),
        [
            (np.zeros(4, int), "place: got int64, expected bool or int8"),
            (np.zeros(4), "place: got float64, expected bool or int8"),
            (np.full(4, 2, np.int8), "place: got 2 to 2, expected 0 to 1"),
            (np.full(4, -1, np.int8), "place: got -1 to -1, expected 0 to 1"),
            (np.zeros(3, bool), r"got \(4,\) files and \(3,\) decisions, expected 4"),
        ],
    )
    def test_other_decisions_than_one_place_a_read_are_refused(self, on_lfs, words):
        network, workload = Network(2, IDLE, IDLE), Workload(4, 100)
        with pytest.raises(ModelError, match=words) as error:
            simulate_epoch(
                network, workload, np.arange(4), on_lfs, np.random.default_rng(1)
            )
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        "slowness",
        [
            (),
            (np.ones(2),),
            (np.ones(2), np.ones(1)),
            (np.ones(1), np.ones(3)),
            (np.ones(2), 1.0),
            (np.ones(2), np.ones(3), np.ones(1)),
        ],
    )
    def test_slowness_of_other_than_each_object_server_is_refused(self, slowness):
        gfs, lfs = replace(IDLE, n_object_servers=2), replace(IDLE, n_object_servers=3)
        with pytest.raises(ModelError, match=r"slowness: .* \[\(2,\), \(3,\)\]") as e:
            simulate(gfs, lfs, slowness=slowness)
        assert "\n" not in str(e.value)
        simulate(gfs, lfs, slowness=(np.ones(2), np.ones(3)))

    def test_times_without_end_are_refused(self):
        with pytest.raises(
            ModelError, match="times: got up to inf s, expected less than"
        ):
            simulate(TierModel(request_s=1e308), files_per_rank=9)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"system": "laptop"}, "simulate: got true, .* laptop has no devices"),
            ({"loader": {"read_threads": 2}}, "read_threads: got 2, expected 1"),
            ({"sweep": {"n_osts": [61]}}, "n_osts: got 61, expected 1 to 60"),
            ({"datasets": {"small": {"n_files": 3071}}}, "got 3071, .* 3072 processes"),
        ],
    )
    def test_experiment_that_cannot_be_simulated_is_refused(self, changes, words):
        with pytest.raises(ConfigError, match=words) as error:
            experiment(**changes)
        assert "\n" not in str(error.value)


def experiment(**changes):
    """Return the experiment fugaku-simulated with changes."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / "fugaku-simulated.yaml"))
    update_config(config, changes)
    return read_experiment(config, RESOURCES)


SMALL = Scenario("small", 60, "pinning", "tensorflow")


class TestFugaku:
    """The system file's reconstruction agrees with what it was made from."""

    @pytest.fixture
    def description(self):
        return experiment(training={"epochs": 2}).description(SMALL)

    @pytest.mark.parametrize(
        ("cache_rate", "slowest_s"), [(0, 19.7), (30, 13.9), (65, 7.86), (100, 11.6)]
    )
    def test_slowest_process_is_as_in_the_prototype(
        self, description, cache_rate, slowest_s
    ):
        """The prototype is another program, without processor time."""
        devices = description.system.devices
        gfs = {"open_s": 29e-6, "close_s": 4e-6, "ost_bandwidth_bytes_per_s": 3 << 29}
        devices = {
            **devices,
            "gfs": devices["gfs"] | gfs,
            "lfs": devices["lfs"] | {"request_s": 9e-4},
            "processor": {"sample_s": 0.0},
        }
        description = changed(description, system={"devices": devices})
        point = Point(cache_rate, 0)
        (second,) = simulate_reads(description, point, [1])
        assert second.epoch.execution_time_s == pytest.approx(slowest_s, rel=0.04)

    def test_statements_of_the_paper_hold_by_its_rule(self, description):
        times_s, execution_s = {}, {}
        for rate in (55, 60, 65, 70):
            point = Point(rate, 0)
            (second,) = simulate_reads(description, point, [1])
            times_s[rate] = class_times(second)
            execution_s[rate] = second.epoch.execution_time_s

        def best(*factors):
            slowest_s = {
                rate: (one / factors).sum(axis=1).max() for rate, one in times_s.items()
            }
            return min(slowest_s.items(), key=lambda item: item[1])

        rate, io_time_s = best(1, 1, 1, 1)
        assert (rate, io_time_s) == (65, pytest.approx(7.7, abs=0.1))
        assert execution_s[65] - io_time_s == pytest.approx(192 * 0.0104, abs=0.02)
        rate, faster_s = best(1, 1.5, 1, 1)
        assert (rate, faster_s / io_time_s) == (60, pytest.approx(0.79, abs=0.015))
        rate, faster_s = best(1, 1, 1.5, 1)
        assert (rate, faster_s / io_time_s) == (65, pytest.approx(0.75, abs=0.015))
        assert best(1, 2.4, 2.2, 1)[1] < 4

    def test_figures_say_simulated_and_reconstructed(self):
        fugaku = experiment()
        assert fugaku.provenance == "simulated, parameters reconstructed"
        assert fugaku.description(SMALL).source == "simulated"
        emulated = experiment(system="scale-model")
        assert emulated.provenance == "simulated, parameters of the emulated devices"


def test_emulated_system_is_simulated_with_its_devices():
    system = read_system("scale-model", RESOURCES / "systems")
    network = network_of(system, 60)
    device, other = scale_lfs(emulated_machine(system, 60), 8, lambda _: ["/l"])
    assert device == other
    assert network.n_ranks == 8
    assert network.lfs.request_s == device.request_s
    assert network.lfs.close_latency_s == 0
    assert network.lfs.object_service == Service()
    assert network.gfs.n_links == network.gfs.n_object_servers == 1


def fugaku_with(part, **changes):
    """Return Fugaku's system with other numbers of a part of its devices."""
    system = read_system("fugaku", RESOURCES / "systems")
    devices = {**system.devices, part: system.devices[part] | changes}
    return replace(system, devices=devices)


def test_emulated_system_with_what_only_simulated_ones_have_is_refused():
    system = read_system("scale-model", RESOURCES / "systems")
    gfs = system.devices["gfs"] | {"limit_bytes_per_s": 1e8}
    limited = replace(system, devices=system.devices | {"gfs": gfs})
    words = r"system scale-model: devices\.gfs\.limit_bytes_per_s: got 100000000\.0, ex"
    with pytest.raises(ModelError, match=words):
        network_of(limited, 60)


@pytest.mark.parametrize("close_s", [4e-6, 0.0])
def test_close_of_no_service_time_has_no_latency_as_on_emulated_devices(close_s):
    network = network_of(fugaku_with("gfs", close_s=close_s), 60)
    assert network.gfs.close_latency_s == (0.0068 if close_s else 0.0)


def test_request_of_a_described_gfs_takes_time_at_its_ost():
    network = network_of(fugaku_with("gfs", request_s=0.25), 60)
    service_s = network.gfs.request_service_s(np.array([131072]))
    assert service_s == pytest.approx(0.25 + 131072 / (1.2 * 1024**3))
    assert network_of(fugaku_with("gfs"), 60).gfs.request_s == 0


def test_directory_of_unknown_servers_is_one_server():
    assert network_of(fugaku_with("gfs"), 0).gfs.n_object_servers == 1


def test_impossible_variation_is_refused_by_its_key():
    system = fugaku_with("simulation", service_distribution="exponential")
    words = "^devices.simulation.service_cv: got 1.35 with distribution exponential"
    with pytest.raises(ModelError, match=words):
        network_of(system, 60)


def test_every_number_of_fugaku_has_a_source():
    devices = read_system("fugaku", RESOURCES / "systems").devices
    parts = ("gfs", "lfs", "simulation", "network", "processor")
    assert {part: set(devices[part]) for part in parts} == {
        part: set(words) for part, words in devices["sources"].items()
    }


def test_what_only_simulations_know_changes_no_emulation():
    system = read_system("scale-model", RESOURCES / "systems")
    scale = {"n_processes", "processes_per_node"}
    assert set(system.devices) == {"gfs", "lfs", "network", "processor", *scale}


POINT = Point(50, 1)


class TestRun:
    """A simulated run is like one of the benchmark."""

    @pytest.fixture(params=["pinning", "stratified-pinning"])
    def description(self, request):
        tiny = experiment(
            system="scale-model",
            datasets={"small": {"n_files": 37}},
            training={"epochs": 2},
            sweep={"policies": ["pinning", "stratified-pinning"]},
        )
        return tiny.description(replace(SMALL, policy=request.param))

    @pytest.fixture
    def reads(self, description):
        return list(simulate_reads(description, POINT))

    def test_log_passes_the_audit_and_sums_to_the_same_io_time(
        self, description, reads, tmp_path
    ):
        io_time, epochs = tables_of(description, POINT, reads)
        run = Run.from_json(simulated_run_json(description, POINT))
        write_simulated_log(tmp_path / "log.darshan", description, reads)
        dataset = description.dataset
        manifest = make_manifest(dataset, 60, np.zeros(37, int))
        log = tmp_path / "log.darshan"
        records = read_file_records(log, run.tier_roots, manifest)
        run_epochs = epochs.drop(columns=list(RUN_KEYS))
        limits = {"io_time_tolerance_percent": 2}
        checks = audit(Evidence(run, records, run_epochs, manifest), limits)
        assert [check for check in checks if not check.passed] == []
        summed = sum_io_time(records, range(8), range(2), run_keys(run, POINT))
        pd.testing.assert_frame_equal(check_table(io_time, "io_time"), summed)

    def test_epochs_have_what_the_benchmark_writes(self, description, reads):
        _, epochs = tables_of(description, POINT, reads)
        epochs = check_table(epochs, "epochs")
        assert set(epochs["source"]) == {"simulated"}
        sums = epochs.groupby("epoch")[["samples", "lfs_files", "gfs_files"]].sum()
        assert sums.to_numpy().tolist() == [[37, 18, 19]] * 2
        assert epochs["node"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2

    def test_another_repetition_has_another_order(self, description, reads):
        other = next(simulate_reads(description, replace(POINT, repetition=2)))
        assert not np.array_equal(other.files, reads[0].files)

    def test_streams_of_random_numbers_are_apart(self, monkeypatch):
        """Seeds of few words are filled up with zeros: (1,) may be (1, 0, 0)."""
        made, default_rng = [], np.random.default_rng

        def noted(seed):
            made.append(default_rng(seed).integers(1 << 62))
            return default_rng(seed)

        monkeypatch.setattr(np.random, "default_rng", noted)
        tiny = experiment(
            system="scale-model",
            datasets={"small": {"n_files": 37}},
            training={"epochs": 2},
        )
        for repetition in range(2):
            list(
                simulate_reads(
                    tiny.description(SMALL), replace(POINT, repetition=repetition)
                )
            )
        # Pinning, slowness, and two epochs of order and services, for each repetition.
        assert len(set(made)) == 2 * (1 + 1 + 2 * 2)

    @pytest.mark.parametrize("description", ["pinning"], indirect=True)
    def test_credit_is_carried_from_epoch_to_epoch(self, description):
        system = description.system
        gfs = system.devices["gfs"] | {
            "limit_bytes_per_s": 1e6,
            "limit_credit_bytes": 15 * description.dataset.file_size_bytes,
        }
        machine = replace(
            read_system("fugaku", RESOURCES / "systems"),
            n_nodes=2,
            processes_per_node=4,
        )
        limited = replace(machine, devices=machine.devices | {"gfs": gfs})
        description = replace(description, system=limited)
        description = changed(description, scenario={"n_osts": 1})
        first, second = simulate_reads(description, POINT)
        (alone,) = simulate_reads(description, POINT, [1])
        assert alone.epoch.execution_time_s == second.epoch.execution_time_s
        assert second.epoch.execution_time_s > first.epoch.execution_time_s + 1

    @pytest.mark.parametrize("description", ["pinning"], indirect=True)
    def test_epochs_are_remembered_only_for_a_limit(self, description):
        first, second = planned_reads(description, POINT)
        assert second.before is first.before is None
        limited = with_values(description, {"gfs.limit_bytes_per_s": 1e6})
        first, second = planned_reads(limited, POINT)
        assert second.before is first

    @pytest.mark.parametrize("description", ["pinning"], indirect=True)
    def test_cache_rate_changes_neither_order_nor_servers(self, description, reads):
        other = next(simulate_reads(description, replace(POINT, cache_rate_percent=0)))
        assert np.array_equal(other.files, reads[0].files)
        assert other.on_lfs.sum() == 0


def test_spread_of_servers_is_drawn_once_for_each():
    tier = replace(IDLE, group_size=2, object_server_spread=0.1)
    slowness = tier.draw_slowness(20_000, np.random.default_rng(1))
    assert slowness.shape == (10_000,)
    assert np.log(slowness).std() == pytest.approx(0.1, rel=0.02)


def test_improved_system_is_simulated_with_the_emulated_devices_improved():
    system = read_system("scale-model", RESOURCES / "systems")
    plain = network_of(system, 60)
    improved = system.improved({"gfs_meta": 50, "lfs_read": 120})
    network = network_of(improved, 60)
    assert network.gfs.open_s == pytest.approx(plain.gfs.open_s / 1.5)
    assert network.gfs.close_latency_s == pytest.approx(plain.gfs.close_latency_s / 1.5)
    assert network.lfs.request_s == pytest.approx(plain.lfs.request_s / 2.2)
    assert network.lfs.open_latency_s == plain.lfs.open_latency_s


@pytest.mark.parametrize("name", ["scale-model", "fugaku"])
def test_storage_of_an_ideal_system_takes_no_nanosecond(name):
    system = read_system(name, RESOURCES / "systems").ideal()
    assert system.name == f"{name}+ideal"
    network = network_of(system, 60)
    steps = {"batch_size": 1, "compute_time_s": 0.25}
    epoch = simulate(
        network.gfs, network.lfs, 4, 3, local=range(6), sample_s=0.5, **steps
    )
    opened, closed = epoch.instants_ns[:, :2], epoch.instants_ns[:, 3:]
    assert (opened[:, 0] == opened[:, 1]).all()
    assert (closed[:, 0] == closed[:, 1]).all()
    # The processor takes its time between the last byte and the close.
    assert (epoch.instants_ns[:, 2] == opened[:, 1]).all()
    assert not epoch.busy_ns.any()
    assert epoch.execution_time_s == 3 * (0.5 + 0.25)
