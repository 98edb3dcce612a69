from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from descriptions import changed
from hypothesis import given, settings
from hypothesis import strategies as st
from snakemake.utils import update_config
from tierscope.analysis.breakdown import break_down
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.system import read_system
from tierscope.model.analytic.bounds import asymptotic_bounds
from tierscope.model.analytic.fixed_point import Customers, Stations, solve_fixed_point
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.demands import file_demand
from tierscope.model.predict import (
    ANALYTIC,
    MODELS,
    models_of,
    places_words,
    predict,
    predict_times,
)
from tierscope.model.simulator.epoch import first_reads, simulate_epoch
from tierscope.model.simulator.run import (
    SimulatedReads,
    class_times,
    simulate_reads,
    tables_of,
)
from tierscope.policies import Pinning
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    Service,
    TierModel,
    Workload,
    network_of,
)

ROOT = Path(__file__).parents[3]
EXPONENTIAL = Service("exponential")

# 32 ranks in groups of 8; the metadata server is the bottleneck at low cache rates, the
# groups' servers at high ones, both at about 45 %.
GFS = TierModel(
    open_s=1e-3,
    close_s=2e-4,
    open_latency_s=5e-3,
    close_latency_s=5e-3,
    n_object_servers=4,
    bandwidth_bytes_per_s=4e7,
    read_latency_s=1e-3,
    n_links=2,
    link_bytes_per_s=2e8,
)
LFS = TierModel(
    group_size=8,
    open_latency_s=1e-3,
    request_s=4e-3,
    request_bytes=65536,
    read_latency_s=2e-3,
)
MACHINE = Network(32, GFS, LFS)
WORKLOAD = Workload(32 * 60, 131072, batch_size=4)
RANDOM_MACHINE = Network(
    32,
    replace(GFS, metadata_service=EXPONENTIAL, object_service=EXPONENTIAL),
    replace(LFS, object_service=EXPONENTIAL),
)


def simulated_times(network, workload, cache_rate, repetitions=4):
    """Return the I/O time of the slowest and of the mean rank of seeded epochs."""
    slowest_s, mean_s = [], []
    first_read = first_reads(workload.n_files, network.n_ranks)
    rank_of = np.repeat(np.arange(network.n_ranks), np.diff(first_read))
    for seed in range(repetitions):
        generator = np.random.default_rng(seed)
        files = generator.permutation(workload.n_files)
        on_lfs = Pinning(workload.n_files, cache_rate, seed).on_lfs()[files]
        epoch = simulate_epoch(network, workload, files, on_lfs, generator)
        times_s = class_times(SimulatedReads(files, rank_of, on_lfs, epoch)).sum(axis=1)
        slowest_s.append(times_s.max())
        mean_s.append(times_s.mean())
    return np.mean(slowest_s), np.mean(mean_s)


