import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.breakdown import (
    bottleneck,
    break_down,
    epoch_times,
    group_numbers,
    process_times,
    select_epoch,
    select_scenario,
    select_scenarios,
    shown_epoch,
    slowest_process,
    spread_over_repetitions,
    sum_io_time,
    without_peers,
)
from tierscope.core.io_class import ALL_CLASSES, IOClass
from tierscope.core.tables import check_table

RUN = {
    "source": "measured",
    "system": "laptop",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "pinning",
    "loader": "posix",
    "cache_rate_percent": 50,
    "repetition": 0,
}
CLASSES = [str(io_class) for io_class in IOClass]


def io_time_of(times_s, epoch=0, **keys):
    """Return an I/O time table; times_s holds four seconds for each rank."""
    rows = [
        {"epoch": epoch, "rank": rank, "io_class": name, "time_s": float(time_s)}
        for rank, process_s in times_s.items()
        for name, time_s in zip(CLASSES, process_s, strict=True)
    ]
    frame = pd.DataFrame(rows).assign(**(RUN | keys), operations=1, bytes=0)
    return check_table(frame, "io_time")


@pytest.fixture
def file_records():
    """Rank 0 reads two GFS files in epoch 0, rank 1 an LFS file in epoch 1."""
    return check_table(
        pd.DataFrame(
            {
                "rank": [0, 0, 1],
                "epoch": [0, 0, 1],
                "tier": ["gfs", "gfs", "lfs"],
                "file_id": [7, 3, 5],
                "opens": [1, 1, 1],
                "reads": [2, 3, 4],
                "bytes_read": [100, 200, 400],
                "read_time_s": [1.0, 2.0, 0.5],
                "meta_time_s": [0.25, 0.5, 0.125],
            }
        ),
        "file_records",
    )


def rows_of(io_time, epoch, rank):
    """Return the rows of a process as {class: (time, operations, bytes)}."""
    rows = io_time[(io_time["epoch"] == epoch) & (io_time["rank"] == rank)]
    numbers = rows[["time_s", "operations", "bytes"]].itertuples(index=False)
    return dict(zip(rows["io_class"], map(tuple, numbers), strict=True))


def test_file_records_are_summed_by_tier_and_operation(file_records):
    io_time = sum_io_time(file_records, ranks=[0, 1], epochs=[0, 1], run=RUN)
    assert rows_of(io_time, epoch=0, rank=0) == {
        "gfs_read": (3.0, 5, 300),
        "gfs_meta": (0.75, 2, 0),
        "lfs_read": (0.0, 0, 0),
        "lfs_meta": (0.0, 0, 0),
    }
    assert rows_of(io_time, epoch=1, rank=1) == {
        "gfs_read": (0.0, 0, 0),
        "gfs_meta": (0.0, 0, 0),
        "lfs_read": (0.5, 4, 400),
        "lfs_meta": (0.125, 1, 0),
    }


def test_every_rank_epoch_and_class_has_a_row_and_the_keys_of_the_run(file_records):
    io_time = sum_io_time(file_records, ranks=range(3), epochs=range(2), run=RUN)
    assert len(io_time) == 3 * 2 * 4
    assert check_table(io_time, "io_time").equals(io_time)
    assert (io_time[list(RUN)] == pd.Series(RUN)).all(axis=None)
    assert io_time["io_class"].tolist() == CLASSES * 6
    assert rows_of(io_time, epoch=0, rank=2) == dict.fromkeys(CLASSES, (0.0, 0, 0))


def test_io_time_does_not_depend_on_the_order_of_ranks_and_epochs(file_records):
    io_time = sum_io_time(file_records, ranks=[0, 1], epochs=[0, 1], run=RUN)
    other = sum_io_time(file_records[::-1], ranks=[1, 0], epochs={1, 0}, run=RUN)
    pd.testing.assert_frame_equal(io_time, other)


def test_a_run_without_any_read_has_zeros(file_records):
    io_time = sum_io_time(file_records[:0], ranks=[0], epochs=[0], run=RUN)
    assert check_table(io_time, "io_time")["time_s"].tolist() == [0.0] * 4


