"""Gather an experiment into one page of HTML that needs no other file.

What the page says is worked out here, as words and tables of words; the template says
where it stands. A figure becomes an image of its own inside the page, so the ids and
styles of its SVG cannot reach another's.
"""

import base64
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import pandas as pd
from docutils.core import publish_parts

from tierscope import scorecard
from tierscope.breakdown import CLASSES, SCENARIO, select_epoch, select_scenarios
from tierscope.io_class import NET_READ, IOClass, io_class_of
from tierscope.plot import (
    epoch_words,
    in_seconds,
    io_time_spread,
    scenario_titles,
    sums_of_classes,
)
from tierscope.plot_whatif import GOAL_KINDS, improvement_words
from tierscope.report_facts import (
    SIMULATED,
    Run,
    count_words,
    devices_table,
    distinct,
    facts,
    is_simulated,
)
from tierscope.search import cheapest_combination
from tierscope.sources import source_note
from tierscope.tables import RUN_KEYS, run_keys
from tierscope.whatif import (
    IMPROVEMENTS,
    Goal,
    best_point,
    mean_over_repetitions,
    select_improvements,
)

PASSED, FAILED, UNKNOWN, FLAG = (
    "\N{CHECK MARK}",
    "\N{MULTIPLICATION X}",
    "\N{EN DASH}",
    "\N{WARNING SIGN}",
)
_RUN = list(RUN_KEYS)
_MEANINGS = {
    IOClass.GFS_READ: "reading files on the global file system",
    IOClass.GFS_META: "opening, closing and looking them up",
    IOClass.LFS_READ: "reading files on the local file system",
    IOClass.LFS_META: "opening, closing and looking them up",
}
_ONLY_WHOLE_S = 999.5  # three digits are whole seconds from here on
_RST = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "halt_level": 2,
    "report_level": 5,
    "_disable_config": True,
}
_BY_MODEL = "Best I/O time then by the model (s)"


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Parameters
    ----------
    name : str
        What links call it.
    title : str
        Its heading.
    svg : bytes
        Content of an SVG file.
    caption : str
        How to read it, in reStructuredText.
    """

    name: str
    title: str
    svg: bytes
    caption: str

    @property
    def uri(self) -> str:
        """Return the picture as an address that holds it."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()

    @property
    def caption_html(self) -> str:
        """Return the caption as HTML."""
        return caption_html(self.caption)


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the page; the template says what is HTML already, the rest is escaped."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(context)


def caption_html(caption: str) -> str:
    """Return reStructuredText as HTML; a mistake in it raises docutils' error."""
    parts = publish_parts(caption, writer="html5", settings_overrides=_RST)
    return parts["body"]