class TestAgainstSimulator:
    """I/O time of the slowest rank; the bounds are what was found, rounded up."""

    @pytest.mark.parametrize("rate", [0, 20, 45, 70, 100])
    @pytest.mark.parametrize(
        ("machine", "model", "worst"),
        [
            (MACHINE, "bounds", 0.10),
            (MACHINE, "mva", 0.07),
            (MACHINE, "order-statistics", 0.02),
            (RANDOM_MACHINE, "mva", 0.08),
            (RANDOM_MACHINE, "order-statistics", 0.035),
        ],
    )
    def test_slowest_rank(self, machine, model, worst, rate):
        slowest_s, _ = simulated_times(machine, WORKLOAD, rate)
        predicted = predict_times(machine, WORKLOAD, rate, model)
        assert predicted.slowest_s.sum() == pytest.approx(slowest_s, rel=worst)

    @pytest.mark.parametrize("rate", [0, 20, 45, 70, 100])
    @pytest.mark.parametrize(
        ("model", "worst"), [("mva", 0.05), ("order-statistics", 0.02)]
    )
    def test_mean_rank(self, model, worst, rate):
        _, mean_s = simulated_times(MACHINE, WORKLOAD, rate)
        predicted = predict_times(MACHINE, WORKLOAD, rate, model)
        assert predicted.mean_s.sum() == pytest.approx(mean_s, rel=worst)

    @pytest.mark.parametrize("rate", [0, 20, 45, 70, 100])
    @pytest.mark.parametrize(
        ("machine", "model", "worst"),
        [
            (MACHINE, "bounds", 0.26),
            (MACHINE, "mva", 0.06),
            (MACHINE, "order-statistics", 0.045),
            (RANDOM_MACHINE, "mva", 0.08),
            (RANDOM_MACHINE, "order-statistics", 0.045),
        ],
    )
    def test_processor_time_between_calls_is_a_delay_and_no_io_time(
        self, machine, model, worst, rate
    ):
        machine = replace(machine, sample_s=0.012)
        slowest_s, _ = simulated_times(machine, WORKLOAD, rate)
        predicted = predict_times(machine, WORKLOAD, rate, model)
        assert predicted.slowest_s.sum() == pytest.approx(slowest_s, rel=worst)

    @pytest.mark.parametrize("rate", [0, 45, 100])
    def test_compute_time_hidden_by_reading_ahead_changes_nothing(self, rate):
        workload = replace(WORKLOAD, compute_time_s=0.05, prefetch_batches=2)
        slowest_s, _ = simulated_times(MACHINE, workload, rate)
        predicted = predict_times(MACHINE, workload, rate, "order-statistics")
        assert predicted.slowest_s.sum() == pytest.approx(slowest_s, rel=0.02)

    def test_ranks_that_compute_in_step_wait_longer_than_predicted(self):
        workload = replace(WORKLOAD, compute_time_s=0.1)
        for rate in (0, 45, 100):
            slowest_s, _ = simulated_times(MACHINE, workload, rate)
            predicted = predict_times(MACHINE, workload, rate, "order-statistics")
            idle = predict_times(MACHINE, WORKLOAD, rate, "order-statistics")
            assert 0.65 * slowest_s < predicted.slowest_s.sum() < slowest_s
            assert slowest_s < idle.slowest_s.sum()

    @pytest.mark.parametrize(
        "machine",
        [
            Network(29, GFS, LFS),
            Network(32, replace(GFS, n_metadata_servers=3, open_s=3e-3), LFS),
            Network(32, GFS, replace(LFS, group_size=None, request_s=1e-3)),
            Network(
                32,
                GFS,
                replace(LFS, request_s=1e-3, n_links=2, link_bytes_per_s=4e7),
            ),
        ],
    )
    def test_other_machines(self, machine):
        workload = replace(WORKLOAD, n_files=29 * 60 + 17)
        for rate in (0, 50, 100):
            slowest_s, _ = simulated_times(machine, workload, rate)
            predicted = predict_times(machine, workload, rate, "order-statistics")
            assert predicted.slowest_s.sum() == pytest.approx(slowest_s, rel=0.05)

    @pytest.mark.parametrize("rate", [50, 70, 80, 85, 90, 95])
    def test_two_files_a_rank_on_one_ost_of_fugaku(self, rate):
        system = read_system("fugaku", ROOT / "resources" / "systems")
        machine = network_of(system, n_osts=1)
        workload = Workload(6144, 12 << 20, batch_size=2, buffer_bytes=262144)
        slowest_s, _ = simulated_times(machine, workload, rate, repetitions=1)
        predicted = predict_times(machine, workload, rate, "order-statistics")
        bound = predict_times(machine, workload, rate, "bounds")
        assert predicted.slowest_s.sum() >= bound.slowest_s.sum() * (1 - 1e-9)
        assert predicted.slowest_s.sum() == pytest.approx(slowest_s, rel=0.1)


