"""The report's words and tables from small frames, and its page."""

import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import docutils.utils
import jinja2
import pandas as pd
import pytest
from tierscope.analysis.breakdown import (
    break_down,
    epoch_times,
    spread_over_repetitions,
)
from tierscope.analysis.search import Search, search_combinations
from tierscope.analysis.training.limit import decide_limits
from tierscope.analysis.whatif import estimate, make_goal
from tierscope.core.columns import CLASS_TIMES, SCENARIO, SCENARIO_KEYS, TABLES, TEXT
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table, with_later_columns
from tierscope.core.words import UNKNOWN
from tierscope.pages.document import Picture, caption_html, render
from tierscope.pages.report.facts import (
    ReportedRun,
    devices_table,
    differences_table,
    setting_words,
)
from tierscope.pages.report.page import About, report_context
from tierscope.pages.report.runs import runs_table

WORKFLOW = Path(__file__).parents[4] / "workflow"
TEMPLATE = "report.html.j2"
NAN = float("nan")
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><g id="a"/></svg>'
# Of the only process; sums 4, 2, 3 s.
SECONDS = {0: (0, 4, 0, 0), 50: (0, 1, 1, 0), 100: (0, 0, 3, 0)}
DEVICES = {
    "gfs": {"open_s": 2.9e-05, "ost_bandwidth_bytes_per_s": 1610612736},
    "lfs": {"request_bytes": 131072, "request_s": 0.0009, "latency_s": 0.0035},
    "n_processes": 3072,
}


def scenario_of(**changes):
    scenario = {
        "source": "measured",
        "system": "cluster",
        "dataset": "small",
        "n_osts": 60,
        "policy": "pinning",
        "loader": "posix",
    }
    return scenario | changes


def io_time_of(n_repetitions=1, n_epochs=2, **changes):
    """Return SECONDS, of which a repetition takes 50 % more than the one before."""
    rows = [
        scenario_of(**changes)
        | {
            "cache_rate_percent": rate,
            "repetition": repetition,
            "epoch": epoch,
            "rank": 0,
            "io_class": str(io_class),
            "time_s": time_s * 1.5**repetition,
            "operations": 1,
            "bytes": 0,
        }
        for rate, times_s in SECONDS.items()
        for repetition in range(n_repetitions)
        for epoch in range(n_epochs)
        for io_class, time_s in zip(IOClass, times_s, strict=True)
    ]
    return check_table(pd.DataFrame(rows), "io_time")


def run_of(scenario, rate, repetition, **changes):
    """Return what `run.json` holds of a run."""
    emulated = scenario["source"] == "emulated"
    tier = {"kind": "directory", "root": "scratch/x", "n_osts": None, "pools": None}
    dataset = {"name": "small", "n_files": 768, "file_size_bytes": 131072}
    run = {
        "point": {"cache_rate_percent": rate, "repetition": repetition},
        "source": scenario["source"],
        "system": {
            "name": scenario["system"],
            "n_nodes": 1,
            "processes_per_node": 1,
            "virtual_nodes": False,
            "gfs": {"name": "gfs", **tier},
            "lfs": {"name": "lfs", **tier},
            "emulation": {"model_of": "fugaku"} if emulated else None,
            "devices": DEVICES if emulated else None,
        },
        "dataset": {**dataset, "batch_size": 48},
        "scenario": {
            key: scenario[key] for key in ("dataset", "n_osts", "policy", "loader")
        },
        "training": {"epochs": 2, "shuffle": "global", "seed": 7, "compute_time_s": 0},
        "loader": {"read_threads": 1, "buffer_bytes": 262144, "prefetch_batches": 2},
        "darshan": {"runtime": "builtin"},
        "tier_roots": {},
        "n_processes": 1,
        "scheduler_job": None,
        "started": f"2026-11-21T10:{rate // 10:02}:00+00:00",
        "finished": f"2026-11-21T10:{rate // 10:02}:30+00:00",
        "tracer": {"runtime": "builtin", "library": "/x/y.so"},
        "emulation": {"devices": []} if emulated else None,
        "versions": {"python": "3.11.7"},
    }
    return run | changes


def simulated(io_time):
    """Return the arguments of a report about simulated runs."""
    scenario = io_time[list(SCENARIO_KEYS)].iloc[0].to_dict()
    content = run_of(scenario, 0, 0)
    for key in ("point", "n_processes", "started", "finished", "tracer", "emulation"):
        del content[key]
    content["system"] |= {"n_nodes": 768, "processes_per_node": 4}
    content["system"]["devices"] = {
        "origin": "reconstructed",
        "gfs": DEVICES["gfs"],
        "lfs": DEVICES["lfs"],
        "simulation": {"gfs_links": 4, "lfs_open_s": 9e-6, "service_cv": 1.35},
        "sources": {"gfs": {"open_s": "fitted"}, "simulation": {"gfs_links": "paper"}},
    }
    return {"runs": [], "simulations": [content]}


