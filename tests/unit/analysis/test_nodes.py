import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.comparing.policies import add_up, compare_epochs
from tierscope.analysis.nodes import (
    count_switches,
    hit_law,
    per_record,
    save_by_epoch,
    save_up_to,
)
from tierscope.core.columns import LATER, LATER_VALUES, TABLES
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table, empty_table
from tierscope.data.shuffle import epoch_files
from tierscope.figures.comparing.nodes import plot_nodes, summary_text

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
MONARCH = {"policy": "monarch", "cache_rate_percent": 50}
CLASSES = ("gfs_meta", "gfs_read", "lfs_meta", "lfs_read")


def tables_of(hits, time_s, n_nodes=1, **keys):
    """Return io_time and epochs of a run of two processes, 50 files each an epoch."""
    io_time, epochs = [], []
    keys = RUN | {"system": f"small+nodes{n_nodes}"} | keys
    for epoch, n_hits in enumerate(hits):
        for rank in (0, 1):
            for io_class in CLASSES:
                n_files = n_hits if io_class.startswith("lfs") else 50 - n_hits
                io_time.append(
                    keys
                    | {
                        "epoch": epoch,
                        "rank": rank,
                        "io_class": io_class,
                        "time_s": n_files * io_class.startswith("gfs") / 100,
                        "operations": n_files,
                        "bytes": 0,
                    }
                )
            row = (
                {name: 0 for name in TABLES["epochs"]}
                | LATER
                | LATER_VALUES["epochs"]
                | keys
            )
            row |= {"rank": rank, "epoch": epoch, "samples": 50}
            row |= {"node": rank * (n_nodes - 1), "execution_time_s": time_s[epoch]}
            epochs.append(row | {"lfs_fill_time_s": 0.0})
    return (
        check_table(pd.DataFrame(io_time), "io_time"),
        check_table(pd.DataFrame(epochs), "epochs"),
    )


@pytest.fixture
def tables():
    """Return policy_epochs and policy_totals: half of the files fit, f = 1/2."""
    runs = [
        tables_of([0, 0, 0], [1.0, 1.0, 1.0]),
        tables_of([0, 25, 25], [1.0, 0.8, 0.8], **MONARCH),
        tables_of([0, 0, 0], [1.0, 1.0, 1.0], repetition=1),
        tables_of([0, 25, 25], [1.0, 1.0, 0.8], repetition=1, **MONARCH),
        tables_of([0, 0, 0], [1.0, 1.0, 1.0], n_nodes=2),
        tables_of([0, 20, 24], [1.0, 1.0, 0.8], n_nodes=2, **MONARCH),
    ]
    io_time, epochs = (
        pd.concat(part, ignore_index=True) for part in zip(*runs, strict=True)
    )
    policy_epochs = compare_epochs(io_time, epochs)
    return policy_epochs, add_up(policy_epochs, epochs)


