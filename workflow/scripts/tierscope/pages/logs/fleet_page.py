"""Put all jobs of an analysis of Darshan logs on one page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import (
    class_costs,
    costs_by,
    count,
    first_rows,
    most_costly,
    outlying,
    prefixes,
    surest_savings,
    totals,
)
from tierscope.core.columns import JOB_CLASS
from tierscope.core.provenance import RULE_NOTE, Origin
from tierscope.core.words import bounds_words, count_words
from tierscope.figures.logs.classes import in_class_order, label
from tierscope.figures.logs.fleet import cost_words, hours_words
from tierscope.pages.content import (
    NAME_LETTERS,
    PATH_LETTERS,
    Drawing,
    Section,
    Table,
    Words,
    page_context,
    seen,
)
from tierscope.pages.document import Picture
from tierscope.pages.logs.folders import TABLES
from tierscope.pages.logs.job_page import NO_MODEL, more_words, run_time_words

OF_FLEET = ("fleet", "fleet_classes", "logs", "refusals", "tier_prefixes")
SHARE = "Share of what is certain"
COST = "Cost"
IO_TIME = "I/O time, and its part of the run time"
MOST_ROWS, MOST_SAVINGS = 500, 20
MOST_FOUND = 1000  # users or programs
LONG, N_FIRST = 100, 20  # a table of more rows is searched, and begins with a few
# Of a column of table fleet: title of a value, of several, and the number of them.
_OF_COLUMNS = {
    "user": ("User", "Users", "n_users"),
    "exe": ("Program", "Programs", "n_programs"),
}


def fleet_page(
    tables: JobTables,
    *,
    experiment: str,
    pictures: Sequence[Picture],
    provenance: Origin,
    pages: Mapping[str, str] | None = None,
    processes_per_node: int | None = None,
) -> dict[str, Any]:
    """Return the content of the page of all jobs, for template ``logs.html.j2``.

    Parameters
    ----------
    tables : JobTables
        With the tables of `OF_FLEET`.
    experiment : str
        Name of the analysis.
    pictures : sequence of Picture
        Figures ``fleet`` and ``fleet_over_time``, as far as they exist.
    provenance : Origin
        Where the numbers come from.
    pages : mapping of str to str, optional
        The address of the page of each job that has one.
    processes_per_node : int, optional
        Processes on a node, if the configuration says so.
    """
    known, n_refused = totals(tables), count(tables, "refusals")
    n_logs = count(tables, "logs") + n_refused
    lead = f"{count_words(known['n_jobs'], 'job')} from {count_words(n_logs, 'log')}"
    if n_refused:
        lead += f"; {count_words(n_refused, 'log')} could not be used"
    drawings = {picture.name: [Drawing(picture)] for picture in pictures}
    hours, costs = hours_words(known["kinds"]), class_costs(tables)
    text = answer(known, costs, hours)
    sections = [
        _summary(text, known, costs, hours, processes_per_node),
        Section("time", "Over the time", drawings.get("fleet_over_time", [])),
        _months(tables, known),
        _sums(tables, known, "user", "exe"),
        _sums(tables, known, "exe", "user"),
        Section("figure", "Figure", drawings.get("fleet", [])),
        _jobs(most_costly(tables, MOST_ROWS), known, hours, pages or {}),
        _savings(surest_savings(tables, MOST_SAVINGS), hours, pages or {}),
        _outliers(outlying(tables, MOST_ROWS), known, pages or {}),
        _refusals(first_rows(tables, "refusals", MOST_ROWS), n_refused),
        _tiers(tables),
    ]
    context = page_context(
        f"I/O of jobs: {seen(experiment, NAME_LETTERS)} (Darshan logs)",
        f"{lead}.",
        sections,
        footer=f"Source: {provenance}. All numbers are in the Parquet files of the "
        "analysis.",
        links={"Tables": f"{TABLES}/"},
    )
    return {**context, "answer": text}


def answer(known: Mapping[str, Any], costs: pd.DataFrame, hours: str) -> str:
    """Return what all jobs spend and could save, in at most three sentences.

    Parameters
    ----------
    known : mapping
        What `totals` returns.
    costs : DataFrame
        What `class_costs` returns.
    hours : str
        What `hours_words` returns.
    """
    if not known["n_jobs"]:
        return "No log could be used."
    cost, saved = (
        cost_words(known[f"{of}least_hours"], known[f"{of}most_hours"], hours)
        for of in ("", "saved_")
    )
    dearest = ""
    if len(costs):
        ends = ["least_hours", "most_hours"]
        rows = costs.sort_values(ends, ascending=False, kind="stable")
        first, others = rows.iloc[0], rows.iloc[1:]
        if (others["most_hours"] <= first["least_hours"]).all():
            dearest = f", the largest part is {label(*first[list(JOB_CLASS)])}"
            dearest += f" ({cost_words(first['least_hours'], first['most_hours'])})"
    text = (
        f"I/O of all jobs costs {cost}{dearest}. By the paper's rule, metadata servers "
        f"twice as fast would save {saved} (of each job, on the tier where it helps "
        "most)."
    )
    if known["least_hours"] != known["most_hours"]:
        text += " What the logs leave open is a bound."
    return text


def classes_table(costs: pd.DataFrame) -> pd.DataFrame:
    """Return what all jobs cost by class in words, the dearest class first.

    `costs` is what `class_costs` returns. A job that may have a class is in the upper
    bound of the number of jobs.
    """
    sums = costs.set_index(JOB_CLASS)
    ends = ["least_hours", "most_hours"]
    known = sums.reindex(in_class_order(sums.index))
    known = known.sort_values(ends, ascending=False, kind="stable")
    whole = sums["least_hours"].sum()
    return pd.DataFrame(
        {
            "Class": label(*row[:3]),
            COST: cost_words(row.least_hours, row.most_hours),
            SHARE: _share(row.least_hours, whole),
            "Jobs": _range_words(row.n_least, row.n_most),
        }
        for row in known.reset_index().itertuples(index=False)
    )


def _share(hours: float, whole: float) -> str:
    """Return a part of hours in percent, in words; empty if there are none."""
    return f"{100 * hours / whole:.1f} %" if whole else ""


def _range_words(least: int, most: int) -> str:
    """Return bounds of a number of things, such as ``0 to 3``."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _more(number: int, table: str) -> list[Words]:
    """Return that so many rows are in a table only, with a link; nothing if none is."""
    link = {"Tables": f"{TABLES}/"}
    return [Words(more_words(number, table), links=link)] if number > 0 else []