def audit_of(passed=True):
    ratio = {"name": "ratio", "passed": passed, "got": "1.4", "expected": "1.02"}
    reads = {"name": "reads", "passed": True, "got": "768", "expected": "768"}
    return {"passed": passed, "checks": [reads, ratio]}


def runs_of(io_time):
    """Return all runs of a table, passed."""
    keys = io_time[[*SCENARIO_KEYS, "cache_rate_percent", "repetition"]]
    return [
        ReportedRun(
            run_of(key, key["cache_rate_percent"], key["repetition"]), audit_of()
        )
        for key in keys.drop_duplicates().to_dict("records")
    ]


def claims_of(source):
    """Return a table of one claim that holds."""
    row = {name: "" if kind == TEXT else 1 for name, kind in TABLES["claims"].items()}
    row |= {"source": source, "claim": "C1", "status": "holds", "fitted": "no"}
    return check_table(pd.DataFrame([row]), "claims")


def search_of(io_time):
    """Return goals, 75 % of the best I/O time, and the combinations that meet them."""
    found = [
        search_combinations(
            rows,
            make_goal(rows, percent_of_best=75),
            Search(100, 50, dict.fromkeys(IOClass, 1), dataset_bytes=96 << 20),
        )
        for _, rows in io_time.groupby([*SCENARIO_KEYS, "epoch"])
    ]
    return tuple(pd.concat(parts) for parts in zip(*found, strict=True))


def context_of(io_time, runs=None, epoch=0, **changes):
    """Return the context of a report; execution time is 1 s more than I/O time."""
    execution = io_time.groupby(list(io_time.columns[:10]), as_index=False)["time_s"]
    epochs = execution.sum().rename(columns={"time_s": "execution_time_s"})
    epochs["execution_time_s"] += 1
    goals, combinations = search_of(io_time)
    breakdown = break_down(io_time)
    about = {
        "experiment": "first",
        "description": "A cluster",
        "origin": Origin("measured, system cluster"),
        "epoch": epoch,
        "scene": {"dataset": "small", "n_osts": 60, "loader": "posix"},
        "dataset_titles": {"small": "128 KiB files"},
        "paper": "A paper",
    }
    arguments = {
        "runs": runs_of(io_time) if runs is None else runs,
        "pictures": [Picture("fig1", "Figure 1", SVG, "**Look.**\n\n- There.")],
        "captions": {"scorecard": "Claims.", "explorer": "Sliders."},
    }
    tables = {
        "breakdown": breakdown,
        "limits": decide_limits(breakdown, None, None, epoch, may_hide=False),
        "spread": spread_over_repetitions(epoch_times(epochs, io_time), 10),
        "goals": goals,
        "combinations": combinations,
        "claims": claims_of(io_time["source"].iloc[0]),
    }
    of_about = {one.name for one in fields(About)}
    about |= {name: changes[name] for name in changes if name in of_about}
    tables |= {name: changes[name] for name in changes if name in TABLES}
    arguments |= {
        name: changes[name]
        for name in changes
        if name not in of_about and name not in TABLES
    }
    return report_context(About(**about), tables, **arguments)


def test_page_begins_with_the_answer():
    context = context_of(io_time_of(2))
    page = render(TEMPLATE, context)
    limit, _, sure = context["answer"]
    assert limit.startswith("At cache rate 50 % (policy pinning) GFS-META is the")
    assert sure.startswith("All this is measured on this storage; with 2 launches")
    before, after = page.split('<p class="answer">')
    assert "<p" not in before.split("<h1>")[1]
    assert after.startswith(" ".join(context["answer"])[:60])


@pytest.mark.parametrize(("n_workers", "is_said"), [(2, True), (1, False)])
def test_io_time_of_several_workers_is_called_their_sum(n_workers, is_said):
    io_time = io_time_of(loader="pytorch")
    settings = {"buffer_bytes": 0, "workers": n_workers, "prefetch_factor": 2}
    runs = [
        replace(one, run=one.run | {"loader": settings}) for one in runs_of(io_time)
    ]
    text = Page(render(TEMPLATE, context_of(io_time, runs))).text
    assert ("I/O time is the sum over the workers of a process" in text) == is_said
    assert ("execution time times the workers of a process" in text) == is_said


def storage_of(io_time, storage_s, half_s, compute_s):
    """Return table `storage_time` of epochs of 10 s."""
    points = io_time[[*SCENARIO_KEYS, "cache_rate_percent", "epoch"]].drop_duplicates()
    values = {"execution_time_s": 10.0, "ideal_time_s": 10.0 - storage_s}
    values |= {"storage_s": storage_s, "storage_interval_s": half_s}
    values |= {"other_s": 0.0, "ideal_other_s": 0.0, "beside_s": 0.0}
    values |= dict.fromkeys(("utilisation_percent", "ideal_utilisation_percent"), NAN)
    table = points.assign(**values, compute_time_s=compute_s, n_repetitions=3)
    return with_later_columns(table.assign(other_io="", beside_io=""), "storage_time")