def test_records_of_an_unexpected_rank_are_rejected(file_records):
    with pytest.raises(ValueError, match="got epoch 1, rank 1, tier lfs"):
        sum_io_time(file_records, ranks=[0], epochs=[0, 1], run=RUN)


def test_a_missing_run_key_is_rejected(file_records):
    run = {key: value for key, value in RUN.items() if key != "loader"}
    with pytest.raises(ValueError, match=r"expected \[.*'loader'"):
        sum_io_time(file_records, ranks=[0, 1], epochs=[0, 1], run=run)


def test_slowest_process_has_the_largest_sum_not_the_largest_class():
    slowest = slowest_process(io_time_of({0: [5, 0, 0, 0], 1: [2, 2, 2, 0]}))
    assert slowest["slowest_rank"].tolist() == [1]
    assert slowest["io_time_s"].tolist() == [6.0]
    assert slowest.shape == (1, 11)


def test_of_equally_slow_processes_the_lowest_rank_is_the_slowest():
    io_time = io_time_of({2: [0, 3, 0, 0], 0: [1, 0, 0, 0], 1: [0, 0, 3, 0]})
    assert slowest_process(io_time)["slowest_rank"].tolist() == [1]


def test_each_run_and_epoch_has_its_own_slowest_process():
    io_time = pd.concat(
        [
            io_time_of({0: [1, 0, 0, 0], 1: [2, 0, 0, 0]}, cache_rate_percent=100),
            io_time_of({0: [4, 0, 0, 0], 1: [3, 0, 0, 0]}, epoch=1),
            io_time_of({0: [5, 0, 0, 0], 1: [6, 0, 0, 0]}, epoch=0),
        ]
    )
    slowest = slowest_process(io_time)
    columns = ["cache_rate_percent", "epoch", "slowest_rank", "io_time_s"]
    assert slowest[columns].to_numpy().tolist() == [
        [50, 0, 1, 6],
        [50, 1, 0, 4],
        [100, 0, 1, 2],
    ]


def test_breakdown_is_that_of_the_slowest_process_and_shares_sum_to_one():
    breakdown = break_down(io_time_of({0: [5, 0, 0, 0], 1: [1, 2, 4, 1]}))
    assert check_table(breakdown, "breakdown").equals(breakdown)
    assert breakdown["io_class"].tolist() == CLASSES
    assert breakdown["slowest_rank"].tolist() == [1] * 4
    assert breakdown["time_s"].tolist() == [1, 2, 4, 1]
    assert breakdown["share"].tolist() == [0.125, 0.25, 0.5, 0.125]


def test_breakdown_does_not_depend_on_the_order_of_rows():
    io_time = pd.concat(
        [
            io_time_of({0: [3, 1, 1, 1], 1: [1, 2, 4, 1]}, repetition=repetition)
            for repetition in (1, 0)
        ]
    )
    shuffled = io_time.sample(frac=1, random_state=np.random.default_rng(1))
    pd.testing.assert_frame_equal(break_down(io_time), break_down(shuffled))


@pytest.mark.parametrize("n_rows", [0, 1, 7])
def test_groups_have_the_numbers_that_pandas_gives_them(n_rows):
    keys = ["system", "dataset", "cache_rate_percent"]
    table = pd.DataFrame(
        {
            "system": ["here"] * 7,
            "dataset": ["small", "large", "small", "large", "large", "small", "tiny"],
            "cache_rate_percent": [100, 0, 20, 0, 100, 100, 20],
        }
    ).iloc[:n_rows]
    expected = table.groupby(keys, sort=True).ngroup()
    assert group_numbers(table, keys).tolist() == expected.tolist()


def test_shares_are_zero_if_no_process_did_any_io():
    breakdown = break_down(io_time_of({0: [0, 0, 0, 0], 1: [0, 0, 0, 0]}))
    assert breakdown["share"].tolist() == [0.0] * 4
    assert breakdown["slowest_rank"].tolist() == [0] * 4