def _searched(table: Table) -> Table:
    """Return a table with an input that finds rows, if it is long."""
    if len(table.frame) <= LONG:
        return table
    return replace(table, search=f"Search {table.label.lower()}:", n_first=N_FIRST)


def _summary(
    text: str,
    known: Mapping[str, Any],
    costs: pd.DataFrame,
    hours: str,
    processes_per_node: int | None,
) -> Section:
    """Return what all jobs spend, by class."""
    if not known["n_jobs"]:
        text = f"{text} The reasons are below."
        return Section("summary", "In short", [Words(text, "answer")])
    how = (
        "A job costs the I/O time of its slowest process times its nodes: all others "
        "wait for it."
    )
    if processes_per_node:
        of_node = count_words(processes_per_node, "process", "processes")
        how += f" The configuration says {of_node} on a node."
    if "processes" in known["kinds"]:
        how += " Where the number of nodes is not known, it counts processes."
    how += f" In the tables, h, min and s are {hours} and parts of them."
    shown = Table("Classes", classes_table(costs), [COST, SHARE, "Jobs"])
    shown = replace(shown, title="By class")
    items = [Words(text, "answer"), Words(how), shown]
    return Section("summary", "In short", items)


def _months(tables: JobTables, known: Mapping[str, Any]) -> Section:
    """Return what the jobs of each month cost, if there are several months."""
    rows = costs_by(tables, "month", MOST_ROWS).sort_values("name")
    counts = {"Users": "n_users", "Programs": "n_programs"}
    table = _sums_table(rows, "Month", counts, known["least_hours"])
    shown = Table("Months", table, list(table.columns[1:]))
    return Section("months", "Months", [shown] if len(rows) > 1 else [])


def _sums(
    tables: JobTables, known: Mapping[str, Any], column: str, other: str
) -> Section:
    """Return what users or programs cost, the dearest first, if there are several."""
    (one, several, n), (_, others, n_others) = _OF_COLUMNS[column], _OF_COLUMNS[other]
    rows = costs_by(tables, column, MOST_FOUND)
    if len(rows) < 2:
        return Section(several.lower(), several, [])
    counts = {others: n_others, "Outliers": "n_outliers"}
    table = _sums_table(rows, one, counts, known["least_hours"])
    items = [
        Words("The most costly first."),
        _searched(Table(several, table, list(table.columns[1:]))),
        *_more(known[n] - len(rows), "fleet"),
    ]
    return Section(several.lower(), several, items)


def _sums_table(
    rows: pd.DataFrame, name: str, counts: Mapping[str, str], whole: float
) -> pd.DataFrame:
    """Return what `costs_by` says in words, with columns of some counts."""
    return pd.DataFrame(
        {
            name: seen(row["name"], NAME_LETTERS),
            COST: cost_words(row["least_hours"], row["most_hours"]),
            SHARE: _share(row["least_hours"], whole),
            "Jobs": f"{row['n_jobs']:,}",
        }
        | {title: f"{row[column]:,}" for title, column in counts.items()}
        for row in rows.to_dict("records")
    )


def _links(rows: pd.DataFrame, pages: Mapping[str, str]) -> dict[int, str]:
    """Return the address of the page of each row's job, by position."""
    return {place: pages[job] for place, job in enumerate(rows["job"]) if job in pages}