@pytest.mark.parametrize(
    ("storage", "may_hide", "said", "not_said"),
    [
        (
            (0.2, 0.2, 8.0),
            True,
            ["computation at 0 to 100 % (storage", "none: storage does not limit"],
            ["60 OSTs GFS-META at", "ndecided at", "LFS-READ +100 %"],
        ),
        (
            (0.2, 3.0, 8.0),
            True,
            [
                "undecided at 0 to 50 % (GFS-META if",
                "only if storage limits: undecided",
            ],
            ["60 OSTs GFS-META at", "none: storage does not"],
        ),
        (
            None,
            True,
            ["undecided at 0 to 50 % (GFS-META if", "only ideal runs tell, by --ideal"],
            [
                "60 OSTs GFS-META at",
                "none: storage does not",
                "No model tells",
            ],
        ),
        (
            (0.2, 0.2, NAN),  # not known with such a policy
            False,
            ["processor at 0 to 100 % (storage", "The processor may take most of"],
            ["omputation", "No model tells", "60 OSTs GFS-META at", "LFS-READ +100 %"],
        ),
        (
            None,
            False,
            ["60 OSTs GFS-META at 0 to 50 % LFS-READ at 100 %", "LFS-READ +100 %"],
            ["ndecided", "may hide", "No model tells", "ideal run"],
        ),
    ],
    ids=[
        "no limit",
        "undecided",
        "program without ideal runs",
        "computes nothing",
        "paper",
    ],
)
def test_the_report_names_and_recommends_as_far_as_storage_limits(
    storage, may_hide, said, not_said
):
    io_time = io_time_of()
    table = None if storage is None else storage_of(io_time, *storage)
    limits = decide_limits(break_down(io_time), table, None, 0, may_hide)
    changes = {"limits": limits, "storage_time": table}
    if may_hide and table is None:  # a program
        none = pd.DataFrame(columns=list(TABLES["statements"]))
        changes |= {"claims": None, "statements": none}
    text = Page(page_of(io_time, **changes)).text
    assert [words for words in said if words not in text] == []
    assert [words for words in not_said if words in text] == []


def test_lack_of_fit_of_the_model_stands_above_its_estimates():
    said = {"calibration": "all-osts", "lack_of_fit": "It does not describe this."}
    page = page_of(io_time_of(), calibration=pd.DataFrame([said]))
    words = "Calibration all-osts of the model: It does not describe this."
    assert words in Page(page).text
    untested = pd.DataFrame([said | {"lack_of_fit": ""}])
    assert "of the model:" not in Page(page_of(io_time_of(), calibration=untested)).text


def test_what_other_papers_say_stands_beside_what_is_found():
    claim = {
        "claim": "P1",
        "paper": "Somebody",
        "statement": "It is faster.",
        "stated": "up to 28 %",
        "here": "30 %",
        "details": "7 instead of 10 s",
        "status": "holds",
        "not_comparable": "The machine.",
    }
    others = ("does not hold", "undecided", "not measurable here")
    claims = pd.DataFrame([claim, *({**claim, "status": status} for status in others)])
    text = Page(page_of(io_time_of(), policy_claims=claims)).text
    assert "P1: It is faster. (Somebody)" in text
    assert "30 % 7 instead of 10 s" in text
    assert "\N{CHECK MARK} holds" in text
    assert "\N{MULTIPLICATION X} does not hold" in text
    assert "? undecided" in text
    assert "\N{EN DASH} not measurable here" in text
    assert "What other papers say" not in Page(page_of(io_time_of())).text


def page_of(io_time, **arguments):
    return render(TEMPLATE, context_of(io_time, **arguments))


class Page(HTMLParser):
    """Text, ids and addresses of a page; every tag has to be closed in its order."""

    VOID = ("meta", "link", "img", "br", "i")

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.links, self.words = [], [], [], []
        self.feed(page)
        self.close()
        self.text = re.sub(r"\s+", " ", "".join(self.words))
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[key] for key in ("href", "src") if key in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def test_the_summary_says_what_limits_where_and_what_is_cheapest_to_buy():
    """75 % of 2 s is 1.5 s: at 50 % META or READ +100 %, one step less of both fails.

    META +50 % and READ +50 % give 1.33 s at the same cost of 100; of equal costs and
    cache rates the smallest improvement of the first class wins.
    """
    (row,) = context_of(io_time_of())["summary"].to_dict("records")
    row["Limited by"] = row["Limited by"].replace("\N{NO-BREAK SPACE}", " ")
    assert row == {
        "Scenario": "128 KiB files, 60 OSTs",
        "Limited by": "GFS-META at 0 to 50 %\nLFS-READ at 100 %",
        "Best cache rate (%)": "50\n(one repetition, no interval)",
        "I/O time there (s)": "2.00",
        "I/O time without LFS (s)": "4.00",
        "Goal (s of I/O time)": "1.50",
        "Cheapest improvement that meets it": (
            "LFS-READ +100 %\n2 other minimal ones cost as much"
        ),
        "Least cache rate then (%)": "50",
        "LFS per node then (GiB)": "0.0469",
    }


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.0, "1.50 at 50 %\nmeets the goal"), (1.1, "1.65 at 50 %\n⚠ misses the goal")],
)
def test_the_model_is_heard_on_the_cheapest_improvement(factor, expected):
    """LFS-READ +100 % makes 1.5 s of 2 s by the rule, and by the model that much."""
    io_time = io_time_of()
    by_model = estimate(io_time, [{}, {"lfs_read": 100}], [0]).assign(method="model")
    for column in ("io_time_s", *CLASS_TIMES):
        by_model[column] *= factor
    (row,) = context_of(io_time, estimates=by_model)["summary"].to_dict("records")
    assert row["Best I/O time then by the model (s)"] == expected


