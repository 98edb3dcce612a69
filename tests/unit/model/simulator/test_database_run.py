"""LMDB loaders in the simulator: their calls are the loaders', their times by hand."""

from dataclasses import replace

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.lmdb_loaders import VARIANTS
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.lmdb.pages import META_BYTES
from tierscope.data.lmdb.reads import cut
from tierscope.data.record_order import RecordOrder
from tierscope.model.simulator.database_calls import STRIPE_BYTES, DatabaseEpoch
from tierscope.model.simulator.database_run import simulate_database
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.model.simulator.loop import CLOSE, OPEN, PASS, PAUSE, READ, STEP, WAIT
from tierscope.model.simulator.programs import Programs, simulate_programs
from tierscope.model.simulator.stations import layouts_of, requests_of
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    Service,
    TierModel,
    Workload,
)

IDLE = TierModel()
FULL = VARIANTS["lmdbio-lmm-dio-prov-coal-stag"]


def description(on=(), *, nodes=2, per_node=2, n_records=64, **lmdb):
    """Return a scenario of records of 25 pages; 4 records a batch.

    A node's processes consume 8 records in a step, a block has 16 of them.
    """
    devices = {
        "origin": "made up",
        "gfs": {
            "open_s": 0.5,
            "close_s": 0.25,
            "metadata_latency_s": 0.0,
            "n_osts": 1,
            "ost_bandwidth_bytes_per_s": 1e9,
            "read_latency_s": 1.0,
            "link_bytes_per_s": 1e18,
            "request_bytes": 1 << 20,
        },
        "lfs": {
            "request_bytes": 1 << 20,
            "request_s": 0.0,
            "latency_s": 0.125,
            "processes_per_server": per_node,
        },
    }
    return describe_scenario(
        **{
            "source": "simulated",
            "system": {
                "name": "made-up",
                "n_nodes": nodes,
                "processes_per_node": per_node,
                "devices": devices,
            },
            "dataset": {
                "name": "tiny",
                "n_files": n_records,
                "file_size_bytes": 100_016,
                "batch_size": 4,
            },
            "scenario": {
                "dataset": "tiny",
                "n_osts": 1,
                "policy": "pinning",
                "loader": "lmdb",
            },
            "training": {
                "epochs": 2,
                "shuffle": "global",
                "seed": 1,
                "compute_time_s": 0,
            },
            "loader": {"prefetch_batches": 0},
            "lmdb": {
                "order": "blocks",
                "block_records": 16,
                "steps_per_fetch": 2 if "coal" in on else 1,
                "stagger_size": 1,
                "fault_bytes": 131072,
                "coalesced_bytes": 4194304,
                "records_per_commit": 16,
                "optimisations": list(on),
                **lmdb,
            },
        }
    )


def simulated(on=(), *, cache=0, **options):
    """Return the tables of a run's second epoch."""
    point = Point(cache, 0)
    tables = simulate_database(description(on, **options), point)
    return [
        check_table(tables[name], name).query("epoch == 1")
        for name in ("io_time", "epochs")
    ]


def by_class(io_time, column):
    return io_time.groupby("io_class", observed=True)[column].sum().to_dict()


