"""The answer in three sentences, of hand-made tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
from design_tables import COST, HOURLY, designs, inputs, row, servers
from tierscope.analysis.designs.answer import Answer, storage_names, value_words
from tierscope.data.costs import Cost


def sentences(table, *changes, cost=COST):
    return Answer(table, inputs(*changes), cost, {}).sentences()


def test_the_answer_can_be_read_aloud():
    table = designs(
        row(80, object_servers=2, lfs_devices=1, placement="adhoc", limit="gfs_read"),
        row(92, 90, 94, object_servers=4, lfs_devices=2, placement="adhoc"),
    )
    assert sentences(table, ("gfs.read_latency_s", 1, -1, 1)) == [
        "Buy 4 object servers, 2 devices a node: this feeds 8 accelerators at an AU of "
        "92.0 % (90.0 to 94.0) for 430 EUR, all object servers and LFS devices "
        "included; the next cheaper design (2 object servers, "
        "1 device a node) misses by 10.0 points.",
        "GFS-READ limits the next cheaper design.",
        "Measure gfs.read_latency_s (assumed, 0.00100 s to 0.00400 s) next: it would "
        "change the choice.",
    ]


def test_what_is_undecided_is_named():
    table = designs(row(91, 88, 94), row(95, 93, 97, object_servers=2))
    first, *_ = sentences(table)
    assert first.endswith("; 1 cheaper one is undecided (first 1 object server).")
    first, *_ = sentences(table[table["design"] == 0])
    assert first == (
        "No design of the study surely meets the goal; 1 cheaper one is undecided "
        "(first the storage as it is)."
    )


def test_the_next_number_says_what_limits_the_chosen():
    keys = {"linear": 95.0}
    table = designs(row(95, **keys), row(60, n_accelerators=16, limit="gfs_meta"))
    first, second, third = sentences(table, cost=Cost())
    assert first == (
        "Take the storage as it is: this feeds 8 accelerators at an AU of 95.0 % "
        "(simulated once, no interval)."
    )
    assert second == "GFS-META limits 16 accelerators."
    assert third == "Whether an input would change the choice was not asked."


def test_one_simulation_of_a_calibration_says_what_it_leaves_out():
    calibrated = inputs(("gfs.open_s", 0, 0, 0)).assign(origin="calibrated")
    answer = Answer(designs(row(95)), calibrated, Cost(), {})
    words = "simulated once, no interval, without the calibration's uncertainty)."
    assert answer.sentences()[0].endswith(words)
    drawn = replace(answer, table=designs(row(95, 94, 96)))
    assert "once" not in drawn.sentences()[0]


def test_workloads_are_told_apart():
    table = servers(80, 95).assign(share=0.5)
    other = table.assign(workload="other", goal_value=60.0, verdict="meets")
    first, *_ = sentences(pd.concat([table, other], ignore_index=True))
    assert (
        "8 accelerators, net at an AU of 95.0 % and other at an AU of 95.0 %" in first
    )
    assert first.endswith("(1 object server) misses by 10.0 points (net).")


def test_no_input_may_change_the_choice():
    *_, last = sentences(servers(80, 95), ("gfs.read_latency_s", 1, 1, 1))
    assert last.startswith("No input of those asked changes the choice")


def test_bounds_and_times_have_words_of_their_own():
    bound = {"known_by": "bound", "verdict": "misses"}
    au = row(**bound, utilisation_high_percent=70.0)
    assert value_words(au) == "an AU of at most 70.0 %"
    time = {"goal": "io_time_s", "goal_value": 4.0}
    assert value_words(row(**bound, **time, io_time_low_s=5.0)) == (
        "an I/O time of at least 5.0 s"
    )
    found = row(verdict="meets", io_time_s=3.5, io_time_low_s=3.0, **time)
    assert value_words(found) == "an I/O time of 3.5 s (3.0 to 3.5)"


def test_storages_are_named_by_what_varies():
    table = designs(
        row(50, placement="none", n_lfs_devices=0, lfs_gib=2000.0),
        row(50, n_links=2, lfs_gib=1000.0, metadata_speed=2.0),
    )
    assert storage_names(table).tolist() == [
        "1 link, 1 x the metadata service, nothing on the nodes",
        "2 links, 2 x the metadata service, 1,000 GiB a device, a copy on each node",
    ]
    rates = designs(row(50), row(50, cache_rate_percent=20))
    assert storage_names(rates).tolist() == [
        "a cache rate of 0 %",
        "a cache rate of 20 %",
    ]
    follows = designs(row(50), row(50, n_accelerators=16, cache_rate_percent=20))
    assert set(storage_names(follows)) == {"the storage as it is"}


def test_what_comes_with_accelerators_is_not_chosen():
    rows = [
        row(au, n_accelerators=8 * n, n_links=n, cache_rate_percent=rate, n_nodes=n)
        for n, au in ((1, 99), (2, 95), (4, 60))
        for rate in (0, 50)
    ]
    table = designs(*rows)
    assert set(storage_names(table)) == {"a cache rate of 0 %", "a cache rate of 50 %"}
    first, *_ = sentences(table, cost=Cost())
    assert first == (
        "Take a cache rate of 0 %: this feeds 16 accelerators at an AU of 95.0 % "
        "(simulated once, no interval)."
    )


def test_the_front_is_of_the_simulated_and_of_each_storage_once():
    table = servers(50, 80, 70, 95)
    answer = Answer(table, inputs(), COST, {})
    assert answer.front == [0, 1, 3]
    table.loc[1, ["known_by", "utilisation_percent"]] = ["bound", np.nan]
    assert Answer(table, inputs(), COST, {}).front == [0, 2, 3]


def test_if_nothing_meets_the_nearest_design_is_named():
    first, second, _ = sentences(servers(70, 85, 80, limit="gfs_read"))
    assert first == (
        "No design of the study surely meets the goal; the nearest design (2 object "
        "servers) misses by 5.0 points."
    )
    assert second == "GFS-READ limits the nearest design."


def test_with_the_price_of_an_hour_the_useful_hour_chooses_and_it_is_said():
    first, *_ = sentences(servers(91, 99), cost=HOURLY)
    assert (
        " for 230 EUR, all object servers and LFS devices "
        "included, chosen by the price of a useful" in first
    )
    assert "accelerator-hour (2.05 EUR)" in first


def test_a_price_says_what_it_includes_and_reads_aloud():
    rows = [row(95, placement=one, object_servers=4) for one in ("none", "pinning")]
    rows[0]["n_lfs_devices"] = 0
    first, *_ = sentences(designs(*rows))
    assert first == (
        "Put nothing on the nodes: this feeds 8 accelerators at an AU of 95.0 % "
        "(simulated once, no interval) for 400 EUR, all object servers included; "
        "it is the cheapest of the study."
    )


def test_what_limits_is_left_out_if_it_was_not_asked():
    assert len(sentences(servers(80, 95))) == 2


def test_the_least_of_the_mosts_of_workloads_is_told():
    rows = [row(95, n_accelerators=n) for n in (8, 16, 24)]
    net = designs(*rows, share=0.5)
    other = net.assign(workload="other", n_accelerators=[8, 20, 32], design=[0, 3, 4])
    table = pd.concat([net, other], ignore_index=True)
    first, *_ = sentences(table)
    assert "up to 24 by the least of each workload's most for" in first
