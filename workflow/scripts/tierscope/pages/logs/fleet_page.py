"""Put all jobs of an analysis of Darshan logs on one page."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tierscope.core.columns import JOB_CLASS
from tierscope.core.provenance import RULE_NOTE, Origin
from tierscope.core.words import bounds_words, count_words
from tierscope.figures.fleet import cost_words, hours_words, most_hours
from tierscope.figures.logs.classes import counted, in_class_order, label
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
from tierscope.pages.logs.job_page import NO_MODEL, more_words, run_time_words

OF_FLEET = ("fleet", "fleet_classes", "logs", "refusals", "tier_prefixes")
SHARE = "Share of what is certain"
COST = "Cost"
IO_TIME = "I/O time, and its part of the run time"
MOST_ROWS, MOST_SAVINGS = 500, 20


def fleet_page(
    tables: Mapping[str, pd.DataFrame],
    *,
    experiment: str,
    picture: Picture | None,
    provenance: Origin,
    pages: Mapping[str, str] | None = None,
    processes_per_node: int | None = None,
) -> dict[str, Any]:
    """Return the content of the page of all jobs, for template ``logs.html.j2``.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The tables of `OF_FLEET`.
    experiment : str
        Name of the analysis.
    picture : Picture or None
        The figure of all jobs.
    provenance : Origin
        Where the numbers come from.
    pages : mapping of str to str, optional
        The address of the page of each job that has one.
    processes_per_node : int, optional
        Processes on a node, if the configuration says so.
    """
    fleet, refusals = tables["fleet"], tables["refusals"]
    n_logs = len(tables["logs"]) + len(refusals)
    lead = f"{count_words(len(fleet), 'job')} from {count_words(n_logs, 'log')}"
    if len(refusals):
        lead += f"; {count_words(len(refusals), 'log')} could not be used"
    hours = hours_words(fleet["hours_of"])
    sections = [
        _summary(fleet, tables["fleet_classes"], hours, processes_per_node),
        Section("figure", "Figure", [Drawing(picture)] if picture else []),
        _jobs(fleet, hours, pages or {}),
        _savings(fleet, hours, pages or {}),
        _outliers(fleet, pages or {}),
        _refusals(refusals),
        _tiers(tables["tier_prefixes"]),
    ]
    return page_context(
        f"I/O of jobs: {seen(experiment, NAME_LETTERS)} (Darshan logs)",
        f"{lead}.",
        sections,
        footer=f"Source: {provenance}. All numbers are in the Parquet files of the "
        "analysis.",
    )


def classes_table(fleet_classes: pd.DataFrame) -> pd.DataFrame:
    """Return what all jobs cost by class (``fleet_classes``), the dearest class first.

    Classes without hours are left out. A job that may have a class is in the upper
    bound of the number of jobs.
    """
    rows = counted(fleet_classes)
    ends = ["least_hours", "most_hours"]
    by_class = rows.groupby(JOB_CLASS)
    sums = by_class[ends].agg(lambda hours: hours.sum(skipna=False))
    has = rows[ends].ne(0)  # of an unknown upper bound, too
    n_jobs = has.groupby([rows[name] for name in JOB_CLASS]).sum()
    whole = sums["least_hours"].sum()
    order = in_class_order(sums.index[sums.ne(0).any(axis="columns")])
    known = sums.reindex(order).fillna(0).sort_values(ends, ascending=False)
    return pd.DataFrame(
        {
            "Class": label(*one),
            COST: cost_words(*sums.loc[one]),
            SHARE: f"{100 * sums.loc[one, 'least_hours'] / whole:.1f} %"
            if whole
            else "",
            "Jobs": _range_words(*n_jobs.loc[one]),
        }
        for one in known.index
    )


def _range_words(least: int, most: int) -> str:
    """Return bounds of a number of things, such as ``0 to 3``."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _summary(
    fleet: pd.DataFrame,
    fleet_classes: pd.DataFrame,
    hours: str,
    processes_per_node: int | None,
) -> Section:
    """Return what all jobs spend, by class."""
    if fleet.empty:
        text = "No log could be used; the reasons are below."
        return Section("summary", "In short", [Words(text, "answer")])
    costs = [fleet["io_hours"], most_hours(fleet)]
    ends = ["meta_saved_least_hours", "meta_saved_most_hours"]
    cost, saved = (
        cost_words(*(column.sum(skipna=False) for column in columns), hours)
        for columns in (costs, [fleet[end] for end in ends])
    )
    text = (
        f"I/O of all jobs costs {cost}. By the paper's rule, metadata servers twice as "
        f"fast would save {saved} (of each job, on the tier where it helps most)."
    )
    how = (
        "A job costs the I/O time of its slowest process times its nodes: all others "
        "wait for it."
    )
    if processes_per_node:
        of_node = count_words(processes_per_node, "process", "processes")
        how += f" The configuration says {of_node} on a node."
    if fleet["hours_of"].eq("processes").any():
        how += " Where the number of nodes is not known, it counts processes."
    how += f" In the tables, h, min and s are {hours} and parts of them."
    table = classes_table(fleet_classes)
    shown = Table("Classes", table, [COST, SHARE, "Jobs"], title="By class")
    items = [Words(text, "answer"), Words(how), shown]
    return Section("summary", "In short", items)