class TestCalls:
    """What is asked of the storage: exact counts."""

    @pytest.mark.parametrize("order", ["blocks", "records"])
    @pytest.mark.parametrize("on", VARIANTS.values(), ids=VARIANTS)
    @pytest.mark.parametrize("cache", [0, 50, 100])
    def test_every_record_is_read_once_and_every_reader_opens_once(
        self, on, order, cache
    ):
        io_time, epochs = simulated(on, cache=cache, order=order)
        assert epochs["samples"].sum() == 64
        assert epochs["lfs_files"].sum() == 64 * cache / 100
        assert epochs["bytes"].sum() == 64 * 100_000
        opens = io_time[io_time["io_class"].isin(["gfs_meta", "lfs_meta"])]
        n_readers = 2 if "lmm" in on else 4
        by_tier = opens.groupby("io_class", observed=True)["operations"].sum()
        assert by_tier.max() == n_readers
        assert opens["operations"].max() == 1
        readers = opens.groupby("rank")["operations"].sum()
        assert (readers > 0).sum() == n_readers

    @pytest.mark.parametrize("on", VARIANTS.values(), ids=VARIANTS)
    def test_nodes_without_a_block_ask_for_nothing_and_hold_up_nobody(self, on):
        io_time, epochs = simulated(on, nodes=6, cache=50)  # for four blocks
        assert epochs["samples"].sum() == 64
        idle = epochs.groupby("node")["samples"].sum() == 0
        assert idle.sum() == 2
        calls = io_time.groupby("rank")["operations"].sum()
        assert (calls[np.repeat(idle.to_numpy(), 2)] == 0).all()

    def test_calls_of_the_variants_by_hand(self):
        """64 records on 64 x 25 pages; 1 leaf; 8 records of a node make a fetch."""
        reads = {
            name: by_class(simulated(on)[0], "operations")["gfs_read"]
            for name, on in VARIANTS.items()
        }
        metadata = 2
        assert reads == {
            # Each process: metadata and 16 faults; the first one of a node: the leaf.
            "lmdb": 4 * (metadata + 16) + 2,
            "lmdbio-lmm": 2 * (metadata + 32 + 1),
            "lmdbio-lmm-dm": 2 * (metadata + 32) + 1,
            "lmdbio-lmm-dio": 2 * (metadata + 1 + 4),
            "lmdbio-lmm-dio-prov": 2 * 4,
            # Two steps are one read: the calls by the coalescing factor.
            "lmdbio-lmm-dio-prov-coal": 2 * 4 / 2,
            "lmdbio-lmm-dio-prov-coal-stag": 2 * 4 / 2,
        }

    def test_records_across_the_border_of_the_tiers_are_read_by_two_calls(self):
        io_time, _ = simulated(("lmm", "dio", "prov"), cache=6)  # 4 records
        operations = by_class(io_time, "operations")
        assert operations == {
            "gfs_read": 8,
            "gfs_meta": 2,
            "lfs_read": 1,
            "lfs_meta": 1,
        }

    def test_tree_is_walked_on_the_lfs_where_it_is(self):
        io_time, _ = simulated(("lmm", "dio"), cache=100)
        assert by_class(io_time, "operations")["lfs_read"] == 2 * (2 + 1 + 4)
        io_time, _ = simulated(("lmm",), cache=50, order="records")
        n_bytes, pages = by_class(io_time, "bytes"), 32 * 25 * 4096
        assert n_bytes["gfs_read"] == pages + 2 * 2 * META_BYTES
        assert n_bytes["lfs_read"] == pages + 2 * (2 * META_BYTES + 4096)


class TestTimes:
    """What one can follow with a pencil; a request takes 1 s, an open 0.5 s."""

    def test_io_time_of_a_reader_is_that_of_its_calls_and_others_have_none(self):
        io_time, epochs = simulated(FULL, nodes=1, steps_per_fetch=2)
        first = io_time[io_time["rank"] == 0].set_index("io_class")["time_s"]
        n_requests = 4 * 2  # four fetches of 1.6 MB in requests of 1 MiB
        transfer_s = 64 * 25 * 4096 / 1e9
        assert first["gfs_meta"] == 0.75
        assert first["gfs_read"] == pytest.approx(n_requests + transfer_s, abs=2e-4)
        assert (io_time[io_time["rank"] == 1]["time_s"] == 0).all()
        assert epochs["execution_time_s"].iloc[0] == pytest.approx(first.sum())

    def test_computing_is_that_of_the_batches_of_a_process(self):
        point = Point(0, 0)
        for on in ((), ("lmm",), FULL):
            plain = description(on)
            longer = changed(plain, training={"compute_time_s": 100.0})
            times_s = [
                simulate_database(one, point)["epochs"]["execution_time_s"].max()
                for one in (plain, longer)
            ]
            # 16 records of each process are 4 batches; less where it hides waiting.
            assert 400 <= times_s[1] <= times_s[0] + 400.01

    def test_readers_take_turns(self):
        """Four nodes; a fetch takes 2 requests, a reader's first one starts at 2 r."""
        on = FULL
        waits = {
            size: simulated(on, nodes=4, stagger_size=size)[1]["execution_time_s"].max()
            for size in (1, 4)
        }
        # All at once: opens 4 x 0.5, one fetch of 2 requests, closes.
        assert waits[4] == pytest.approx(2 + 2 + 0.25, abs=0.1)
        # In turn: the first is open at 0.5 s; 4 fetches one after the other; a close.
        assert waits[1] == pytest.approx(0.5 + 4 * 2 + 0.25, abs=0.1)

    def test_other_readers_wait_for_the_one_that_walks_the_tree(self):
        both, alone = (
            simulated(("lmm", *on), nodes=2)[0]
            .query("io_class == 'gfs_read'")
            .set_index("rank")["time_s"]
            for on in ((), ("dm",))
        )
        assert alone[0] == pytest.approx(both[0], abs=0.01)
        assert alone[2] == pytest.approx(both[2] - 1, abs=0.01)  # the leaf


