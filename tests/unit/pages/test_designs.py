"""The page of designs, of hand-made tables; tests/explorer opens it in a browser."""

import pandas as pd
from design_tables import COST, designs, inputs, row, servers
from pages import Page, embedded
from tierscope.analysis.designs.answer import Answer
from tierscope.data.costs import Cost
from tierscope.pages.designs import build_designs

SOURCES = {"net": "made up.", "other": "made up."}


def built(table, *changes, cost=COST, limits=None, title="What to buy"):
    answer = Answer(table, inputs(*changes), cost, limits or {})
    return build_designs(answer, title, SOURCES, "made up, devices: declared")


def test_designs_are_embedded_with_numbers_and_words():
    first, second = embedded(built(servers(80, 95)))["designs"]
    assert first["object_server"] == 1
    assert (first["value"], first["margin"], first["verdict"]) == (80, -10, "misses")
    assert first["missed"] == "10.0 points"
    assert (second["name"], second["linear"]) == ("2 object servers", None)
    assert second["fed"] == "8 accelerators at an AU of 95.0 %"


def test_prices_and_limits_are_fields_and_empty_if_not_given():
    page = built(servers(80, 95), limits={"watts": 25})
    assert (
        'name="object_server.price" aria-label="object_server.price" value="100"'
        in page
    )
    assert 'name="link.price" aria-label="link.price" value=""' in page
    assert 'name="limit.watts" aria-label="limit.watts" value="25"' in page
    assert "node.price_per_gib" not in page
    assert 'name="hours" aria-label="hours" value=""' in built(servers(80), cost=Cost())


def test_what_to_measure_next_is_told_with_origins():
    changes = [("gfs.read_latency_s", 1, 0, -1), ("lfs.request_s", 1, 1, 1)]
    text = Page(built(servers(80, 95), *changes)).text
    assert "gfs.read_latency_s of net is assumed (0.00200 s). The choice" in text
    assert "No change by lfs.request_s (assumed)." in text


def test_most_accelerators_are_told_of_each_workload():
    table = designs(row(95), row(80, n_accelerators=16, limit="gfs_read"))
    other = table.assign(workload="other")
    text = Page(built(pd.concat([table, other], ignore_index=True))).text
    assert text.count("the storage as it is: 8 accelerators at an AU of 95.0 %") == 2
    assert "GFS-READ limits 16: an AU of 80.0 %" in text
    assert "Workload other" in text


def test_texts_of_a_configuration_stay_texts():
    page = built(servers(80, 95), title="<script>alert(1)</script>")
    assert "<script>alert" not in page
