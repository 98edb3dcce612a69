import math

import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.analysis.comparing.policies import (
    ComparisonError,
    add_up,
    compare_epochs,
    is_reference,
    summarise,
)
from tierscope.analysis.comparing.savings import cut_words, is_undecided, mean_cuts
from tierscope.analysis.comparing.staging import fills_of, staging_of_copies
from tierscope.core.columns import TABLES
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import Origin
from tierscope.core.scenario import Point, Scenario
from tierscope.core.studies import has_policies, without_reference
from tierscope.core.tables import check_table
from tierscope.figures.comparing.loaders import in_order, plot_loaders
from tierscope.figures.comparing.policies import (
    failure_notes,
    filling_notes,
    plot_policies,
)
from tierscope.pages.policy_summary import summary_text

TESTS = Origin("tests")
RUN = {
    "source": "emulated",
    "system": "small",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "none",
    "loader": "posix",
    "cache_rate_percent": 0,
    "repetition": 0,
}
NAN = math.nan
T_OF_ONE = 12.7062  # t of one degree of freedom
PLACE = {"pinning": 50, "monarch": 50, "none": 0}


def tables(times_s, hits, **keys):
    """Return io_time and epochs of a run of two nodes of a process each.

    Each epoch reads eight files; `hits` of them are on the LFS. Rank 1 takes a second
    longer than rank 0, which takes `times_s`, all of it GFS-META.
    """
    io_time, epochs = [], []
    for epoch, (time_s, n_hits) in enumerate(zip(times_s, hits, strict=True)):
        for rank in (0, 1):
            calls = dict(zip(IOClass, (8 - n_hits, 4 - n_hits // 2, 4, 4), strict=True))
            calls[IOClass.LFS_READ] = calls[IOClass.LFS_META] = n_hits // 2
            seconds = dict.fromkeys(IOClass, 0.0) | {IOClass.GFS_META: time_s + rank}
            where = RUN | keys | {"epoch": epoch, "rank": rank}
            io_time += [
                where
                | {
                    "io_class": str(io_class),
                    "time_s": seconds[io_class],
                    "operations": calls[io_class],
                    "bytes": 0,
                }
                for io_class in IOClass
            ]
            epochs.append(
                where
                | {
                    "node": rank,
                    "execution_time_s": time_s + 2 * rank,
                    "samples": 4,
                    "bytes": 40,
                    "lfs_files": n_hits // 2,
                    "gfs_files": 4 - n_hits // 2,
                    "lfs_fill_time_s": 0.1,
                }
            )
    return pd.DataFrame(io_time), pd.DataFrame(epochs)


def together(*runs):
    """Return the tables of several runs, one below the other."""
    return [pd.concat(parts, ignore_index=True) for parts in zip(*runs, strict=True)]


def background_of(**keys):
    """Return the copies of two nodes: in the first epoch they place two files each."""
    zeros = {
        name: 0
        for name in TABLES["run_background"]
        if name not in ("node", "epoch", "drain_time_s")
    }
    rows = []
    for node in (0, 1):
        for epoch in (0, 1):
            new = 2 * (epoch == 0)
            copies = {"placed_files": new, "gfs_opens": new, "gfs_reads": 3 * new}
            copies["lfs_bytes"] = 1000 * new
            where = {"node": node, "epoch": epoch, "drain_time_s": 0.5 * node * new}
            rows.append(RUN | keys | zeros | where | copies)
    return check_table(pd.DataFrame(rows).astype(_seconds()), "background")


def _seconds():
    return {
        name: kind for name, kind in TABLES["background"].items() if kind == "float64"
    }


@pytest.fixture(scope="module")
def made():
    """Return the tables of none, pinning and monarch, two epochs and repetitions."""
    parts, copies = [], []
    for repetition in (0, 1):
        for policy, times_s, hits in (
            ("none", (10, 10), (0, 0)),
            ("pinning", (4, 4), (4, 4)),
            ("monarch", (10, 6), (0, 4)),
        ):
            keys = {
                "policy": policy,
                "cache_rate_percent": PLACE[policy],
                "repetition": repetition,
            }
            parts.append(tables(times_s, hits, **keys))
            if policy == "monarch":
                copies.append(background_of(**keys))
    io_time, epochs = (
        check_table(pd.concat(part, ignore_index=True), name)
        for part, name in zip(
            zip(*parts, strict=True), ("io_time", "epochs"), strict=True
        )
    )
    policy_epochs = compare_epochs(io_time, epochs, pd.concat(copies))
    totals = add_up(policy_epochs, epochs)
    return (
        check_table(policy_epochs, "policy_epochs"),
        check_table(totals, "policy_totals"),
        check_table(summarise(totals), "policy_summary"),
    )


@pytest.fixture
def compared(made):
    """Return the tables for a test of its own, which may change them."""
    return tuple(table.copy() for table in made)


def of(table, policy, **keys):
    """Return a policy's rows of the first repetition."""
    wanted = {"policy": policy, "repetition": 0} | keys
    wanted = {key: value for key, value in wanted.items() if key in table}
    return table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]


def test_epochs_have_the_slowest_process_and_operations_of_all(compared):
    none, second = of(compared[0], "none"), of(compared[0], "monarch", epoch=1)
    assert none["io_time_s"].tolist() == none["gfs_meta_s"].tolist() == [11, 11]
    assert none["execution_time_s"].tolist() == [12, 12]
    assert none[["gfs_opens", "gfs_reads"]].to_numpy().tolist() == [[8, 16]] * 2
    assert second[["gfs_opens", "lfs_opens"]].to_numpy().tolist() == [[4, 4]]


def test_copies_stand_apart_from_what_processes_ask_for(compared):
    first = of(compared[0], "monarch", epoch=0).iloc[0]
    assert first[["gfs_opens", "gfs_reads"]].tolist() == [8, 16]
    assert first[["background_gfs_opens", "background_gfs_reads"]].tolist() == [4, 12]
    assert (first["placed_files"], first["drain_time_s"]) == (4, 1)
    assert of(compared[0], "pinning")["placed_files"].tolist() == [0, 0]


def test_sums_hold_drains_and_the_estimated_staging(compared):
    _, totals, _ = compared
    assert of(totals, "none")["time_s"].tolist() == [12, 24]
    assert of(totals, "monarch")["time_s"].tolist() == [13, 21]
    assert of(totals, "monarch")["background_gfs_operations"].tolist() == [16, 16]
    pinning = of(totals, "pinning")
    # Both nodes read half of the dataset: one epoch of the reference.
    assert pinning["staging"].tolist() == ["estimated"] * 2
    assert pinning["staging_time_s"].tolist() == [12, 12]
    assert pinning["staging_gfs_operations"].tolist() == [24, 24]
    assert pinning["time_s"].tolist() == [12 + 6, 12 + 6 + 6]
    assert pinning["reference_time_s"].tolist() == [12, 24]


def test_stage_in_that_was_run_stands_in_place_of_an_estimate():
    io_time, epochs = together(
        tables((10, 10), (0, 0)),
        tables((4, 4), (4, 4), policy="adhoc", cache_rate_percent=50),
    )
    where = RUN | {"policy": "adhoc", "cache_rate_percent": 50}
    stage_in = pd.DataFrame(
        [
            where | {"stage_in_time_s": 3.0, "gfs_opens": 1, "gfs_reads": 2},
            where | {"stage_in_time_s": 5.0, "gfs_opens": 3, "gfs_reads": 6},
        ]
    )
    policy_epochs = compare_epochs(io_time, epochs)
    totals = check_table(add_up(policy_epochs, epochs, stage_in), "policy_totals")
    adhoc = of(totals, "adhoc")
    assert adhoc["staging"].tolist() == ["run"] * 2
    assert adhoc["staging_time_s"].tolist() == [5, 5]  # of the slowest node
    assert adhoc["staging_gfs_operations"].tolist() == [12, 12]  # of both nodes
    assert adhoc["time_s"].tolist() == [5 + 6, 5 + 6 + 6]
    assert of(totals, "none")["staging"].tolist() == ["none"] * 2


@pytest.mark.parametrize(
    ("policy", "loader", "last_s", "pays"),
    [
        ("monarch", "program", 7, 3),
        ("lru", "program", 7, 3),
        ("monarch", "posix", 7, 3),
        ("lru", "posix", 13, math.nan),  # it copies again in each epoch
    ],
)
def test_copies_that_are_waited_for_once_are_in_no_further_epoch(
    policy, loader, last_s, pays
):
    """12 and 7 s, and 6 s of copies at the end: behind by 1 s, then 5 s an epoch."""
    placed = {"policy": policy, "loader": loader, "cache_rate_percent": 50}
    io_time, epochs = together(
        tables((10, 10), (0, 0), loader=loader), tables((10, 5), (0, 4), **placed)
    )
    background = background_of(**placed)
    is_last = (background["epoch"] == 1) & (background["node"] == 1)
    background["drain_time_s"] = 6.0 * is_last
    policy_epochs = compare_epochs(io_time, epochs, background)
    totals = check_table(add_up(policy_epochs, epochs), "policy_totals")
    assert of(totals, policy)["time_s"].tolist() == [12, 25]
    summary = check_table(summarise(totals), "policy_summary").set_index("policy")
    assert summary.loc[policy, "last_epoch_time_s"] == last_s
    assert summary.loc[policy, "pays_after_epochs"] == pytest.approx(pays, nan_ok=True)
    figure = plot_policies(
        policy_epochs, totals, summary.reset_index(), provenance=TESTS
    )
    further = [line.get_ydata() for line in figure.axes[2].lines]
    ends = [[some[0], some[-1]] for some in further if len(some) == 3]
    assert [-1, -1 + 2 * (12 - last_s)] in ends


def test_epochs_that_still_fill_the_lfs_are_not_like_those_that_follow(compared):
    """One epoch is not enough to see what Monarch's copies bring."""
    first = compared[0].query("epoch == 0")
    assert filling_notes(compared[0]) == []
    assert filling_notes(first)[0].startswith(
        "The last epoch still filled the LFS: mon"
    )
    evicting = first.assign(evicted_files=first["placed_files"])
    assert filling_notes(evicting) == []


@pytest.fixture
def of_program():
    """Return the runs of a program on two nodes that computes: none and pinning."""
    parts = [
        tables((10, 10), (0, 0), loader="program"),
        *(
            tables((4, 4), (4, 4), cache_rate_percent=rate, **PINNED)
            for rate in (50, 100)
        ),
    ]
    io_time, epochs = (
        pd.concat(part, ignore_index=True) for part in zip(*parts, strict=True)
    )
    return compare_epochs(io_time, epochs), epochs


PINNED = {"loader": "program", "policy": "pinning"}


def fill(rate, held_mib, copied_mib, time_s):
    """Return what a node copied before a run, as `fills_of` returns it."""
    keys = RUN | PINNED | {"cache_rate_percent": rate}
    held = {"held_files": 2, "held_bytes": held_mib << 20}
    return keys | held | {"copied_bytes": copied_mib << 20, "time_s": time_s}


def test_staging_of_a_program_goes_by_the_copies_that_were_made(of_program):
    # Two nodes copied 4 MiB, then 6 MiB more, 20 MiB in 1 + 3 + 2 + 4 s.
    fills = pd.DataFrame(
        [fill(50, 4, 4, 1), fill(50, 4, 4, 3), fill(100, 10, 6, 2), fill(100, 10, 6, 4)]
    )
    totals = check_table(add_up(*of_program, fills=fills), "policy_totals")
    last = totals[totals["n_epochs"] == 2].set_index("cache_rate_percent")
    assert last["staging"].tolist() == ["none", "copies", "copies"]
    assert last["staging_time_s"].tolist() == [0, 2, 5]  # half a second a MiB
    assert last["time_s"].tolist() == [24, 2 + 12, 5 + 12]
    # An open and a read of the end for both files of both nodes, and a read a MiB.
    assert last["staging_gfs_operations"].tolist() == [0, 8 + 8, 8 + 20]
    epochs, summary = of_program[0], summarise(totals)
    text = summary_text(summary, epochs, provenance="tests")
    assert "2.00\N{DAGGER}" in text
    assert "estimated" not in text
    figure = plot_policies(epochs, totals, summary, provenance=TESTS)
    notes = " ".join(figure.get_supxlabel().split())
    assert "from the rate of the copies that were made" in notes
    assert "estimated" not in notes


def test_rate_of_copies_is_that_of_the_runs_that_tell():
    """One run has no room for a file, one does not tell, one does."""
    told = {"filled": [{"copied_bytes": 8, "time_s": 4.0}]}
    runs = [
        describe_run(
            point={"cache_rate_percent": rate, "repetition": 0},
            observed={"lfs_files": [1], "lfs_bytes": [held]} | noted,
        )
        for rate, held, noted in ((25, 0, {}), (50, 4, {}), (100, 8, told))
    ]
    staging = staging_of_copies(fills_of(runs)).droplevel(list(range(6)))
    assert staging["staging_time_s"].tolist() == [0, 2, 4]
    assert set(staging["staging"]) == {"copies"}


def test_staging_of_a_program_that_copied_nothing_is_its_io_time(of_program):
    fills = pd.DataFrame([fill(50, 4, 0, 1), fill(100, 10, 0, 1)])
    for given in (fills, fills[:0], None):
        totals = add_up(*of_program, fills=given)
        last = totals[totals["n_epochs"] == 2].set_index("cache_rate_percent")
        assert last["staging"].tolist() == ["none", "estimated", "estimated"]
        # Two nodes read a half, or all: an epoch has 11 s of I/O, and takes 12 s.
        assert last["staging_time_s"].tolist() == [0, 11, 22]


def test_reads_from_peers_are_a_class_of_the_runs_that_make_them():
    io_time, epochs = together(
        tables((10,), (0,)),
        tables((1,), (4,), policy="adhoc", cache_rate_percent=50),
    )
    net = io_time[(io_time["policy"] == "adhoc") & (io_time["io_class"] == "gfs_read")]
    net = net.assign(io_class="net_read", time_s=7.0)
    table = compare_epochs(pd.concat([io_time, net]), epochs)
    table = check_table(table, "policy_epochs").set_index("policy")
    assert table["net_read_s"].to_dict() == {"none": 0, "adhoc": 7}
    assert table["io_time_s"].to_dict() == {"none": 11, "adhoc": 9}
    check_table(table.reset_index(), "policy_epochs")


def test_summary_says_what_is_saved_and_when_it_pays(compared):
    summary = compared[2].set_index("policy")
    monarch, pinning = summary.loc["monarch"], summary.loc["pinning"]
    assert monarch["time_cut_percent"] == pytest.approx(100 * 3 / 24)
    assert monarch["io_time_cut_percent"] == pytest.approx(100 * 4 / 22)
    # Of 24 opens and reads an epoch half are left in the second; copies have 16.
    assert monarch["gfs_operations_cut_percent"] == pytest.approx(
        100 * (1 - (24 + 12 + 16) / 48)
    )
    assert monarch["pays_after_epochs"] == 2
    # After two epochs as long as the reference, the third is ahead.
    assert pinning["pays_after_epochs"] == 3
    assert math.isnan(summary.loc["none", "pays_after_epochs"])
    assert (summary["n_repetitions"] == 2).all()


def test_cuts_are_means_of_the_repetitions_cuts_each_against_its_own_reference():
    runs = [
        tables(
            (time_s,), (n_hits,), policy=policy, cache_rate_percent=rate, repetition=n
        )
        for n, times_s in enumerate(((8, 3), (18, 13)))  # 10, 5 s; then 20, 15 s
        for (policy, rate, n_hits), time_s in zip(
            (("none", 0, 0), ("monarch", 50, 4)), times_s, strict=True
        )
    ]
    io_time, epochs = together(*runs)
    totals = add_up(compare_epochs(io_time, epochs), epochs)
    summary = summarise(totals).set_index("policy")
    check_table(summary.reset_index(), "policy_summary")
    monarch = summary.loc["monarch"]
    assert monarch["time_cut_percent"] == pytest.approx((50 + 25) / 2)
    half = T_OF_ONE * 25 / 2
    assert monarch["time_cut_low_percent"] == pytest.approx(37.5 - half)
    assert monarch["time_cut_high_percent"] == pytest.approx(37.5 + half)
    io_cuts = (100 * 5 / 9, 100 * 5 / 19)
    assert monarch["io_time_cut_percent"] == pytest.approx(sum(io_cuts) / 2)
    assert monarch["io_time_cut_high_percent"] == pytest.approx(
        sum(io_cuts) / 2 + T_OF_ONE * (io_cuts[0] - io_cuts[1]) / 2
    )
    assert is_undecided(monarch)
    assert cut_words(monarch, "time") == f"?37.5 ± {half:.1f}"
    one = summarise(totals[totals["repetition"] == 0])
    ends = ["time_cut_low_percent", "io_time_cut_high_percent"]
    assert one[ends].isna().all(axis=None)
    assert cut_words(one.iloc[0], "time").startswith("?")


@pytest.mark.parametrize(
    ("low", "high", "undecided"),
    [(1, 3, False), (-3, -1, False), (-1, 3, True), (0, 0, False), (NAN, NAN, True)],
)
def test_savings_are_undecided_where_their_interval_holds_zero(low, high, undecided):
    ends = {"time_cut_low_percent": low, "time_cut_high_percent": high}
    assert is_undecided(ends) == undecided


def test_what_gains_nothing_in_its_last_epoch_never_pays():
    io_time, epochs = together(
        tables((10, 10), (0, 0)),
        tables((10, 10), (0, 4), policy="monarch", cache_rate_percent=50),
    )
    policy_epochs = compare_epochs(io_time, epochs)
    summary = summarise(add_up(policy_epochs, epochs))
    assert summary["pays_after_epochs"].isna().all()
    assert "never" in summary_text(summary, policy_epochs, provenance="tests")


@pytest.mark.parametrize(
    ("times_s", "pays"),
    [
        ((9, 9, 10.5), math.nan),  # ahead, but further epochs lose it again
        ((9, 9, 10), 1),
        ((11, 9, 9), 3),
        ((12, 9, 9.5), 4 + 1),
        ((12, 9, 10), math.nan),
    ],
)
def test_what_loses_in_its_last_epoch_does_not_pay(times_s, pays):
    io_time, epochs = together(
        tables((10, 10, 10), (0, 0, 0)),
        tables(times_s, (0, 4, 4), policy="monarch", cache_rate_percent=50),
    )
    summary = summarise(add_up(compare_epochs(io_time, epochs), epochs))
    found = summary.set_index("policy").loc["monarch", "pays_after_epochs"]
    assert found == pytest.approx(pays, nan_ok=True)


def test_none_is_the_reference_where_another_policy_holds_nothing_too(compared):
    io_time, epochs = together(
        tables((10, 10), (0, 0)),
        tables((5, 5), (0, 0), policy="monarch"),
    )
    totals = add_up(compare_epochs(io_time, epochs), epochs)
    assert totals["reference_time_s"].tolist() == [12, 24] * 2
    assert totals["staging"].unique().tolist() == ["none"]


def test_reference_is_of_one_policy_in_all_epochs():
    policies = ("lru", "pinning", "monarch", "adhoc")
    for order in (policies, policies[::-1]):
        io_time, epochs = together(
            *(tables((3 + len(name),) * 30, (0,) * 30, policy=name) for name in order),
        )
        policy_epochs = compare_epochs(io_time, epochs)
        totals = add_up(policy_epochs, epochs)
        chosen = policy_epochs[is_reference(policy_epochs)]
        assert chosen["policy"].tolist() == ["pinning"] * 30
        pinning = of(totals, "pinning")
        assert pinning["reference_time_s"].tolist() == pinning["time_s"].tolist()
        others = policy_epochs[policy_epochs["policy"] != "pinning"]
        assert set(others[is_reference(others)]["policy"]) == {"adhoc"}


def test_run_without_reference_is_refused_by_name():
    io_time, epochs = tables((10,), (4,), policy="lru", cache_rate_percent=50)
    with pytest.raises(ComparisonError, match="policy lru, loader posix"):
        add_up(compare_epochs(io_time, epochs), epochs)


@pytest.mark.parametrize(
    ("point", "other", "found"),
    [
        (Point(0, 0), "tensorflow", None),
        (Point(0, 1), "tensorflow", "lru"),
        (Point(50, 0), "tensorflow", "none"),
        (Point(0, 0), "posix", "lru"),
    ],
)
def test_sweep_tells_what_it_cannot_compare(point, other, found):
    sweep = {
        Scenario("tiny", 1, "none", "tensorflow"): (point,),
        Scenario("tiny", 1, "lru", other): (Point(50, 0),),
    }
    lacking = without_reference(sweep)
    assert (lacking.policy if lacking else None) == found


@pytest.mark.parametrize(
    ("policy", "rates", "scene", "found"),
    [
        ("lru", (0, 50), {"loader": "posix"}, True),
        ("lru", (0,), {"loader": "posix"}, False),  # no row of a figure
        ("none", (0, 50), {"loader": "posix"}, False),
        ("lru", (0, 50), {"loader": "tensorflow"}, False),
    ],
)
def test_figure_of_policies_needs_several_and_files_on_the_lfs(
    policy, rates, scene, found
):
    sweep = {
        Scenario("tiny", 1, "none", "posix"): (Point(0, 0),),
        Scenario("tiny", 1, policy, "posix"): tuple(Point(rate, 0) for rate in rates),
    }
    assert has_policies(sweep, scene) == found


def test_figure_has_a_row_for_each_cache_rate_and_names_what_was_not_run(compared):
    figure = plot_policies(*compared, provenance=TESTS)
    assert len(figure.axes) == 3
    ticks = [tick.get_text() for tick in figure.axes[1].get_yticklabels()]
    assert ticks == ["none", "pinning", "monarch\n3.906 KiB copied"]
    notes = " ".join(figure.get_supxlabel().split())
    assert "2 repetitions" in notes
    assert "staging is estimated" in notes
    assert "(emulated)" in figure.get_suptitle()
    assert "emulated network" not in notes


def test_summary_is_sorted_and_names_the_reference(compared):
    policy_epochs, _, summary = compared
    others = summary.assign(loader="lmdb")
    rate = summary[summary["policy"] == "pinning"].assign(cache_rate_percent=100)
    mixed = pd.concat([others, rate, summary.iloc[::-1]], ignore_index=True)
    epochs = pd.concat([policy_epochs, policy_epochs.assign(loader="lmdb")])
    text = summary_text(mixed, epochs, provenance="emulated, tests")
    head, *blocks = text.splitlines()
    assert head == "Source: emulated, tests"
    titles = [line for line in blocks if line.startswith(("tiny ", "loader "))]
    without_lfs = "12 s an epoch without LFS, 11 s of I/O"
    assert titles == [
        "tiny dataset, 1 OST",
        f"loader posix: {without_lfs}",
        f"loader lmdb: {without_lfs}",
    ]
    rows = [line.split() for line in blocks if " %  " in line]
    assert [row[:3:2] for row in rows] == [
        ["0", "none"],
        ["50", "pinning"],
        ["50", "monarch"],
        ["100", "pinning"],
        ["0", "none"],
        ["50", "pinning"],
        ["50", "monarch"],
    ]
    assert rows[0][3:] == ["reference"]
    assert " ".join(rows[2][3:]) == "12.5 ± 0.0 18.2 ± 0.0 -8.3 3.906 KiB 0.00 2"
    assert rows[1][-2:] == ["12.00*", "~3"]
    assert all(len(line) <= 80 for line in blocks)


def test_summary_keeps_its_columns_with_wide_values_and_has_no_negative_zero(compared):
    policy_epochs, _, summary = compared
    cuts = {"time_cut_percent": -0.04, "gfs_operations_cut_percent": -0.04}
    wide = {"time_cut_percent": -1234.5, "time_cut_low_percent": -1357.9}
    wide["time_cut_high_percent"] = -1111.1
    summary = summary.assign(**cuts)
    summary.loc[summary["policy"] == "monarch", list(wide)] = list(wide.values())
    text = summary_text(summary, policy_epochs, provenance="tests")
    assert "-1234.5 ± 123.4" in text
    assert "-0.0" not in text
    head, *rows = [
        line
        for line in text.splitlines()
        if line.startswith("rate") or (" %  " in line and "reference" not in line)
    ]
    assert len(rows) == 2
    ends = [head.index(" time") + 5, head.index("I/O time") + 8, head.index("GFS") + 3]
    for row in rows:
        for end in ends:
            assert row[end - 1].isdigit()
            assert row[end : end + 2] == "  "


def test_summary_says_which_policies_are_the_reference_of_some_repetitions(compared):
    policy_epochs, totals, _ = compared
    is_gone = (policy_epochs["policy"] == "none") & (policy_epochs["repetition"] == 1)
    pinning = policy_epochs[policy_epochs["policy"] == "none"].assign(policy="pinning")
    policy_epochs = pd.concat([policy_epochs[~is_gone], pinning])
    n_repetitions = {"none": 1, "pinning": 2}
    summary = summarise(
        pd.concat(
            totals[(totals["policy"] == "none") & (totals["repetition"] < n)].assign(
                policy=policy
            )
            for policy, n in n_repetitions.items()
        )
    )
    text = summary_text(summary, policy_epochs, provenance="tests")
    title = " (reference: none in 1 repetition, pinning in 1 repetition)"
    _, rows = text.split(f"{title}\n")
    none, pinning = rows.splitlines()[:2]
    assert none.split() == ["0", "%", "none", "reference"]
    assert " ".join(pinning.split()) == "0 % pinning 0.0 ± 0.0 0.0 ± 0.0 0.0 0.00 never"


def test_cuts_do_not_depend_on_the_index_of_the_rows(compared):
    _, totals, _ = compared
    by = ["policy", "cache_rate_percent", "n_epochs"]
    expected = mean_cuts(totals.reset_index(drop=True), by)
    assert (expected["n_repetitions"] == 2).all()
    assert mean_cuts(totals.set_axis([0] * len(totals)), by).equals(expected)


def test_summary_of_references_alone_explains_no_spread(compared):
    policy_epochs, _, summary = compared
    none = summary[summary["policy"] == "none"]
    text = summary_text(none, policy_epochs, provenance="tests")
    assert text.splitlines()[-1].split() == ["0", "%", "none", "reference"]
    assert "±" not in text


def test_summary_of_one_repetition_has_no_spread(compared):
    policy_epochs, totals, _ = compared
    one = summarise(totals[totals["repetition"] == 0])
    text = summary_text(one, policy_epochs, provenance="tests")
    assert "±" not in text
    words = "One repetition, no interval. ?: undecided whether time is saved or lost."
    assert text.count(words) == 1
    assert " ?12.5 " in text


def test_summary_says_which_rows_have_no_spread(compared):
    policy_epochs, totals, _ = compared
    is_gone = (totals["policy"] == "monarch") & (totals["repetition"] == 1)
    text = summary_text(summarise(totals[~is_gone]), policy_epochs, provenance="tests")
    words = (
        "±: 95 % confidence interval of the mean over the repetitions (Student's t, of"
    )
    words += " pairs), n = 2; where n = 1 no interval."
    assert words in " ".join(text.split())


@pytest.mark.parametrize(("source", "is_noted"), [("emulated", 1), ("simulated", 0)])
def test_reads_from_peers_say_what_the_emulated_network_is(compared, source, is_noted):
    policy_epochs, totals, summary = (table.assign(source=source) for table in compared)
    policy_epochs.loc[policy_epochs["policy"] == "monarch", "net_read_s"] = 1.0
    figure = plot_policies(policy_epochs, totals, summary, provenance=TESTS)
    notes = " ".join(figure.get_supxlabel().split())
    told = summary_text(summary, policy_epochs, provenance="tests")
    for text in (notes, " ".join(told.split())):
        assert text.count("pass an emulated network") == is_noted


@pytest.mark.parametrize(("times", "is_cut"), [(1, False), (1000, True)])
def test_estimated_staging_does_not_dwarf_what_was_run(compared, times, is_cut):
    epochs, totals, _ = compared
    staged = totals["staging"] == "estimated"
    more = (times - 1) * totals["staging_time_s"].where(staged, 0)
    totals = totals.assign(
        staging_gfs_operations=totals["staging_gfs_operations"] * times,
        staging_time_s=totals["staging_time_s"] + more,
        time_s=totals["time_s"] + more,
    )
    figure = plot_policies(epochs, totals, summarise(totals), provenance=TESTS)
    figure.draw_without_rendering()
    _, operations, savings = figure.axes
    words = [text.get_text() for ax in (operations, savings) for text in ax.texts]
    # 48 opens and reads of none, 52 of monarch and its copies.
    if is_cut:
        assert operations.get_xlim()[1] == pytest.approx(1.3 * 52)
        assert words[0] == "24k of staging \N{RIGHTWARDS ARROW}"
        told = "Below:\npinning: 12000 s of staging, pays off after\n2001 epochs"
        assert words[1:] == [told]
        (text,) = savings.texts
        assert text.get_window_extent().x0 > savings.bbox.x0  # right of tick labels
        assert -12 < savings.get_ylim()[0] < -1
    else:
        assert words == []
        assert savings.get_ylim()[0] <= -12
    ticks = operations.get_xticks()
    shown = ticks[(ticks >= 0) & (ticks <= operations.get_xlim()[1])]
    assert 2 <= len(shown) <= 4


def test_copies_that_failed_are_told(compared):
    epochs, totals, summary = compared
    assert failure_notes(epochs) == []
    epochs = epochs.assign(failed_files=(epochs["policy"] == "monarch").astype(int))
    words = "Copies failed: 4 of monarch. "
    figure = plot_policies(epochs, totals, summary, provenance=TESTS)
    assert words in " ".join(figure.get_supxlabel().split())
    text = summary_text(summary, epochs, provenance="tests")
    assert text.splitlines()[-1].startswith(words)


def test_policies_whose_savings_are_undecided_have_hollow_markers(compared):
    """Of two policies, one is undecided: its interval holds 0."""
    policy_epochs, totals, summary = compared
    is_monarch = summary["policy"] == "monarch"
    summary = summary.assign(
        time_cut_low_percent=summary["time_cut_low_percent"].mask(is_monarch, -1.0),
        time_cut_high_percent=summary["time_cut_high_percent"].mask(is_monarch, 30.0),
    )
    figure = plot_policies(policy_epochs, totals, summary, provenance=TESTS)
    lines = figure.axes[2].lines
    text = summary_text(summary, policy_epochs, provenance="tests")
    (row,) = (line.split() for line in text.splitlines() if "monarch" in line)
    assert (row[3], row[-1]) == ("?12.5", "?2")
    marked = [line for line in lines if line.get_markerfacecolor() == "white"]
    # Its line, and the large marker where it would pay off.
    assert [line.get_marker() for line in marked] == ["^", "^"]
    assert [line.get_markersize() for line in marked] == [4, 10]
    notes = " ".join(figure.get_supxlabel().split())
    assert "Hollow: undecided whether time is saved or lost (1 of 2)" in notes


def drawn_opens(figure):
    """Return the opens that the middle panel's bars show, by policy."""
    ax = figure.axes[1]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    bars = [bar for bar in ax.patches if bar.get_x() == 0]
    return {names[round(bar.get_y() + 0.4)]: bar.get_width() for bar in bars}


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        (["none"], ["none", "pinning"]),
        ([], ["pinning at 0 %", "pinning"]),
    ],
)
def test_figure_does_not_mix_the_cache_rates_of_a_policy(reference, names):
    runs = [tables((10, 10), (0, 0), policy=name) for name in [*reference, "pinning"]]
    runs.append(tables((4, 4), (4, 4), policy="pinning", cache_rate_percent=50))
    io_time, epochs = together(*runs)
    policy_epochs = compare_epochs(io_time, epochs)
    totals = add_up(policy_epochs, epochs)
    figure = plot_policies(policy_epochs, totals, summarise(totals), provenance=TESTS)
    times, operations, savings = figure.axes
    labels = [tick.get_text() for tick in operations.get_yticklabels()]
    assert labels == names
    tops = [
        max(bar.get_y() + bar.get_height() for bar in times.patches if half(bar))
        for half in (lambda bar: bar.get_x() < 0.5, lambda bar: bar.get_x() > 0.5)
    ]
    assert tops == [12, 6]  # execution time; I/O time is a second less
    rest = [bar for bar in times.patches if bar.get_height() == 1]
    assert [bar.get_y() for bar in rest] == [11, 11, 5, 5]
    assert drawn_opens(figure) == {names[0]: 16, "pinning": 8}
    solid = [line for line in savings.get_lines() if line.get_marker() == "s"]
    # Staging is an epoch of the reference; each epoch then saves 6 s.
    assert solid[0].get_ydata().tolist() == [-12, -6, 0]


def test_loaders_are_drawn_in_the_order_of_their_authors(compared):
    files = compared[0][compared[0]["policy"] == "none"]
    others = [
        files.assign(loader=loader, policy="pinning", gfs_opens=2)
        for loader in ("lmdbio-lmm-dio", "lmdb", "lmdbio-lmm")
    ]
    table = pd.concat([files, *others], ignore_index=True)
    names = ["posix", "lmdb", "lmdbio-lmm", "lmdbio-lmm-dio"]
    assert in_order(table["loader"]) == names
    figure = plot_loaders(table, provenance=TESTS)
    opens = figure.axes[1].get_lines()[0]
    assert opens.get_xdata().tolist() == [8, 2, 2, 2]
    notes = " ".join(figure.get_supxlabel().split())
    assert "page cache has no queue" in notes
    assert "only whole blocks are distributed" in notes