class TestBounds:
    def test_bottleneck_takes_the_waiting(self):
        gfs = TierModel(open_s=1, close_s=0.5, read_latency_s=2, open_latency_s=0.25)
        lfs = TierModel(request_s=3, group_size=2)
        bounds = asymptotic_bounds(Network(4, gfs, lfs), Workload(40, 100), 20)
        assert bounds.busy_s["gfs_metadata"] == pytest.approx(32 * 1.5)
        assert bounds.busy_s["lfs_object"] == pytest.approx(40 / 2 * 0.2 * 3)
        assert bounds.bottleneck == ["gfs_metadata"]
        # 8 of a rank's 10 files are on the GFS.
        alone_s = [8 * 2, 8 * 1.75, 2 * 3, 0]
        assert bounds.without_waiting_s == pytest.approx(alone_s)
        assert bounds.class_time_s[0] == pytest.approx([16, 14 + 12, 6, 0])

    def test_process_that_never_waits_is_a_bound_too(self):
        gfs = TierModel(open_s=0.1, read_latency_s=5)
        bounds = asymptotic_bounds(Network(4, gfs, LFS), Workload(40, 100), 0)
        assert bounds.class_time_s[0] == pytest.approx([50, 1, 0, 0])

    def test_processor_time_is_no_io_time(self):
        machine = Network(4, TierModel(open_s=1), TierModel(), sample_s=0.5)
        bounds = asymptotic_bounds(machine, Workload(40, 100), 0)
        assert bounds.class_time_s[0] == pytest.approx([0, 40 - 10 * 0.5, 0, 0])

    @pytest.mark.parametrize(("prefetch", "io_s"), [(0, 25), (1, 40)])
    def test_compute_time_is_no_io_time(self, prefetch, io_s):
        workload = Workload(40, 100, 2, prefetch_batches=prefetch, compute_time_s=3)
        machine = Network(4, TierModel(open_s=1), TierModel())
        bounds = asymptotic_bounds(machine, workload, 0)
        assert bounds.class_time_s.sum() == pytest.approx(io_s)

    @settings(max_examples=60, deadline=None)
    @given(
        times_s=st.lists(st.just(0.0) | st.floats(1e-9, 10), min_size=6, max_size=6),
        rate=st.integers(0, 100),
        group_size=st.sampled_from([1, 2, 3, 4, 6, 12]),
        n_servers=st.integers(1, 4),
        service=st.sampled_from([Service(), EXPONENTIAL, Service("lognormal", 2.0)]),
    )
    def test_queueing_model_of_equal_groups_is_never_faster_than_the_bounds(
        self, times_s, rate, group_size, n_servers, service
    ):
        open_s, close_s, latency_s, request_s, lfs_open_s, lfs_request_s = times_s
        machine = Network(
            12,
            TierModel(
                open_s=open_s,
                close_s=close_s,
                open_latency_s=latency_s,
                request_s=request_s,
                n_object_servers=n_servers,
                metadata_service=service,
                object_service=service,
            ),
            TierModel(
                group_size=group_size,
                open_s=lfs_open_s,
                request_s=lfs_request_s,
                request_bytes=30,
                object_service=service,
            ),
        )
        workload = Workload(120, 100)
        bound = predict_times(machine, workload, rate, "bounds")
        for model in ("mva", "order-statistics"):
            predicted = predict_times(machine, workload, rate, model)
            assert (predicted.slowest_s >= 0).all()
            assert (predicted.mean_s <= predicted.slowest_s.sum() * (1 + 1e-9)).all()
        steady = predict_times(machine, workload, rate, "mva")
        assert steady.mean_s.sum() >= bound.mean_s.sum() * (1 - 1e-3)