@pytest.mark.parametrize("improvement", [{}, {"gfs_meta": 50}])
def test_a_model_that_was_not_asked_about_it_says_nothing(improvement):
    io_time = io_time_of()
    by_model = estimate(io_time, [improvement], [0]).assign(method="model")
    (row,) = context_of(io_time, estimates=by_model)["summary"].to_dict("records")
    assert "Best I/O time then by the model (s)" not in row


def test_a_goal_that_nothing_meets_leaves_no_cheapest_improvement():
    none = pd.DataFrame(columns=list(TABLES["combinations"]))
    context = context_of(io_time_of(), combinations=none)
    (row,) = context["summary"].to_dict("records")
    assert context["goal"] == "I/O time"
    assert row["Goal (s of I/O time)"] == "1.50"
    assert row["Cheapest improvement that meets it"] == "none of those searched"
    assert row["Least cache rate then (%)"] == UNKNOWN


def test_a_scenario_that_was_not_run_without_lfs_or_searched_has_gaps():
    io_time = io_time_of()
    io_time = io_time[io_time["cache_rate_percent"] > 0]
    nothing = pd.DataFrame(columns=TABLES["goals"])
    (row,) = context_of(io_time, goals=nothing)["summary"].to_dict("records")
    assert row["I/O time without LFS (s)"] == UNKNOWN
    assert row["Goal (s)"] == UNKNOWN


def test_time_without_lfs_may_be_that_of_another_policy():
    pinned = io_time_of()
    pinned = pinned[pinned["cache_rate_percent"] > 0]
    none, other = (io_time_of(policy="none", loader=name) for name in ("posix", "lmdb"))
    none["time_s"] *= 2
    other["time_s"] *= 10
    unpinned = pd.concat([none, other]).query("cache_rate_percent == 0")
    rows = context_of(pd.concat([pinned, unpinned]))["summary"].to_dict("records")
    told = {row["Scenario"]: row["I/O time without LFS (s)"] for row in rows}
    name = "128 KiB files, 60 OSTs"
    assert told == {
        f"{name}, posix, pinning": "8.00",
        f"{name}, posix, none": "8.00",
        f"{name}, lmdb, none": "40.0",
    }


@pytest.mark.parametrize(
    ("epoch", "placed", "evicted", "is_told"),
    [
        (0, (4, 0, 0), (0, 0, 0), True),
        (1, (4, 0, 0), (0, 0, 0), False),  # the LFS was full before
        (1, (4, 2, 0), (0, 0, 0), True),
        (1, (4, 2, 9), (0, 2, 0), False),  # as many go as come; the last one is later
        (2, (4, 2, 1), (0, 0, 0), False),  # the last one
    ],
)
def test_policies_that_warm_up_have_the_last_epoch_beside_the_figures(
    epoch, placed, evicted, is_told
):
    io_time = io_time_of(policy="monarch", n_epochs=3)
    io_time["time_s"] /= 1 + io_time["epoch"]
    keys = scenario_of(policy="monarch") | {"cache_rate_percent": 50, "repetition": 0}
    background = pd.DataFrame([keys] * 3).assign(
        epoch=range(3), placed_files=placed, evicted_files=evicted
    )
    context = context_of(io_time, epoch=epoch, background=background)
    (row,) = context["summary"].to_dict("records")
    assert row.get("In the last epoch (s)") == ("0.667" if is_told else None)
    words = f"(monarch) are still warming up in the {('first', 'second')[epoch % 2]}"
    assert (words in Page(render(TEMPLATE, context)).text) == is_told


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        ((1.5, 0.5, 2.5), "saves most time in 3 epochs, staging and copies included: "),
        ((1.5, 0.5, 2.5), "1.5 % (95 % confidence interval 0.5 to 2.5 %). "),
        ((1.5, -1, 4), "4.0 %). It is undecided whether that saves or loses time."),
        (
            (1.5, NAN, NAN),
            "takes least time in 3 epochs, staging and copies included: 1.5 % less "
            "than with nothing on the LFS (one repetition, no interval). It is ",
        ),
        ((-1.5, -4, -1), "loses least time in 3 epochs, staging and copies included: "),
        (
            (-1.5, -4, 1),
            "1.5 % more than with nothing on the LFS (95 % confidence interval -1.0 to "
            "4.0 %). It is undecided",
        ),
    ],
)
def test_a_report_of_several_policies_says_in_short_which_saves_most(cuts, words):
    names = [f"time_cut{end}_percent" for end in ("", "_low", "_high")]
    rows = [
        {"policy": "none", "cache_rate_percent": 0} | dict.fromkeys(names, 9.0),
        {"policy": "lru", "cache_rate_percent": 50} | dict.fromkeys(names, -9.0),
        {"policy": "monarch", "cache_rate_percent": 50}
        | dict(zip(names, cuts, strict=True)),
    ]
    scenario = {key: scenario_of()[key] for key in SCENARIO if key != "policy"}
    summary = pd.DataFrame(rows).assign(n_epochs=3, **scenario)
    pictures = [Picture("policies", "Policies compared", SVG, "Look.")]
    arguments = {"policy_summary": summary, "pictures": pictures}
    page = Page(page_of(io_time_of(), **arguments))
    assert "Of the policies, monarch at a cache rate of 50 % " in page.text
    assert words in page.text
    assert page.links.count("#policies") == 2
    assert "policies/summary.txt" in page.links
    assert "#policies" not in Page(page_of(io_time_of())).links