def _links(rows: pd.DataFrame, pages: Mapping[str, str]) -> dict[int, str]:
    """Return the address of the page of each row's job, by position."""
    return {place: pages[job] for place, job in enumerate(rows["job"]) if job in pages}


def _jobs(fleet: pd.DataFrame, hours: str, pages: Mapping[str, str]) -> Section:
    """Return all jobs, the most costly first."""
    by = ["io_hours", "job"]
    rows = fleet.assign(most_hours=most_hours(fleet))
    rows = rows.sort_values(by, ascending=[False, True]).head(MOST_ROWS)
    if rows.empty:
        return Section("jobs", "Jobs", [])
    is_mixed = fleet["hours_of"].nunique() > 1
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
            + (" *" if is_mixed and row["hours_of"] == "processes" else ""),
            "Bottleneck": seen(row["bottleneck"], NAME_LETTERS),
        }
        for row in rows.to_dict("records")
    )
    numbers = ["Processes", "Run time", IO_TIME, COST]
    words = f"The most costly first ({hours} of I/O)."
    if is_mixed:
        words += " *: hours of processes."
    if len(fleet) > len(rows):
        words += f" {more_words(len(fleet) - len(rows), 'fleet')}"
    if pages:
        have = (
            "job has a page of its own"
            if len(pages) == 1
            else "jobs have pages of their own"
        )
        words += f" {len(pages):,} {have}."
    shown = Table("Jobs", table, numbers, _links(rows, pages))
    return Section("jobs", "Jobs", [Words(words), shown])


def part_words(row: Mapping[str, Any]) -> str:
    """Return the part of I/O of a job's run time (a row of ``fleet``)."""
    least, most = row["io_least_percent"], row["io_most_percent"]
    return "unknown part" if pd.isna(least) else bounds_words(least, most, "%")


def _savings(fleet: pd.DataFrame, hours: str, pages: Mapping[str, str]) -> Section:
    """Return the jobs that faster metadata servers would help most."""
    by = ["meta_saved_least_hours", "meta_saved_most_hours"]
    some = fleet[fleet[by].fillna(1).gt(0).any(axis="columns")]
    some = some.assign(most_hours=most_hours(some))
    rows = some.sort_values(by, ascending=False, kind="stable").head(MOST_SAVINGS)
    if rows.empty:
        return Section("metadata", "Faster metadata servers", [])
    table = pd.DataFrame(
        {
            "Job": seen(row["job"], NAME_LETTERS),
            "Program": seen(row["exe"], NAME_LETTERS),
            "Metadata server of": seen(row["meta_tier"], NAME_LETTERS),
            "Saves": cost_words(row[by[0]], row[by[1]]),
            "Of its cost": cost_words(row["io_hours"], row["most_hours"]),
            "Bottleneck": seen(row["bottleneck"], NAME_LETTERS),
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


def _outliers(fleet: pd.DataFrame, pages: Mapping[str, str]) -> Section:
    """Return the jobs that differ from others, with the reason."""
    rows = fleet[fleet["outlier"] != ""].head(MOST_ROWS)
    table = pd.DataFrame(
        {
            "Job": seen(row["job"], NAME_LETTERS),
            "Program": seen(row["exe"], NAME_LETTERS),
            "User": seen(row["user"], NAME_LETTERS),
            "Why": seen(row["outlier"]),
        }
        for row in rows.to_dict("records")
    )
    items = [Table("Outliers", table, (), _links(rows, pages))] if len(rows) else []
    return Section("outliers", "Outliers", items)


def _refusals(refusals: pd.DataFrame) -> Section:
    """Return the logs that could not be used, each with its reason."""
    rows = refusals.head(MOST_ROWS)
    if rows.empty:
        return Section("refusals", "Logs that could not be used", [])
    table = pd.DataFrame(
        {
            "Log": [seen(log, PATH_LETTERS) for log in rows["log"]],
            "Reason": list(map(seen, rows["reason"])),
        }
    )
    items: list = [Table("Refusals", table)]
    if len(refusals) > len(rows):
        items.append(Words(more_words(len(refusals) - len(rows), "refusals")))
    return Section("refusals", "Logs that could not be used", items)


def _tiers(prefixes: pd.DataFrame) -> Section:
    """Return which paths belong to which tier."""
    if prefixes.empty:
        return Section("tiers", "Tiers", [])
    table = pd.DataFrame(
        {
            "Tier": seen(row["tier"], NAME_LETTERS),
            "Paths that begin with": seen(row["prefix"], PATH_LETTERS),
            "File system": seen(row["fs_type"], NAME_LETTERS),
            "Logs": f"{row['n_logs']:,}",
        }
        for row in prefixes.to_dict("records")
    )
    text = (
        "Tier other: paths of no tier. Tier unnamed: records whose path was lost. "
        "MPI-IO is not counted, as its calls reach POSIX."
    )
    return Section("tiers", "Tiers", [Table("Tiers", table, ["Logs"]), Words(text)])