class TestQueues:
    def test_mixed_visits_have_the_variation_of_the_mixture(self):
        metadata, _, link = file_demand(
            TierModel(open_s=1, close_s=3), WORKLOAD
        ).stations
        assert (metadata.service_s, metadata.cv2) == (4, pytest.approx(1 / 4))
        assert (link.service_s, link.cv2) == (0, 0)

    def test_machine_of_one_group_is_the_general_network(self):
        gfs = TierModel(open_s=0.3, request_s=1.0, n_object_servers=2)
        lfs = TierModel(request_s=0.7, open_latency_s=2.0)
        machine = Network(10, replace(gfs, metadata_service=EXPONENTIAL), lfs)
        predicted = predict_times(machine, Workload(200, 100), 40, "mva")
        demand_s = np.array([0.6 * 0.3, 0.6 * 0.5, 0.6 * 0.5, 0.4 * 0.7])
        pairs, alone = np.arange(4), np.ones(4)
        waiting = solve_fixed_point(
            Stations(pairs, np.zeros(4, int), alone, alone, np.array([1.0, 0, 0, 0])),
            Customers(np.array([10.0]), np.array([1.0]), np.array([0.4 * 2.0])),
            demand_s,
            alone,
        )
        metadata_s, one_s, other_s, lfs_s = 20 * demand_s * waiting
        expected = [one_s + other_s, metadata_s, lfs_s, 20 * 0.4 * 2.0]
        assert predicted.mean_s == pytest.approx(expected, rel=1e-4)

    def test_groups_that_differ_by_nothing_may_be_one_kind_or_many(self):
        close = replace(LFS, object_server_spread=1e-9)
        one, many = (
            predict_times(Network(32, GFS, lfs), WORKLOAD, 50, "mva").mean_s
            for lfs in (LFS, close)
        )
        assert many == pytest.approx(one, rel=1e-4)

    def test_slow_gfs_servers_are_the_bottleneck_one_after_the_other(self):
        gfs = TierModel(request_s=1.0, n_object_servers=2, object_server_spread=0.5)
        machine = Network(64, gfs, TierModel())
        slower = np.exp(0.5 * 0.6744897501960817)  # the upper quartile
        predicted = predict_times(machine, Workload(640, 100), 0, "mva")
        assert predicted.mean_s.sum() == pytest.approx(320 * slower, rel=0.02)