def report_context(
    *,
    experiment: str,
    description: str,
    provenance: str,
    epoch: int,
    dataset_titles: Mapping[str, str],
    paper: str,
    runs: Sequence[Run],
    simulations: Sequence[Mapping[str, Any]] = (),
    pictures: Sequence[Picture],
    captions: Mapping[str, str],
    breakdown: pd.DataFrame,
    spread: pd.DataFrame,
    goals: pd.DataFrame,
    combinations: pd.DataFrame,
    claims: pd.DataFrame,
    estimates: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return everything that the template shows.

    Parameters
    ----------
    experiment, description : str
        Name of the experiment, and what its system is.
    provenance : str
        Where the numbers come from, as on the figures.
    epoch : int
        The epoch of the figures, counted from 0.
    dataset_titles : mapping of str to str
        What to call each dataset.
    paper : str
        The paper of the claims, as it is cited.
    runs : sequence of Run
        The runs of the experiment, in the order of the table; none if simulated.
    simulations : sequence of mapping
        The `simulation.json` of each scenario in the order of the tables, if simulated.
    pictures : sequence of Picture
        The figures, in order.
    captions : mapping of str to str
        What to say about ``scorecard`` and ``explorer``, in reStructuredText.
    breakdown, spread, goals, combinations, claims : DataFrame
        These tables. Runs that only `breakdown` has are listed as not audited.
    estimates : DataFrame, optional
        Table ``estimates`` by the model.
    """
    if simulations:
        scenarios = [simulation["scenario"] for simulation in simulations]
        breakdown = select_scenarios(breakdown, scenarios)  # in their order
    keys = _all_run_keys(runs, breakdown)
    titles = scenario_titles(keys, dataset_titles)
    table = runs_table(runs, breakdown, dataset_titles)
    contents = [*(run.run for run in runs), *simulations]
    return {
        "title": f"Storage experiment {experiment}",
        "description": description,
        "provenance": provenance,
        "source": source_words(keys["source"]),
        "warning": source_warning(keys["source"], contents),
        "epoch": epoch_words(epoch),
        "headline": headline(runs, len(table), contents),
        "is_simulated": any(map(is_simulated, contents)),
        "classes": [
            {"label": c.label, "colour": c.colour, "meaning": _MEANINGS[c]}
            for c in IOClass
        ],
        "summary": summary_table(
            breakdown, spread, goals, combinations, titles, epoch, estimates
        ),
        "goal": goal_kind(goals, epoch),
        "pictures": pictures,
        "explorer_caption": caption_html(captions["explorer"]),
        "scorecard_caption": caption_html(captions["scorecard"]),
        "scorecard_title": scorecard.title(claims),
        "scorecard_notes": scorecard.notes(claims, paper, provenance),
        "scorecard_table": scorecard.html_table(claims),
        "scorecard_style": scorecard.STYLE,
        "facts": facts(experiment, description, contents, keys, dataset_titles),
        "devices": devices_table(contents),
        "devices_note": devices_note(contents),
        "audit": audit_words(runs, len(table)),
        "runs": table,
        "spread": spread_table(spread, titles),
        "spread_words": spread_words(spread),
    }


def _all_run_keys(runs: Sequence[Run], breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the keys of all runs: first those given, then others of the table."""
    given = [run_keys(run.run) for run in runs]
    keys = pd.concat([pd.DataFrame(given, columns=_RUN), breakdown[_RUN]])
    return keys.drop_duplicates(ignore_index=True).astype(dict(RUN_KEYS))


def _seconds(time_s: float) -> str:
    """Return a time for a column in seconds, with three digits or all whole ones."""
    if math.isnan(time_s):
        return UNKNOWN
    if abs(time_s) >= _ONLY_WHOLE_S:
        return f"{time_s:.0f}"
    return in_seconds(time_s).removesuffix(" s")


def source_words(sources: Iterable[str]) -> str:
    """Return the sources that are not measurement, such as ``emulated``, or nothing."""
    return " and ".join(sorted(set(sources) - {"measured"}))


def source_warning(
    sources: Iterable[str], contents: Sequence[Mapping[str, Any]]
) -> str:
    """Return what to know before believing a number; nothing if all were measured."""
    models = distinct(map(_model_words, contents))
    return " ".join(
        source_note(source, models) for source in sorted(set(sources) - {"measured"})
    )


def _model_words(content: Mapping[str, Any]) -> str:
    """Return which machine devices model that are emulated; nothing for others."""
    if not (emulation := content["system"].get("emulation")):
        return ""
    return f"{emulation['model_of']}, made {emulation['speedup']:g} times faster"


def devices_note(contents: Sequence[Mapping[str, Any]]) -> str:
    """Return what to know about the devices of emulated or simulated tiers."""
    source = SIMULATED if any(map(is_simulated, contents)) else "emulated"
    note = f"{source_note(source)} They are those of the whole machine"
    if any(map(_model_words, contents)):
        note += "; the runs take them scaled to their number of processes"
    return f"{note}."


def headline(
    runs: Sequence[Run], n_runs: int, contents: Sequence[Mapping[str, Any]]
) -> str:
    """Return size and dates of the experiment in a line."""
    kind = "simulated run" if any(map(is_simulated, contents)) else "run"
    words = [count_words(n_runs, kind)]
    if runs:
        started = min(run.run["started"] for run in runs)
        finished = max(run.run["finished"] for run in runs)
        words.append(f"{_time_words(started)} to {_time_words(finished)} UTC")
    return ", ".join(words)


def _time_words(time: str) -> str:
    """Return a time of a run.json, which is in UTC, as ``2026-11-21 10:09:16``."""
    return time.removesuffix("+00:00").replace("T", " ")


def summary_table(
    breakdown: pd.DataFrame,
    spread: pd.DataFrame,
    goals: pd.DataFrame,
    combinations: pd.DataFrame,
    titles: pd.DataFrame,
    epoch: int,
    estimates: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the answers of an epoch, a row each scenario.

    What the model says of the cheapest improvement is a column if it says something.

    Parameters
    ----------
    breakdown, spread, goals, combinations : DataFrame
        These tables; without a goal of a scenario its last columns are empty.
    titles : DataFrame
        What `tierscope.plot.scenario_titles` returns.
    epoch : int
        The epoch, counted from 0.
    estimates : DataFrame, optional
        Table ``estimates`` by the model.
    """
    breakdown = select_epoch(breakdown, epoch)
    spread = io_time_spread(spread, epoch)
    times = sums_of_classes(breakdown)
    best = best_point(times)
    points = mean_over_repetitions(times).set_index([*SCENARIO, "cache_rate_percent"])
    rows = []
    for scenario in titles.to_dict("records"):
        keys = _keys(scenario)
        of_scenario = best[(best[SCENARIO] == keys).all(axis=1)]
        if of_scenario.empty:
            continue
        point = of_scenario.iloc[0]
        without = points["io_time_s"].get((*keys, 0), math.nan)
        rows.append(
            {
                "Scenario": scenario["title"],
                "Limited by": bottlenecks(breakdown, keys),
                "Best cache rate (%)": str(point["cache_rate_percent"]),
                "I/O time there (s)": _seconds(point["io_time_s"])
                + _flag_words(spread, point),
                "I/O time without LFS (s)": _seconds(without),
            }
            | _purchase(goals, combinations, keys, epoch)
            | _purchase_by_model(goals, combinations, keys, epoch, estimates)
        )
    summary = pd.DataFrame(rows)
    if _BY_MODEL in summary and (summary[_BY_MODEL] == UNKNOWN).all():
        return summary.drop(columns=_BY_MODEL)
    return summary


def _flag_words(spread: pd.DataFrame, point: pd.Series) -> str:
    """Return a line that warns of the spread of a point if it is above the limit."""
    keys = [*SCENARIO, "cache_rate_percent"]
    flagged = spread[(spread[keys] == point[keys]).all(axis=1) & spread["flagged"]]
    if flagged.empty:
        return ""
    row = flagged.iloc[0]
    spread_percent, limit_percent = 100 * row["cv"], row["max_spread_percent"]
    words = f"{FLAG} spread {spread_percent:.0f} %,", f"above {limit_percent} %"
    return "\n" + " ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in words)


def _keys(scenario: Mapping[str, Any]) -> pd.Series:
    """Return the keys of a scenario."""
    return pd.Series({key: scenario[key] for key in SCENARIO})


def bottlenecks(breakdown: pd.DataFrame, scenario: pd.Series) -> str:
    """Return which class limits where, such as ``GFS-META at 0 to 60 %``, in lines.

    `breakdown` is of one epoch; over repetitions the mean time of a class counts.
    """
    rows = breakdown[(breakdown[SCENARIO] == scenario).all(axis=1)]
    times_s = rows.groupby(["cache_rate_percent", "io_class"])["time_s"].mean()
    times_s = times_s.unstack("io_class")
    classes = [name for name in (*CLASSES, NET_READ) if name in times_s]
    limits = times_s[classes].idxmax(axis=1)
    words = []
    for io_class, group in itertools.groupby(limits.items(), key=lambda item: item[1]):
        rates = [rate for rate, _ in group]
        span = f"{rates[0]} to {rates[-1]}" if len(rates) > 1 else f"{rates[0]}"
        words.append(f"{io_class_of(io_class).label} at {span}\N{NO-BREAK SPACE}%")
    return "\n".join(words)


def _purchase(
    goals: pd.DataFrame, combinations: pd.DataFrame, scenario: pd.Series, epoch: int
) -> dict[str, str]:
    """Return the goal of a scenario and what is cheapest to meet it."""
    kind = goal_kind(goals, epoch)
    names = [f"Goal (s of {kind})" if kind else "Goal (s)"]
    names += ["Execution minus I/O time (s)"] * (kind == GOAL_KINDS["execution_time"])
    n_goal = len(names)
    names += ["Cheapest improvement that meets it"]
    names += ["Least cache rate then (%)", "LFS per node then (GiB)"]
    row = dict.fromkeys(names, UNKNOWN)
    goals = goals[(goals[SCENARIO] == scenario).all(axis=1) & (goals["epoch"] == epoch)]
    if goals.empty:
        return row
    goal = goals.iloc[0]
    values = [_seconds(goal["goal_s"]), _seconds(goal["difference_s"])][:n_goal]
    cheapest = cheapest_combination(combinations, goal)
    if cheapest is None:
        values.append("none of those searched")
        return row | dict(zip(names, values, strict=False))
    percents = cheapest[IMPROVEMENTS].to_dict()
    improvement = "none needed"
    if any(percents.values()):
        improvement = improvement_words(percents).replace(", ", "\n")
    if not cheapest["in_every_repetition"]:
        improvement += f"\n{FLAG} met by the mean, not by every repetition"
    values += [
        improvement,
        str(cheapest["min_cache_rate_percent"]),
        f"{cheapest['lfs_gib_per_node']:.3g}",
    ]
    return dict(zip(names, values, strict=True))


def _purchase_by_model(
    goals: pd.DataFrame,
    combinations: pd.DataFrame,
    scenario: pd.Series,
    epoch: int,
    estimates: pd.DataFrame | None,
) -> dict[str, str]:
    """Return what the model says of the cheapest improvement; nothing without a model.

    It is unknown where the model was not asked about this improvement.
    """
    if estimates is None:
        return {}
    tables = [
        table[(table[SCENARIO] == scenario).all(axis=1) & (table["epoch"] == epoch)]
        for table in (goals, estimates)
    ]
    if tables[0].empty or tables[1].empty:
        return {_BY_MODEL: UNKNOWN}
    row = tables[0].iloc[0]
    cheapest = cheapest_combination(combinations, row)
    if cheapest is None:
        return {_BY_MODEL: UNKNOWN}
    percents = dict(zip(CLASSES, cheapest[IMPROVEMENTS].tolist(), strict=True))
    asked = select_improvements(tables[1], [percents])
    if asked.empty:
        return {_BY_MODEL: UNKNOWN}
    best = best_point(asked).iloc[0]
    goal = Goal(row["goal_of"], row["goal_s"], row["difference_s"])
    verdict = "meets" if goal.is_met(best["io_time_s"]) else f"{FLAG} misses"
    words = f"{_seconds(best['io_time_s'])} at {best['cache_rate_percent']} %"
    return {_BY_MODEL: f"{words}\n{verdict} the goal"}


def goal_kind(goals: pd.DataFrame, epoch: int) -> str:
    """Return what the goal of an epoch is a goal of, nothing if there is none."""
    kinds = goals.loc[goals["epoch"] == epoch, "goal_of"].unique()
    return " and ".join(sorted(GOAL_KINDS[kind] for kind in kinds))


def runs_table(
    runs: Sequence[Run],
    breakdown: pd.DataFrame,
    dataset_titles: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a row each run: its audit, lateness, I/O time of every epoch, start.

    Parameters
    ----------
    runs : sequence of Run
        The runs, in the order of the rows.
    breakdown : DataFrame
        Table ``breakdown``; runs that only this has come last, as not audited.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    DataFrame of str
        What no run has is left out: lateness, scheduler jobs; of simulated runs, which
        are not audited, the audit and when they started.
    """
    keys = _all_run_keys(runs, breakdown)
    titles = scenario_titles(keys, dataset_titles)
    given = {tuple(run_keys(run.run)[key] for key in _RUN): run for run in runs}
    sums_s = breakdown.groupby([*_RUN, "epoch"])["time_s"].sum().unstack("epoch")
    rows = []
    for key in keys.merge(titles, on=SCENARIO, how="left").to_dict("records"):
        index = tuple(key[name] for name in _RUN)
        run = given.get(index)
        row = {
            "Scenario": key["title"],
            "Cache rate (%)": str(key["cache_rate_percent"]),
            "Repetition": str(key["repetition"]),
            "Audit": _audit_cell(run.audit if run else None),
            "Lateness (%)": _lateness_cell(run.run) if run else "",
        }
        for epoch in sums_s.columns:
            time_s = sums_s[epoch].get(index, math.nan)
            row[f"I/O time, {epoch_words(epoch)} (s)"] = _seconds(time_s)
        row["Started (UTC)"] = _time_words(run.run["started"]) if run else UNKNOWN
        job = run.run.get("scheduler_job") if run else None
        rows.append(row | {"Scheduler job": job or ""})
    table = pd.DataFrame(rows)
    unused = [
        name for name in ("Lateness (%)", "Scheduler job") if not any(table[name])
    ]
    if (keys["source"] == SIMULATED).all():
        unused += ["Audit", "Started (UTC)"]
    return table.drop(columns=unused)


def _audit_cell(audit: Mapping[str, Any] | None) -> str:
    """Return an audit's result, with the numbers of the checks that failed."""
    if audit is None:
        return f"{UNKNOWN} not audited"
    if audit["passed"]:
        return f"{PASSED} passed"
    failed = [check for check in audit["checks"] if not check["passed"]]
    words = [f"{c['name']}: got {c['got']}, expected {c['expected']}" for c in failed]
    return f"{FAILED} failed: {'; '.join(words)}"


def _lateness_percent(run: Mapping[str, Any]) -> float | None:
    """Return how late a run's emulated devices were, None for real ones."""
    emulation = run.get("emulation")
    return emulation["lateness_percent"] if emulation else None


def _lateness_cell(run: Mapping[str, Any]) -> str:
    """Return a run's lateness, and the attempts if the first one was too late."""
    if (lateness := _lateness_percent(run)) is None:
        return ""
    n_attempts = len(run["emulation"]["lateness_percent_of_attempts"])
    return f"{lateness:.1f}" + (f" (attempt {n_attempts})" if n_attempts > 1 else "")


def audit_words(runs: Sequence[Run], n_runs: int) -> str:
    """Return how many runs passed their audit, and the largest lateness."""
    audits = [run.audit for run in runs if run.audit is not None]
    n_passed = sum(audit["passed"] for audit in audits)
    n_checks = sum(len(audit["checks"]) for audit in audits)
    counts = {"passed": n_passed, "failed": len(audits) - n_passed}
    counts["without an audit"] = n_runs - len(audits)
    if n_passed == n_runs:
        text = f"All {n_runs} runs passed" if n_runs > 1 else "The run passed"
    else:
        text = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
        text = f"Of {count_words(n_runs, 'run')}: {text}"
    if n_checks:
        text += f" ({count_words(n_checks, 'check')})"
    late = [lateness for run in runs if (lateness := _lateness_percent(run.run))]
    if late:
        text += (
            f"; of the emulated waiting at most {max(late):.1f} % was the machine's "
            "lateness instead of the devices'"
        )
    return text + "."


def spread_words(spread: pd.DataFrame) -> str:
    """Return how many points spread above the limit, or that nothing is known."""
    known = spread[spread["cv"].notna()]
    if known.empty:
        return (
            "Every point was run once, so nothing is known of the spread from run to "
            "run: small differences between points may be chance. The setting "
            "sweep.repetitions, 3 or more, would tell."
        )
    limit = known["max_spread_percent"].iloc[0]
    median, largest = 100 * known["cv"].median(), 100 * known["cv"].max()
    return (
        "The spread is the coefficient of variation, the standard deviation of the "
        "repetitions in percent of their mean. Half of the spreads are below "
        f"{median:.1f} %, the largest is {largest:.1f} %. Above the limit of "
        f"{limit} %, marked {FLAG}: {known['flagged'].sum()} of {len(known)}."
    )


def spread_table(spread: pd.DataFrame, titles: pd.DataFrame) -> pd.DataFrame:
    """Return the spread of the repetitions in percent, a row each point.

    Parameters
    ----------
    spread : DataFrame
        Table ``spread``.
    titles : DataFrame
        What `tierscope.plot.scenario_titles` returns.

    Returns
    -------
    DataFrame of str
        Sorted like `titles`; a column each quantity and epoch; what is above the limit
        is marked. Empty if no point was repeated.
    """
    known = spread[spread["cv"].notna()]
    if known.empty:
        return pd.DataFrame()
    titles = titles.assign(place=range(len(titles)))
    rows = {}
    for point in known.merge(titles, on=SCENARIO).to_dict("records"):
        key = (point["place"], point["cache_rate_percent"], point["n_repetitions"])
        row = {
            "Scenario": point["title"],
            "Cache rate (%)": str(point["cache_rate_percent"]),
            "Repetitions": str(point["n_repetitions"]),
        }
        column = f"{point['quantity']}, {epoch_words(point['epoch'])} (%)"
        sign = f"{FLAG} " if point["flagged"] else ""
        rows.setdefault(key, row)[column] = f"{sign}{100 * point['cv']:.1f}"
    return pd.DataFrame([rows[key] for key in sorted(rows)]).fillna(UNKNOWN)