def faults_of(loader, n_nodes, voluntary, involuntary, **keys):
    """Return table faults with keys: two processes, two epochs, half in each."""
    rows = [
        RUN
        | {"system": f"small+nodes{n_nodes}", "policy": "pinning", "loader": loader}
        | {"rank": rank, "epoch": epoch, "access_time_s": 0.5, "major_faults": 0}
        | {"minor_faults": 7, "voluntary_switches": voluntary // 4}
        | {"involuntary_switches": involuntary // 4}
        | keys
        for rank in (0, 1)
        for epoch in (0, 1)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def switches():
    runs = [("lmdb", 1, 400, 40), ("lmdb", 2, 400, 20), ("lmdbio-lmm", 1, 400, 20)]
    runs.append(("lmdbio-lmm", 2, 400, 20))
    faults = pd.concat([faults_of(*run) for run in runs])
    epochs = pd.concat(
        tables_of([0, 0], [1.0, 1.0], n_nodes, policy="pinning", loader=loader)[1]
        for loader, n_nodes, *_ in runs
    )
    return check_table(count_switches(faults, epochs), "node_switches")


def test_one_node_finds_all_that_fits_from_the_second_epoch_on():
    assert hit_law(1, np.arange(4), 0.5).tolist() == [0, 0.5, 0.5, 0.5]


def test_several_nodes_see_the_rest_of_the_files_epoch_by_epoch():
    assert hit_law(4, np.arange(4), 0.5).tolist() == [0, 0.25, 0.4375, 0.5]
    assert hit_law(2, np.arange(3), 1).tolist() == [0, 0.5, 0.75]


@pytest.mark.parametrize("n_nodes", [1, 2, 4, 8])
def test_law_is_that_of_the_shuffle(n_nodes):
    """Room is for all, so hits are the files that the node has read before."""
    n_files, seen, hits = 4096, [set() for _ in range(n_nodes)], []
    for epoch in range(4):
        seeds = {"shuffle": "global", "seed": 1, "repetition": 0, "epoch": epoch}
        parts = [
            set(epoch_files(n_files, node, n_nodes, **seeds).tolist())
            for node in range(n_nodes)
        ]
        found = sum(len(part & old) for part, old in zip(parts, seen, strict=True))
        hits.append(found / n_files)
        seen = [old | part for part, old in zip(parts, seen, strict=True)]
    tolerance = 1e-12 if n_nodes == 1 else 0.03
    assert hits == pytest.approx(hit_law(n_nodes, np.arange(4), 1.0), abs=tolerance)


def test_saved_reads_of_each_epoch_are_counted_beside_the_law(tables):
    table = check_table(save_by_epoch(*tables), "node_epochs")
    one, two = (part for _, part in table.groupby("n_nodes"))
    assert one["saved_percent"].tolist() == [0, 50, 50]
    assert one["law_percent"].tolist() == [0, 50, 50]
    assert one["reference_gfs_reads"].tolist() == [200] * 3  # of two repetitions
    assert one["n_repetitions"].tolist() == [2] * 3
    assert two["saved_percent"].tolist() == pytest.approx([0, 40, 48])
    assert two["law_percent"].tolist() == [0, 50, 50]


def test_reads_of_copies_are_not_saved(tables):
    policy_epochs, totals = tables
    copied = policy_epochs.assign(background_gfs_reads=0)
    is_monarch = copied["policy"] == "monarch"
    copied.loc[is_monarch & (copied["epoch"] == 0), "background_gfs_reads"] = 50
    table = save_by_epoch(copied, totals)
    assert table["saved_percent"].tolist()[0] == -50
    check_table(table, "node_epochs")


def test_time_and_operations_saved_add_up_over_the_epochs(tables):
    table = check_table(save_up_to(tables[1]), "node_savings").set_index(
        ["n_nodes", "n_epochs"]
    )
    assert table.loc[(1, 3), "time_cut_percent"] == pytest.approx(10)  # 2.6, 2.8 of 3
    half = 12.7062 * 10 / 3  # t of one degree of freedom, for 13.3 and 6.7 %
    assert table.loc[(1, 3), "time_cut_high_percent"] == pytest.approx(10 + half)
    assert table.loc[(1, 3), "gfs_operations_cut_percent"] == pytest.approx(100 / 3)
    assert table.loc[(1, 3), "law_percent"] == pytest.approx(100 / 3)  # f (E - 1) / E
    assert table.loc[(1, 2), "law_percent"] == pytest.approx(25)
    assert table.loc[(1, 2), "io_time_cut_percent"] == pytest.approx(25)
    assert table.loc[(1, 2), "io_time_cut_low_percent"] == pytest.approx(25)
    assert np.isnan(table.loc[(2, 3), "time_cut_low_percent"])


def test_context_switches_are_summed_over_processes_and_epochs(switches):
    table = per_record(switches).set_index(["loader", "processes_per_node"])
    assert table["records"].tolist() == [200] * 4
    rates = table["involuntary_switches_per_record"]
    assert rates["lmdb", 2] == pytest.approx(0.2)
    assert rates["lmdb", 1] == rates["lmdbio-lmm", 2] == pytest.approx(0.1)
    assert table.loc[("lmdb", 2), "minor_faults"] == 28


def figure_of(tables, switches):
    stated = [
        {"of": "time", "percent": 28, "where": "TensorFlow"},
        {"of": "gfs_operations", "percent": 56, "where": "TensorFlow"},
    ]
    return plot_nodes(
        save_by_epoch(*tables),
        save_up_to(tables[1]),
        switches,
        stated,
        provenance=Origin("emulated, tests"),
    )


def test_figure_shows_points_law_and_what_the_paper_states(tables, switches):
    figure = figure_of(tables, switches)
    epochs, time, operations, waits = figure.axes
    points = {line.get_label(): line for line in epochs.lines}
    assert points["1 node"].get_ydata().tolist() == [0, 50, 50]
    assert points["1 node"].get_xdata().tolist() == [1, 2, 3]
    assert points["2 nodes"].get_ydata().tolist() == pytest.approx([0, 40, 48])
    heights = [bar.get_height() for bar in time.patches]
    assert heights == pytest.approx([10, 20 / 3])  # three epochs are all
    stated = {
        line.get_ydata()[0]: line.get_label().replace("\n", " ")
        for ax in (time, operations)
        for line in ax.lines
        if "Monarch paper" in line.get_label()
    }
    place = "Monarch paper, one node of another machine: TensorFlow"
    assert stated == {28: f"28 %: {place}", 56: f"56 %: {place}"}
    (marks,) = [line for line in operations.lines if line.get_label() == "by the law"]
    assert marks.get_ydata().tolist() == pytest.approx([100 / 3, 100 / 3])
    (marks,) = [line for line in time.lines if "I/O time" in line.get_label()]
    assert marks.get_ydata().tolist() == pytest.approx([100 / 3, 44 / 1.5])
    labels = waits.get_legend_handles_labels()[1]
    assert labels == [
        f"{loader}, {kind}"
        for loader in ("lmdb", "lmdbio-lmm")
        for kind in ("voluntary", "involuntary")
    ]


def test_page_faults_that_waited_are_counted(tables, switches):
    text = summary_text(
        save_up_to(tables[1]),
        save_by_epoch(*tables),
        switches.assign(major_faults=3),
        provenance=TESTS,
    )
    assert "12 page faults waited for the device" in text


def test_emulated_devices_report_no_switches_and_that_is_said(tables):
    none = empty_table("faults").assign(**RUN)
    epochs = tables_of([0, 0], [1.0, 1.0], 1, policy="pinning", loader="lmdb")[1]
    switches = check_table(count_switches(none, epochs), "node_switches")
    assert switches.empty
    figure = figure_of(tables, switches)
    notes = figure.get_supxlabel().replace("\n", " ")
    assert "Context switches are not reported" in notes
    (words,) = figure.axes[3].texts
    assert words.get_text() == "not reported on emulated devices"
    text = summary_text(
        save_up_to(tables[1]),
        save_by_epoch(*tables),
        switches,
        provenance=TESTS,
    )
    assert text.count("Context switches") == 1


def test_summary_has_a_line_for_each_number_of_nodes(tables, switches):
    text = summary_text(
        save_up_to(tables[1]),
        save_by_epoch(*tables),
        switches,
        provenance=Origin("emulated, tests"),
        notes=["Copies failed: 4 of monarch."],
    )
    words = ("Source: emulated, tests", "Copies failed: 4 of monarch.", "tiny da")
    for line, start in zip(text.splitlines(), words, strict=False):
        assert line.startswith(start)
    assert "\ntiny dataset, 1 OST, loader posix\n" in text
    assert "\n    1       3   ?10.0 ± 42.4     33.3 ± 0.0  " in text
    assert "\n    2       3           ?6.7          ?29.3  " in text
    assert "n = 2; where n = 1 no interval. ?: undecided" in " ".join(text.split())
    assert "by law\n" in text
    assert "GFS reads saved in epochs 1 to 3 (by law), %\n" in text
    assert " 1 node:  0.00 (0.00)  50.00 (50.00)  50.00 (50.00)" in text
    assert "lmdb                  2      2.000       0.2000             0" in text


def test_summary_has_no_negative_zero(tables, switches):
    savings, epochs = save_up_to(tables[1]), save_by_epoch(*tables)
    text = summary_text(
        savings.assign(gfs_operations_cut_percent=-0.001),
        epochs.assign(saved_percent=-0.001),
        switches,
        provenance=TESTS,
    )
    assert " 0.00 (0.00)" in text
    assert "-0.0" not in text