def description(**changes):
    """Return the description of a small scenario of the experiment `scale-model`."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, {"training": {"epochs": 2}, **changes})
    scenario = Scenario("small", 60, "pinning", "tensorflow")
    return read_experiment(config, ROOT / "resources").description(scenario)


POINTS = [
    Point(65, 1),
    Point(0, 0),
]


TIMES = ["time_s", "mean_time_s", "execution_time_s", "utilisation_percent"]


class TestPredict:
    @pytest.mark.parametrize("model", MODELS)
    def test_row_for_each_point_epoch_and_class(self, model):
        table = predict(description(), POINTS, model)
        assert table["cache_rate_percent"].tolist() == [65] * 8 + [0] * 8
        assert table["repetition"].tolist() == [1] * 8 + [0] * 8
        assert table["epoch"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2
        classes = ["gfs_read", "gfs_meta", "lfs_read", "lfs_meta"]
        assert table["io_class"].tolist() == classes * 4
        assert (table["mean_time_s"] >= 0).all()
        assert table.columns[4:].tolist() == TIMES
        assert table["execution_time_s"].notna().all() == (model == "simulation")

    @pytest.mark.parametrize("model", ANALYTIC)
    def test_epochs_are_alike_to_analytic_models(self, model):
        table = predict(description(), POINTS, model)
        first, second = (
            table[table["epoch"] == epoch]["time_s"].tolist() for epoch in (0, 1)
        )
        assert first == second

    def test_simulation_is_the_breakdown_of_the_simulated_run(self):
        table = predict(description(), POINTS, "simulation")
        for point in POINTS:
            io_time, _ = tables_of(
                description(), point, simulate_reads(description(), point)
            )
            mine = table[table["cache_rate_percent"] == point.cache_rate_percent]
            assert mine["time_s"].tolist() == break_down(io_time)["time_s"].tolist()
            mean_s = io_time.groupby(["epoch", "io_class"], sort=False)["time_s"].mean()
            assert mine["mean_time_s"].to_numpy() == pytest.approx(mean_s.to_numpy())

    def test_improvements_of_the_system_are_made(self):
        times_s = []
        for improvements in ({}, {"gfs_meta": 100}):
            one = description()
            devices = {**one.system.devices, "processor": {"sample_s": 0.0}}
            system = {"devices": devices, "improvements": improvements}
            one = changed(one, system=system)
            times_s.append(predict(one, POINTS[1:], "bounds")["time_s"].sum())
        before, after = times_s
        assert after == pytest.approx(before / 2, rel=0.05)

    def test_no_points_give_an_empty_table(self):
        table = predict(description(), [], "mva")
        assert isinstance(table, pd.DataFrame)
        assert table.shape == (0, 8)


class TestBadInput:
    @pytest.mark.parametrize("model", ANALYTIC)
    @pytest.mark.parametrize("rate", [-1, 101, float("nan")])
    def test_impossible_cache_rates_are_refused(self, model, rate):
        with pytest.raises(ModelError, match=rf"cache_rate_percent: got {rate}, ") as e:
            predict_times(MACHINE, WORKLOAD, rate, model)
        assert "\n" not in str(e.value)

    @pytest.mark.parametrize("model", ANALYTIC)
    def test_more_ranks_than_files_are_refused(self, model):
        with pytest.raises(ModelError, match=r"n_files: got 31, .* each of 32 ranks"):
            predict_times(MACHINE, Workload(31, 100), 50, model)

    def test_unknown_models_are_refused(self):
        with pytest.raises(
            ModelError, match="model: got 'oracle', expected one of bou"
        ):
            predict(description(), POINTS, "oracle")
        with pytest.raises(
            ModelError, match="model: got 'simulation', expected one of"
        ):
            predict_times(MACHINE, WORKLOAD, 50, "simulation")

    def test_gfs_of_groups_is_refused(self):
        machine = Network(32, replace(GFS, group_size=4), LFS)
        with pytest.raises(ModelError, match=r"gfs.group_size: got 4 of 32 ranks"):
            predict_times(machine, WORKLOAD, 50, "mva")

    def test_steps_that_wait_for_all_are_known_to_the_simulation_only(self):
        described = changed(description(), training={"synchronise": "step"})
        assert models_of(described, MODELS) == ["simulation"]
        assert models_of(description(), MODELS) == list(MODELS)
        with pytest.raises(ModelError, match="only the simulation knows them"):
            predict(described, POINTS, "mva")

    def test_warmup_is_known_to_the_simulation_and_left_out_by_the_others(self):
        mean = {"mean_s": 0.1}
        plain, warm = (
            changed(description(), training={"compute_time_s": mean | warmup})
            for warmup in ({}, {"warmup_s": [5.0, 0.0]})
        )
        assert models_of(warm, MODELS) == list(MODELS)
        for model in ("mva", "simulation"):
            as_plain, as_warm = (
                predict(one, POINTS[:1], model)[["time_s", "execution_time_s"]]
                for one in (plain, warm)
            )
            assert as_plain.equals(as_warm) == (model == "mva")

    def test_rate_limits_are_known_to_the_simulation_only(self):
        limited = with_values(description(), {"gfs.limit_bytes_per_s": 1e8})
        assert models_of(limited, MODELS) == ["simulation"]
        machine = replace(MACHINE, gfs=replace(GFS, limit_bytes_per_s=1e8))
        with pytest.raises(ModelError, match=r"devices\.gfs\.limit_bytes_per_s: got a"):
            predict_times(machine, WORKLOAD, 50, "mva")

    def test_models_that_do_not_know_where_files_lie_say_so(self):
        machine = read_system("fugaku", ROOT / "resources" / "systems")
        known = replace(description(), system=machine)
        assert places_words(known, MODELS) == ""
        observed = replace(known, servers=np.zeros(known.dataset.n_files, int))
        random = with_values(known, {})
        random.system.devices["gfs"]["placement"] = "random"
        for placed in (observed, random):
            words = places_words(placed, models_of(placed, MODELS))
            assert words.startswith("bounds, mva, order-statistics: as if files lay ev")
            assert places_words(placed, ["simulation"]) == ""
            alone = changed(placed, scenario={"n_osts": 1})
            assert places_words(alone, MODELS) == ""

    @pytest.mark.parametrize(
        ("section", "changes", "words"),
        [
            ("scenario", {"policy": "lru"}, "policy: got 'lru', expected pinning"),
            ("loader", {"read_threads": 4}, "read_threads: got 4, expected 1"),
        ],
    )
    def test_scenarios_that_no_model_describes_are_refused(
        self, section, changes, words
    ):
        described = changed(description(), **{section: changes})
        with pytest.raises(ModelError, match=words):
            predict(described, POINTS, "mva")