class TestPrograms:
    """The event loop of programs."""

    def test_files_read_by_programs_take_the_time_of_the_other_loop(self):
        gfs = TierModel(
            n_metadata_servers=2,
            open_s=0.3,
            close_s=0.1,
            open_latency_s=0.2,
            n_object_servers=3,
            request_bytes=40,
            request_s=0.4,
            bandwidth_bytes_per_s=300.0,
            read_latency_s=0.1,
            n_links=2,
            link_bytes_per_s=900.0,
            metadata_service=Service("exponential"),
            object_service=Service("lognormal", 1.35),
        )
        lfs = replace(gfs, group_size=2, n_links=0, request_s=0.2)
        network = Network(4, gfs, lfs)
        files = np.random.default_rng(5).permutation(40)
        on_lfs = files % 3 == 0
        slowness = tuple(
            tier.draw_slowness(4, np.random.default_rng(7)) for tier in (gfs, lfs)
        )
        epoch = simulate_epoch(
            network,
            Workload(40, 100),
            files,
            on_lfs,
            np.random.default_rng(9),
            slowness,
        )
        rank_of = np.repeat(np.arange(4), 10)
        steps = np.zeros((40, 5), STEP)
        steps["kind"] = [OPEN, READ, READ, READ, CLOSE]
        steps["tier"] = on_lfs[:, np.newaxis]
        steps["amount"] = [0, 0, 0, 1, 0] + 2 * on_lfs[:, np.newaxis]
        sizes = np.array([40, 20])
        requests = np.concatenate([requests_of(tier, sizes) for tier in (gfs, lfs)])
        requests["is_last"] = 1
        for tier in (0, 1):
            mine = on_lfs == tier
            layout = layouts_of(network)[tier]
            servers = layout.object_servers(rank_of[mine], files[mine])
            steps["target"][mine] = servers[:, np.newaxis]
        programs = Programs(
            steps.ravel(),
            np.arange(5) * 50,
            np.arange(4),
            np.zeros(0, np.int64),
            requests,
        )
        done = simulate_programs(network, programs, np.random.default_rng(9), slowness)
        assert np.array_equal(done.finished_ns, epoch.finished_ns)
        assert np.array_equal(done.busy_ns, epoch.busy_ns)
        for tier in (0, 1):
            for column, time_ns in enumerate((epoch.read_time_ns, epoch.meta_time_ns)):
                expected = np.bincount(
                    rank_of[on_lfs == tier], time_ns[on_lfs == tier], 4
                )
                found = done.class_times_ns[:, 2 * tier + column]
                assert np.array_equal(found, expected)

    def test_gate_opens_when_it_was_passed_on_often_enough(self):
        programs = of_steps(
            [(PAUSE, 0, 2), (PASS, 0, 0)],
            [(PAUSE, 0, 5), (PASS, 0, 0)],
            [(WAIT, 0, 0), (PAUSE, 0, 1)],
            [(WAIT, 0, 0)],
            [(PAUSE, 0, 9), (WAIT, 0, 0)],
            gates=[2],
        )
        assert finished(programs).tolist() == [2, 5, 6, 5, 9]

    def test_pause_of_no_time_and_open_gate_do_not_let_others_go_first(self):
        programs = of_steps(
            [(PASS, 0, 0), (PAUSE, 0, 0), (WAIT, 0, 0), (READ, 0, 0)],
            [(READ, 0, 0)],
            gates=[1],
        )
        tier, slowness = TierModel(request_s=1.0), (np.ones(1), np.ones(1))
        programs = replace(programs, requests=requests_of(tier, np.ones(1, int)))
        done = simulate_programs(
            Network(2, tier, IDLE), programs, np.random.default_rng(1), slowness
        )
        assert done.finished_s.tolist() == [1, 2]

    def test_rate_limit_is_refused(self):
        network = Network(1, TierModel(limit_bytes_per_s=10), TierModel())
        programs, slowness = of_steps([(PASS, 0, 0)], gates=[1]), (np.ones(1),) * 2
        generator = np.random.default_rng(0)
        with pytest.raises(ModelError, match=r"gfs.limit_bytes_per_s: got 10 with a l"):
            simulate_programs(network, programs, generator, slowness)

    def test_gate_that_never_opens_is_refused(self):
        programs = of_steps([(WAIT, 0, 0)], [(PASS, 0, 0)], gates=[2])
        with pytest.raises(ModelError, match="got 1 customers that wait for a gate"):
            finished(programs)

    @given(
        pauses=st.lists(st.integers(0, 6), min_size=1, max_size=30),
        seed=st.integers(0, 99),
    )
    def test_customers_that_wait_in_a_chain_end_in_its_order(self, pauses, seed):
        """Customer i waits for the one before it in a random chain, then pauses."""
        order = np.random.default_rng(seed).permutation(len(pauses))
        steps: list = [None] * len(pauses)
        for place, customer in enumerate(order):
            wait = [(WAIT, place - 1, 0)] if place else []
            steps[customer] = [*wait, (PAUSE, 0, pauses[customer]), (PASS, place, 0)]
        programs = of_steps(*steps, gates=[1] * len(pauses))
        expected = np.cumsum(np.array(pauses)[order])
        assert finished(programs)[order].tolist() == expected.tolist()