@pytest.mark.parametrize("change", ["lacking", "twice"])
def test_a_process_without_exactly_four_classes_is_rejected(change):
    io_time = io_time_of({0: [1, 1, 1, 1], 1: [1, 1, 1, 1]})
    rows = [0, 1, 2, 3, 4, 5, 6] + ([6] if change == "twice" else [])
    with pytest.raises(ValueError, match="lacks an I/O class or has it twice"):
        break_down(io_time.iloc[rows])


def test_bottleneck_is_the_class_with_the_largest_share():
    breakdown = break_down(
        pd.concat(
            [
                io_time_of({0: [1, 2, 4, 1]}, epoch=0),
                io_time_of({0: [1, 3, 3, 1]}, epoch=1),
            ]
        )
    )
    bottlenecks = bottleneck(breakdown)
    assert bottlenecks["io_class"].tolist() == ["lfs_read", "gfs_meta"]
    assert bottlenecks["share"].tolist() == [0.5, 0.375]


def epochs_of(execution_time_s):
    """Return an epochs table with an execution time for each rank."""
    frame = pd.DataFrame(
        {"rank": range(len(execution_time_s)), "execution_time_s": execution_time_s}
    ).assign(**RUN, node=0, epoch=0, samples=1, bytes=1, lfs_files=1, gfs_files=0)
    return check_table(frame.assign(lfs_fill_time_s=0.0), "epochs")


def test_epoch_times_take_the_largest_execution_time_and_the_slowest_process():
    io_time = io_time_of({0: [1, 0, 0, 0], 1: [2, 3, 0, 0]})
    times = epoch_times(epochs_of([7.0, 6.0]), io_time)
    assert dict(zip(times["quantity"], times["time_s"], strict=True)) == {
        "execution time": 7.0,
        "I/O time": 5.0,
    }


def times_of(times_s, quantity="I/O time"):
    """Return what `epoch_times` does for repetitions of one point."""
    rows = [
        RUN | {"repetition": repetition, "time_s": time_s}
        for repetition, time_s in enumerate(times_s)
    ]
    return pd.DataFrame(rows).assign(epoch=0, quantity=quantity)


def test_spread_is_the_standard_deviation_over_the_mean():
    """9, 10, 11 s: mean 10 s, standard deviation 1 s."""
    times = pd.concat([times_of([9.0, 10, 11]), times_of([9.0, 20], "execution time")])
    spread = spread_over_repetitions(times, max_spread_percent=10)
    assert check_table(spread, "spread").equals(spread)
    assert spread["quantity"].tolist() == ["I/O time", "execution time"]
    assert spread["n_repetitions"].tolist() == [3, 2]
    assert spread.loc[0, ["mean_s", "sd_s", "cv"]].tolist() == [10, 1, 0.1]
    assert spread["flagged"].tolist() == [False, True]


def test_spread_of_one_repetition_is_unknown_and_not_flagged():
    spread = spread_over_repetitions(times_of([9.0]), max_spread_percent=0)
    assert check_table(spread, "spread").equals(spread)
    assert spread[["sd_s", "cv"]].isna().all(axis=None)
    assert spread["flagged"].tolist() == [False]


def test_repetitions_without_any_io_do_not_differ():
    spread = spread_over_repetitions(times_of([0.0, 0.0]), max_spread_percent=0)
    assert spread["cv"].tolist() == [0]


@pytest.fixture
def two_scenarios():
    times_s = {0: [1, 0, 0, 0]}
    return pd.concat([io_time_of(times_s, n_osts=n_osts) for n_osts in (1, 60)])


def test_scenarios_come_in_the_order_asked_for(two_scenarios):
    selected = select_scenarios(two_scenarios, [{"n_osts": 60}, {"n_osts": 1}])
    assert selected["n_osts"].unique().tolist() == [60, 1]


def test_a_scenario_that_is_absent_is_named_with_those_present(two_scenarios):
    with pytest.raises(ValueError, match=r"'n_osts': 2}: not in.*'n_osts': 60,"):
        select_scenario(two_scenarios, {"dataset": "tiny", "n_osts": 2})


def test_an_ambiguous_scenario_is_rejected(two_scenarios):
    with pytest.raises(ValueError, match="2 scenarios have these keys"):
        select_scenario(two_scenarios, {"dataset": "tiny"})