def test_a_goal_of_execution_time_says_how_it_compares_with_io_time():
    io_time = io_time_of()
    goals, _ = search_of(io_time)
    changes = {"goal_of": "execution_time", "goal_s": 2.5, "difference_s": 1.0}
    context = context_of(io_time, goals=goals.assign(**changes))
    (row,) = context["summary"].to_dict("records")
    assert row["Goal (s of execution time)"] == "2.50"
    assert row["Execution minus I/O time (s)"] == "1.00"
    assert "constant difference" in Page(render(TEMPLATE, context)).text
    assert "constant difference" not in Page(page_of(io_time)).text


def test_the_cheapest_improvement_that_only_the_mean_meets_is_marked():
    """2 and 3 s at 50 %, goal 1.875 s: halving READ gives 1.5 and 2.25 s."""
    context = context_of(io_time_of(n_repetitions=2))
    (row,) = context["summary"].to_dict("records")
    assert row["Cheapest improvement that meets it"].splitlines()[2:] == [
        "⚠ met by the mean, not by every repetition"
    ]
    page = render(TEMPLATE, context)
    assert '<span class="flag">⚠ met by the mean, not by every repetition<' in page


def test_a_best_point_whose_spread_is_above_the_limit_is_marked():
    """2 and 3 s: mean 2.5, standard deviation 0.707, so 28 %."""
    context = context_of(io_time_of(n_repetitions=2))
    (row,) = context["summary"].to_dict("records")
    words = row["I/O time there (s)"].replace("\N{NO-BREAK SPACE}", " ")
    assert words == "2.50\n(-3.85 to 8.85)\n⚠ spread 28 %, above 10 %"
    best = row["Best cache rate (%)"].replace("\N{NO-BREAK SPACE}", " ")
    assert best.splitlines() == [
        "0 to 100",
        "(0 and 100 cannot be told from 50 at n = 2)",
    ]


@pytest.mark.parametrize(
    ("factor", "words"), [(2e-5, "4.00e-05"), (0.002, "0.00400"), (2e3, "4000")]
)
def test_times_of_any_storage_have_three_digits(factor, words):
    io_time = io_time_of()
    io_time["time_s"] *= factor
    (row,) = context_of(io_time)["summary"].to_dict("records")
    assert row["I/O time there (s)"] == words


def test_each_run_has_its_audit_and_the_io_time_of_every_epoch():
    io_time = io_time_of()
    table = runs_table(runs_of(io_time), break_down(io_time), {"small": "Files"})
    assert table.iloc[1].to_dict() == {
        "Scenario": "Files, 60 OSTs",
        "Cache rate (%)": "50",
        "Repetition": "0",
        "Audit": "✓ passed",
        "I/O time, first epoch (s)": "2.00",
        "I/O time, second epoch (s)": "2.00",
        "Started (UTC)": "2026-11-21 10:05:00",
    }


def test_a_failed_audit_shows_its_numbers():
    io_time = io_time_of()
    runs = runs_of(io_time)
    runs[0] = ReportedRun(runs[0].run, audit_of(passed=False))
    table = runs_table(runs, break_down(io_time))
    assert table["Audit"][0] == "✕ failed: ratio: got 1.4, expected 1.02"
    assert context_of(io_time, runs)["audit"] == (
        "Of 3 runs: 2 passed, 1 failed (6 checks)."
    )


def test_a_run_without_an_audit_or_of_another_experiment_is_not_called_passed():
    mine, other = io_time_of(), io_time_of(system="other")
    runs = runs_of(mine)
    runs[2] = ReportedRun(runs[2].run, None)
    breakdown = break_down(pd.concat([mine, other]))
    table = runs_table(runs, breakdown)
    assert table["Audit"].tolist() == ["✓ passed"] * 2 + [f"{UNKNOWN} not audited"] * 4
    assert table["Scenario"][3] == "small dataset, 60 OSTs, other"
    assert table["Started (UTC)"][3] == UNKNOWN
    context = context_of(mine, runs, breakdown=breakdown)
    assert context["audit"] == "Of 6 runs: 2 passed, 4 without an audit (4 checks)."
    assert len(context["summary"]) == 2
    Page(render(TEMPLATE, context))