def of_steps(*customers, gates):
    """Return programs of (kind, target, amount); a PAUSE is in seconds."""
    steps = np.zeros(sum(map(len, customers)), STEP)
    rows = [row for customer in customers for row in customer]
    steps["kind"], steps["target"], steps["amount"] = zip(*rows, strict=True)
    steps["amount"][steps["kind"] == PAUSE] *= 10**9
    first, nothing = np.cumsum([0, *map(len, customers)]), requests_of(IDLE, np.ones(1))
    return Programs(steps, first, np.arange(len(customers)), np.array(gates), nothing)


def finished(programs):
    network = Network(len(programs.ranks), IDLE, IDLE)
    slowness = (np.ones(1), np.ones(1))
    done = simulate_programs(network, programs, np.random.default_rng(1), slowness)
    assert (done.class_times_ns == 0).all()
    return done.finished_s


def test_requests_of_a_striped_file_stay_within_stripes_and_go_round():
    order = RecordOrder(4, 4, 1, 1, "global", 1, 0, "blocks", 4)
    provenance = Provenance(4, 3 * STRIPE_BYTES, 4, 4096)
    settings = description(("lmm", "dio", "prov")).lmdb
    epoch = DatabaseEpoch(settings, order, provenance, np.zeros(4, bool), 0)
    gfs = TierModel(
        n_object_servers=5, request_bytes=STRIPE_BYTES, bandwidth_bytes_per_s=1
    )
    programs = epoch.programs(Network(1, gfs, IDLE), 0.0)
    requests = programs.steps[programs.steps["kind"] == READ]
    n_bytes = programs.requests["service_s"][requests["amount"]]
    assert n_bytes.sum() == epoch.calls.n_bytes.sum()
    assert n_bytes.max() == STRIPE_BYTES
    start = int(epoch.calls.offset[0]) // STRIPE_BYTES
    first_server = requests["target"][0] - start % 5
    stripes = start + np.arange(len(requests))
    assert (requests["target"] - first_server).tolist() == (stripes % 5).tolist()


def test_requests_are_in_the_order_of_the_calls_where_a_batch_is_on_both_tiers():
    order = RecordOrder(16, 8, 1, 1, "global", 1, 0, "records", 16)
    provenance = Provenance(16, 1000, 4, 4096)
    on_lfs = np.arange(16) < 8
    epoch = DatabaseEpoch(description().lmdb, order, provenance, on_lfs, 0)
    steps = epoch.programs(Network(1, IDLE, IDLE), 0.0).steps
    tiers = steps["tier"][steps["kind"] == READ][-16:]  # after those of the tree
    assert tiers.tolist() == on_lfs[order.of_process(0, 0, 0, 0)].tolist()
    assert sorted(tiers.tolist()) != tiers.tolist()


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=5
    ),
    largest=st.integers(1, 20),
    at_multiples=st.booleans(),
)
def test_pieces_are_the_ranges_again(ranges, largest, at_multiples):
    starts, sizes = np.array(ranges).T
    range_of, first, n_bytes = cut(starts, sizes, largest, at_multiples=at_multiples)
    assert n_bytes.min() > 0
    assert n_bytes.max() <= largest
    covered = [
        byte
        for i, start, size in zip(range_of, first, n_bytes, strict=True)
        for byte in zip([i] * size, range(start, start + size), strict=True)
    ]
    assert covered == [
        (i, byte)
        for i, (start, size) in enumerate(ranges)
        for byte in range(start, start + size)
    ]
    if at_multiples:
        assert (first // largest == (first + n_bytes - 1) // largest).all()