def test_an_unknown_scenario_key_is_rejected(two_scenarios):
    with pytest.raises(ValueError, match=r"got \['osts'\]"):
        select_scenario(two_scenarios, {"osts": 1})


def test_an_epoch_that_is_absent_is_named_with_those_present(two_scenarios):
    with pytest.raises(ValueError, match=r"got 3, expected one of \[0\]"):
        select_epoch(two_scenarios, 3)


# ---- a fifth class ----------------------------------------------------------------


def with_net(io_time, net_s, **keys):
    """Return an I/O time table of policy adhoc; net_s is NET-READ by rank."""
    rows = io_time[io_time["io_class"] == "gfs_read"].copy()
    rows["io_class"], rows["time_s"] = "net_read", rows["rank"].map(net_s)
    both = pd.concat([io_time, rows], ignore_index=True)
    return check_table(both.assign(policy="adhoc", **keys), "io_time")


@pytest.fixture
def mixed():
    """A run of four classes, and one in which NET-READ makes rank 1 the slowest."""
    times_s = {0: [4, 3, 2, 1], 1: [1, 1, 1, 1]}
    return io_time_of(times_s), with_net(io_time_of(times_s), {0: 0.0, 1: 8.0})


def test_reads_from_peers_are_a_class_of_runs_that_make_them(file_records):
    net = file_records.iloc[[2]].assign(tier="net", meta_time_s=0.0, reads=1)
    records = pd.concat([file_records, net])
    io_time = sum_io_time(records, [0, 1], [0, 1], RUN, ALL_CLASSES)
    check_table(io_time, "io_time")
    assert len(io_time) == 2 * 2 * 5
    assert rows_of(io_time, epoch=1, rank=1)["net_read"] == (0.5, 1, 400)
    assert rows_of(io_time, epoch=0, rank=0)["net_read"] == (0.0, 0, 0)
    with pytest.raises(ValueError, match="tier net"):
        sum_io_time(records, [0, 1], [0, 1], RUN)


def test_fifth_class_counts_for_the_slowest_process(mixed):
    five = mixed[1]
    slowest = slowest_process(pd.concat(mixed))
    assert slowest["policy"].tolist() == ["adhoc", "pinning"]
    assert slowest["slowest_rank"].tolist() == [1, 0]
    assert slowest["io_time_s"].tolist() == [12.0, 10.0]
    assert bottleneck(break_down(five))["io_class"].tolist() == ["net_read"]


def test_runs_of_four_classes_are_broken_down_as_ever(mixed):
    four, _ = mixed
    both = break_down(pd.concat(mixed, ignore_index=True))
    of_four = both[both["policy"] == "pinning"].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_four, break_down(four))
    of_five = both[both["policy"] == "adhoc"]
    assert of_five["io_class"].tolist() == [*CLASSES, "net_read"]
    assert of_five["share"].sum() == pytest.approx(1)
    assert of_five["share"].iloc[-1] == pytest.approx(8 / 12)


def test_what_improves_classes_gets_runs_of_four_only(mixed):
    four, five = mixed
    kept = without_peers(pd.concat(mixed, ignore_index=True))
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), four)
    assert without_peers(four) is four
    assert without_peers(five).empty


@pytest.mark.parametrize("damage", ["missing", "twice", "foreign"])
def test_fifth_class_of_some_processes_only_is_refused(mixed, damage):
    five = mixed[1]
    row = five[five["io_class"] == "net_read"].iloc[[0]]
    damaged = {
        "missing": five.drop(row.index),
        "twice": pd.concat([five, row]),
        "foreign": pd.concat([five, row.assign(rank=7)]),
    }
    with pytest.raises(ValueError, match="of net_read, expected 2: one for"):
        process_times(damaged[damage])


@pytest.mark.parametrize(
    ("epochs", "wanted", "shown"), [([0, 1, 2], 1, 1), ([0], 1, 0), ([0, 2, 3], 1, 3)]
)
def test_wanted_epoch_is_shown_or_the_last(epochs, wanted, shown):
    assert shown_epoch(pd.DataFrame({"epoch": epochs}), wanted) == shown