def test_a_run_that_the_tables_lack_has_no_io_time():
    io_time = io_time_of()
    runs = runs_of(io_time)
    table = runs_table(runs, break_down(io_time[io_time["cache_rate_percent"] < 100]))
    assert table["I/O time, first epoch (s)"].tolist() == ["4.00", "2.00", UNKNOWN]


def test_jobs_are_shown_where_there_are_any():
    io_time = io_time_of(source="emulated")
    runs = runs_of(io_time)
    runs[0].run["scheduler_job"] = "Slurm 12"
    table = runs_table(runs, break_down(io_time))
    assert table["Scheduler job"].tolist() == ["Slurm 12", "", ""]


def test_every_epoch_has_a_column_and_one_is_enough():
    context = context_of(io_time_of(n_epochs=1))
    columns = [name for name in context["runs"] if "epoch" in name]
    assert columns == ["I/O time, first epoch (s)"]
    assert context["epoch"] == "first epoch"


def test_one_repetition_says_that_the_spread_is_unknown():
    context = context_of(io_time_of())
    assert context["spread"].empty
    words = "Every point has one repetition, no interval: differences"
    assert context["spread_words"].startswith(words)


def test_repetitions_above_the_limit_are_marked():
    """2 and 3 s: mean 2.5, sd 0.707, so 28.3 %; 3 and 4 s 20.2 %; 6.35 s each way."""
    context = context_of(io_time_of(n_repetitions=2))
    row = context["spread"].iloc[1].str.replace("\N{NO-BREAK SPACE}", " ").to_dict()
    assert row == {
        "Scenario": "128 KiB files, 60 OSTs",
        "Cache rate (%)": "50",
        "Repetitions": "2",
        "I/O time, first epoch (%)": "⚠ 28.3 (-3.85 to 8.85 s)",
        "I/O time, second epoch (%)": "⚠ 28.3 (-3.85 to 8.85 s)",
        "execution time, first epoch (%)": "⚠ 20.2 (-2.85 to 9.85 s)",
        "execution time, second epoch (%)": "⚠ 20.2 (-2.85 to 9.85 s)",
    }
    assert "limit of 10 %, marked ⚠: 12 of 12" in context["spread_words"]


def test_what_was_run_comes_from_the_runs_with_units():
    found = context_of(io_time_of())["facts"]
    assert found["Experiment"]["system"] == "cluster (A cluster)"
    assert found["Sweep"] == {
        "datasets": "768 \N{MULTIPLICATION SIGN} 128 KiB files (96 MiB)",
        "OSTs": "60",
        "cache rates": "0, 50, 100 %",
        "repetitions": "1",
        "cache policy": "pinning",
        "loader": "posix",
    }
    assert found["Training"]["seed"] == "7"
    assert found["Data loader"]["buffer size"] == "256 KiB"


@pytest.mark.parametrize(
    ("n_nodes", "virtual", "words"),
    [
        (1, False, "1 MPI process on 1 node"),
        (2, False, "2 MPI processes on 2 nodes"),
        (1, True, "1 MPI process on 1 virtual node (on one machine)"),
    ],
)
def test_one_node_is_not_called_nodes(n_nodes, virtual, words):
    io_time = io_time_of()
    runs = runs_of(io_time)
    for run in runs:
        run.run["system"] |= {"n_nodes": n_nodes, "virtual_nodes": virtual}
    assert context_of(io_time, runs)["facts"]["Experiment"]["processes"] == words


def test_versions_that_differ_between_runs_are_all_named():
    io_time = io_time_of()
    runs = runs_of(io_time)
    runs[1].run["versions"]["python"] = "3.11.8"
    found = context_of(io_time, runs)["facts"]
    assert found["Versions"]["python"] == "3.11.7, 3.11.8"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("open_s", 2.9e-05, ("open time", "29 µs")),
        ("latency_s", 0.0035, ("latency", "3.5 ms")),
        (
            "compute_time_s",
            {"distribution": "normal", "mean_s": 0.3, "stdev_s": 0.05},
            ("compute time", "normal, 300 ms ± 50 ms"),
        ),
        ("request_bytes", 131072, ("request size", "128 KiB")),
        ("ost_bandwidth_bytes_per_s", 3 << 29, ("OST bandwidth", "1.5 GiB/s")),
        ("n_osts", 60, ("number of OSTs", "60")),
        ("shuffle", "global", ("shuffle", "global")),
        ("spread_percent", 2.4, ("spread", "2.4 %")),
        ("service_cv", 1.35, ("service coefficient of variation", "1.35")),
    ],
)
def test_settings_are_named_with_their_units(key, value, words):
    assert setting_words(key, value) == words