def _jobs(
    rows: pd.DataFrame, known: Mapping[str, Any], hours: str, pages: Mapping[str, str]
) -> Section:
    """Return the most costly jobs, those first that cost most."""
    if rows.empty:
        return Section("jobs", "Jobs", [])
    is_mixed = len(known["kinds"]) > 1
    table = pd.DataFrame(
        {
            "Job": seen(row["job"], NAME_LETTERS),
            "Program": seen(row["exe"], NAME_LETTERS),
            "User": seen(row["user"], NAME_LETTERS),
            "Processes": f"{row['n_processes']:,}",
            "Run time": run_time_words(row["run_time_s"]),
            IO_TIME: f"{bounds_words(row['io_least_s'], row['io_most_s'])}\n"
            + part_words(row),
            COST: cost_words(row["io_hours"], row["most_hours"])
            + (" *" if row["is_marked"] else ""),
            "Most I/O time": seen(row["bottleneck"], NAME_LETTERS),
        }
        for row in rows.to_dict("records")
    )
    numbers = ["Processes", "Run time", IO_TIME, COST]
    words = f"The most costly first ({hours} of I/O)."
    if is_mixed:
        words += " *: hours of processes."
    if pages:
        have = (
            "job has a page of its own"
            if len(pages) == 1
            else "jobs have pages of their own"
        )
        words += f" {len(pages):,} {have}."
    shown = Table("Jobs", table, numbers, _links(rows, pages))
    items = [
        Words(words),
        _searched(shown),
        *_more(known["n_jobs"] - len(rows), "fleet"),
    ]
    return Section("jobs", "Jobs", items)


def part_words(row: Mapping[str, Any]) -> str:
    """Return the part of I/O of a job's run time (a row of ``fleet``)."""
    least, most = row["io_least_percent"], row["io_most_percent"]
    return "unknown part" if pd.isna(least) else bounds_words(least, most, "%")


def _savings(rows: pd.DataFrame, hours: str, pages: Mapping[str, str]) -> Section:
    """Return the jobs that faster metadata servers would help most."""
    if rows.empty:
        return Section("metadata", "Faster metadata servers", [])
    table = pd.DataFrame(
        {
            "Job": seen(row["job"], NAME_LETTERS),
            "Program": seen(row["exe"], NAME_LETTERS),
            "Metadata server of": seen(row["meta_tier"], NAME_LETTERS),
            "Saves": cost_words(
                row["meta_saved_least_hours"], row["meta_saved_most_hours"]
            ),
            "Of its cost": cost_words(row["io_hours"], row["most_hours"]),
            "Most I/O time": seen(row["bottleneck"], NAME_LETTERS),
        }
        for row in rows.to_dict("records")
    )
    numbers = ["Saves", "Of its cost"]
    text = (
        f"The jobs that metadata servers twice as fast would help most ({hours} "
        "saved), those with the most certain savings first."
    )
    shown = Table("Savings", table, numbers, _links(rows, pages))
    items = [Words(text), Words(f"{RULE_NOTE} {NO_MODEL}"), shown]
    return Section("metadata", "Faster metadata servers", items)


def _outliers(
    rows: pd.DataFrame, known: Mapping[str, Any], pages: Mapping[str, str]
) -> Section:
    """Return the jobs that differ from others, with the reason."""
    table = pd.DataFrame(
        {
            "Job": seen(row["job"], NAME_LETTERS),
            "Program": seen(row["exe"], NAME_LETTERS),
            "User": seen(row["user"], NAME_LETTERS),
            "Why": seen(row["outlier"]),
        }
        for row in rows.to_dict("records")
    )
    shown = Table("Outliers", table, (), _links(rows, pages))
    items: list = [_searched(shown)] if len(rows) else []
    items += _more(known["n_outliers"] - len(rows), "fleet")
    return Section("outliers", "Outliers", items)


def _refusals(rows: pd.DataFrame, n_refused: int) -> Section:
    """Return the logs that could not be used, each with its reason."""
    if rows.empty:
        return Section("refusals", "Logs that could not be used", [])
    table = pd.DataFrame(
        {
            "Log": [seen(log, PATH_LETTERS) for log in rows["log"]],
            "Reason": list(map(seen, rows["reason"])),
        }
    )
    shown = _searched(Table("Refusals", table))
    items = [shown, *_more(n_refused - len(rows), "refusals")]
    return Section("refusals", "Logs that could not be used", items)


def _tiers(tables: JobTables) -> Section:
    """Return which paths belong to which tier."""
    every = prefixes(tables)
    rows = every.head(MOST_ROWS)
    if rows.empty:
        return Section("tiers", "Tiers", [])
    table = pd.DataFrame(
        {
            "Tier": seen(row["tier"], NAME_LETTERS),
            "Paths that begin with": seen(row["prefix"], PATH_LETTERS),
            "File system": seen(row["fs_type"], NAME_LETTERS),
            "Logs": f"{row['n_logs']:,}",
        }
        for row in rows.to_dict("records")
    )
    text = (
        "Tier other: paths of no tier. Tier unnamed: records whose path was lost. "
        "MPI-IO is not counted, as its calls reach POSIX."
    )
    n_more = len(every) - len(rows)
    shown = _searched(Table("Tiers", table, ["Logs"]))
    return Section(
        "tiers", "Tiers", [shown, *_more(n_more, "tier_prefixes"), Words(text)]
    )