def test_devices_are_listed_once_and_only_if_emulated():
    emulated, measured = io_time_of(source="emulated"), io_time_of()
    contents = [run.run for run in runs_of(emulated)]
    assert len(contents) > 1
    assert devices_table(contents).shape == (5, 3)
    assert devices_table([run.run for run in runs_of(measured)]).empty


def test_parameters_of_a_simulation_are_listed_with_units_and_source():
    rows = devices_table(simulated(io_time_of(source="simulated"))["simulations"])
    assert rows.to_numpy().tolist() == [
        ["GFS", "open time", "29 µs", "fitted"],
        ["GFS", "OST bandwidth", "1.5 GiB/s", "reconstructed"],
        ["LFS", "request size", "128 KiB", "reconstructed"],
        ["LFS", "request time", "900 µs", "reconstructed"],
        ["LFS", "latency", "3.5 ms", "reconstructed"],
        ["GFS", "links", "4", "paper"],
        ["LFS", "open time", "9 µs", "reconstructed"],
        [
            "GFS and LFS",
            "service coefficient of variation",
            "1.35",
            "reconstructed",
        ],
    ]


def test_report_of_simulated_runs_has_no_audit_tracer_or_folders():
    io_time = io_time_of(source="simulated")
    context = context_of(io_time, **simulated(io_time))
    assert context["headline"] == "3 simulated runs"
    assert set(context["facts"]) == {
        "Experiment",
        "Sweep",
        "Training",
        "Data loader",
        "Versions",
    }
    processes = context["facts"]["Experiment"]["processes"]
    assert processes == "3072 processes on 768 nodes, simulated"
    assert not {"Audit", "Started (UTC)"} & set(context["runs"])
    page = render(TEMPLATE, context)
    text = Page(page).text
    assert "What was simulated" in text
    assert "No process ran, so nothing was audited." in text
    assert "not audited" not in text
    assert "fitted to statements of the paper, not measured" in text
    _, _, devices = page.partition("<h3>Devices of the model")
    assert "The numbers are those of the whole machine.</p>" in devices


def test_simulated_scenarios_stand_in_the_order_of_the_sweep():
    tables = [io_time_of(source="simulated", n_osts=n_osts) for n_osts in (1, 60)]
    contents = [simulated(table)["simulations"][0] for table in tables[::-1]]
    context = context_of(pd.concat(tables), runs=[], simulations=contents)
    order = ["128 KiB files, 60 OSTs", "128 KiB files, 1 OST"]
    assert context["summary"]["Scenario"].tolist() == order
    assert list(dict.fromkeys(context["runs"]["Scenario"])) == order


def test_modelled_devices_are_said_to_be_fitted_not_measured():
    page = page_of(io_time_of(source="emulated"))
    before, devices = page.split("<h3>Devices of the model")
    for part in (before, devices):
        words = re.sub(r"\s+", " ", part)
        assert "fitted to statements of the paper, not measured" in words
    assert "Model: fugaku, in virtual time." in before
    assert "fitted" not in page_of(io_time_of())


@pytest.mark.parametrize("source", ["measured", "emulated", "simulated"])
def test_numbers_that_were_not_measured_say_so_everywhere(source):
    io_time = io_time_of(source=source)
    page = page_of(io_time, **(simulated(io_time) if source == "simulated" else {}))
    text = Page(page).text
    marks = page.count(f'<span class="source">{source}</span>')
    if source == "measured":
        assert marks == 0
        assert "These numbers are" not in text
    else:
        assert marks >= 6
        assert f"These numbers are {source}." in text
        assert f"<title>Storage experiment first ({source})</title>" in page
        assert re.search(rf"<h3>Figure 1 <span class=\"source\">{source}", page)


def test_the_page_needs_no_other_file_and_its_links_lead_somewhere():
    page = Page(page_of(io_time_of(n_repetitions=2, source="emulated")))
    assert len(page.ids) == len(set(page.ids))
    anchors = {link[1:] for link in page.links if link.startswith("#")}
    assert anchors <= set(page.ids)
    others = {link.split(",")[0] for link in page.links if not link.startswith("#")}
    assert others == {"data:", "data:image/svg+xml;base64", "explorer.html"}


def test_names_and_descriptions_are_escaped():
    page = page_of(
        io_time_of(system="<b>"),
        experiment="<b>",
        description="Tom & Jerry's <script>",
        origin=Origin('"quoted" & <i>'),
    )
    assert "<script" not in page
    assert "<b>" not in page
    assert "Tom &amp; Jerry&#39;s &lt;script&gt;" in page
    assert "Storage experiment <b>" in Page(page).text


def test_anonymous_page_says_neither_who_nor_where():
    identities = {
        "hosts": ["host-of-jane"],
        "scheduler_job": "Slurm 4711",
        "tier_roots": {"gfs": ["/vol/jane/data"], "lfs": ["/local/jane/data"]},
        "versions": {"python": "3.11.7", "kernel": "5.4-site"},
        "machines": [{"mounts": {"gfs": {"source": "server-of-jane"}}}],
        "tracer": {"runtime": "darshan", "library": "/home/jane/libdarshan.so"},
    }
    io_time = io_time_of()
    runs = [ReportedRun(one.run | identities, one.audit) for one in runs_of(io_time)]
    for one in runs:
        one.run["system"]["gfs"] = one.run["system"]["gfs"] | {"root": "/vol/jane"}
    named, unnamed = (
        page_of(io_time, runs=runs, anonymous=anonymous) for anonymous in (False, True)
    )
    for word in ("/vol/jane", "Slurm 4711", "5.4-site"):
        assert word in named
    for word in ("jane", "4711", "5.4-site", "/home", "/local"):
        assert word not in unnamed
    assert "3.11.7" in unnamed
    assert "darshan" in unnamed


def test_certificate_of_a_program_is_a_section_and_names_libraries_unless_anonymous():
    words = "Preload libraries of others: liba.so in 2 of 2 processes."
    row = scenario_of() | {"cache_rate_percent": 0, "repetition": 0}
    row |= {"statement": "libraries", "answer": "no", "words": words}
    table = check_table(pd.DataFrame([row]), "certificate")
    page = Page(page_of(io_time_of(), certificate=table))
    assert "certificate" in page.ids
    assert f"no foreign preload library \N{MULTIPLICATION X} no {words}" in page.text
    assert "liba.so" not in page_of(io_time_of(), certificate=table, anonymous=True)
    assert "certificate" not in Page(page_of(io_time_of())).ids


def facts_of(*values):
    """Return table `run_facts` with these rows: part, fact, value."""
    columns = ["part", "fact", "value"]
    facts = pd.DataFrame(values, columns=columns).assign(n_runs=2, run="runs/x")
    return check_table(facts, "run_facts")


DIFFERENCES = facts_of(
    ("libraries", "library of the tracer", "aaaa"),
    ("libraries", "library of the tracer", "unknown"),
    ("machine", "governor", "powersave"),
    ("machine", "governor", "performance"),
    ("machine", "hosts", "host-of-jane"),
    ("software", "kernel", "5.4-site"),
    ("software", "kernel", "6.1-site"),
)


def test_what_differs_between_runs_is_on_the_page():
    text = Page(page_of(io_time_of(), run_facts=DIFFERENCES)).text
    assert "library of the tracer aaaa 2 library of the tracer unknown 2" in text
    assert "governor powersave 2 governor performance 2" in text
    assert "host-of-jane" not in text  # all runs have the same


def test_many_and_long_values_are_cut_short():
    hosts = [("machine", "hosts", f"{n} {'host ' * 99}") for n in range(9)]
    table = differences_table(facts_of(*hosts))
    assert len(table) == 6
    assert table["Value"].str.len().max() <= 200
    last = ("hosts", "4 more values, in table run_facts", "8")
    assert tuple(table.iloc[-1]) == last


def test_page_says_so_if_nothing_differs():
    text = Page(page_of(io_time_of(), run_facts=DIFFERENCES[:1])).text
    assert "Nothing: all runs have the same tracer, libraries," in text


def test_anonymous_page_says_of_machines_nothing_that_differs():
    page = page_of(io_time_of(), run_facts=DIFFERENCES, anonymous=True)
    text = Page(page).text
    assert "library of the tracer" in text
    assert "powersave" not in text
    assert "site" not in text


def test_the_same_tables_give_the_same_page():
    io_time = io_time_of(source="emulated")
    assert page_of(io_time) == page_of(io_time)


def test_every_io_class_has_its_colour_on_the_page():
    page = page_of(io_time_of())
    for io_class in IOClass:
        assert re.search(f"{io_class.colour}.*{io_class.label}", page)


def test_a_name_that_the_context_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'policy' is undefined"):
        render("logs.html.j2", {})


def test_a_mistake_in_a_caption_is_an_error():
    with pytest.raises(docutils.utils.SystemMessage, match="Inline strong"):
        caption_html("**never closed")


def test_captions_cannot_bring_html_or_other_files():
    with pytest.raises(docutils.utils.SystemMessage, match='"raw" directive disabled'):
        caption_html(".. raw:: html\n\n   <script></script>")


@pytest.mark.parametrize(
    "path", sorted((WORKFLOW / "report").glob("*.rst")), ids=lambda path: path.stem
)
def test_captions_are_correct(path):
    body = caption_html(path.read_text())
    assert body.startswith("<p>")
    assert "system-message" not in body


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("execution_and_io_time", "within the bands"),
        ("breakdown", "the repetitions do not decide which rate is best"),
        ("improvement", "A hollow diamond is undecided"),
        ("sufficient_combinations", "white inside"),
        (
            "cheapest_combination",
            "do not include the LFS volume, which the cache rate decides",
        ),
    ],
)
def test_captions_say_under_which_condition_they_are_true(figure, words):
    caption = (WORKFLOW / "report" / f"{figure}.rst").read_text()
    assert words in " ".join(caption.split())
