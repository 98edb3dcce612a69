"""Put a job of Darshan logs on one page: what its slowest process waits for."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tierscope.analysis.training.limit import LEAST_STORAGE_PERCENT, Advice
from tierscope.core.columns import BOUNDS, EXACT, LOWER_BOUNDS, RULE
from tierscope.core.provenance import RULE_NOTE, Origin
from tierscope.core.words import (
    bounds_words,
    count_words,
    number_words,
    time_words,
)
from tierscope.figures.logs.processes import (
    WHOLE_JOB,
    has_epochs,
    median_bounds,
    ordered_bounds,
    times_in,
    whole_job,
    with_io,
)
from tierscope.pages.content import (
    NAME_LETTERS,
    PATH_LETTERS,
    Drawing,
    Facts,
    Section,
    Table,
    Words,
    page_context,
    seen,
)
from tierscope.pages.document import Picture
from tierscope.pages.logs.job_tables import (
    MOST_LOGS,
    breakdown_table,
    combinations_table,
    epochs_table,
    estimates_table,
    files_table,
    logs_table,
    processes_table,
    sizes_table,
)

OF_JOBS = (
    "jobs",
    "logs",
    "job_times",
    "job_processes",
    "job_slowest",
    "job_breakdown",
    "job_files",
    "job_sizes",
    "job_estimates",
    "job_combinations",
)
TIMES_WORDS = {
    EXACT: "exact: each process has its own records",
    BOUNDS: "bounds: processes share records",
    LOWER_BOUNDS: "lower bounds: a log lacks records or times",
}
_NOT_KNOWN = "not known"
NO_MODEL = "No model checks it here: logs do not determine the devices."
_WARNINGS = {
    BOUNDS: "Processes of this job share records, so times of single processes are "
    "known within bounds. Each bound holds; the truth can be anywhere between.",
    LOWER_BOUNDS: "A log of this job lacks records or times; the remarks say why. All "
    "its times are lower bounds.",
}


def rows_of_job(tables: Mapping[str, pd.DataFrame], job: str) -> dict[str, Any]:
    """Return the rows of a job in each table that a job's page shows."""
    return {name: tables[name][tables[name]["job"] == job] for name in OF_JOBS}


def job_page(
    tables: Mapping[str, pd.DataFrame],
    job: str,
    *,
    pictures: Sequence[Picture],
    provenance: Origin,
    explorer: str = "",
    no_explorer: str = "",
    fleet_page: str = "",
    processes_per_node: int | None = None,
) -> dict[str, Any]:
    """Return the content of a job's page, for template ``logs.html.j2``.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The tables of `OF_JOBS`; rows of other jobs are left out.
    job : str
        The job.
    pictures : sequence of Picture
        Figures ``breakdown`` and ``processes``, as far as they exist.
    provenance : Origin
        Where the numbers come from.
    explorer, no_explorer : str, optional
        The address of the job's explorer, or the reason why there is none.
    fleet_page : str, optional
        The address of the page of all jobs.
    processes_per_node : int, optional
        Processes on a node, if the configuration says so.

    Raises
    ------
    ValueError
        If the tables lack the job.
    """
    of = rows_of_job(tables, job)
    if of["jobs"].empty or whole_job(of["job_slowest"]).empty:
        raise ValueError(f"job page: got no rows of job {job!r}, expected some.")
    row = of["jobs"].iloc[0]
    drawings = {picture.name: Drawing(picture) for picture in pictures}
    sections = [
        _summary(of, explorer, no_explorer),
        _breakdown(of, drawings),
        _processes(of, drawings),
        _files(of),
        _sizes(of),
        _whatif(of),
        _origin(of, row, processes_per_node),
    ]
    user = seen(row["user"], NAME_LETTERS)
    by = f"by user {user}" if user.isdigit() else f"by {user}"
    lead = f"{seen(row['exe'], PATH_LETTERS) or 'unknown program'}, {by}"
    return page_context(
        f"I/O of job {seen(job, NAME_LETTERS)} (Darshan logs)",
        f"{lead}, {count_words(row['n_processes'], 'process', 'processes')}, started "
        f"{time_words(row['started_s'])}, "
        f"run time {run_time_words(row['run_time_s'])}.",
        sections,
        footer=f"Source: {provenance}. All numbers are in the Parquet files of the "
        "analysis.",
        warnings=[_WARNINGS[row["times_are"]]] if row["times_are"] in _WARNINGS else [],
        links={"All jobs": fleet_page} if fleet_page else {},
    )


def more_words(number: int, table: str) -> str:
    """Return that so many rows are in a table only."""
    return f"{count_words(number, 'more is', 'more are')} in table {table}."


def run_time_words(run_time_s: float) -> str:
    """Return a run time in words; missing: not known."""
    return f"{number_words(run_time_s)} s" if run_time_s >= 0 else _NOT_KNOWN


def _summary(
    of: Mapping[str, pd.DataFrame], explorer: str, no_explorer: str
) -> Section:
    """Return the answer in short."""
    slowest = whole_job(of["job_slowest"]).iloc[0]
    items = [Words(seen(slowest["sentence"]), "answer")]
    if remarks := of["jobs"]["remarks"].iloc[0]:
        items.append(Words(seen(remarks)))
    if explorer:
        note = "All improvements of the four classes of reading, with sliders:"
        items.append(Words(note, links={"Explore improvements": explorer}))
    elif no_explorer:
        items.append(Words(no_explorer))
    return Section("summary", "In short", items)


def _breakdown(of: Mapping[str, pd.DataFrame], drawings: Mapping) -> Section:
    """Return what the slowest process waits for, by epoch and by class."""
    slowest = whole_job(of["job_slowest"]).iloc[0]
    rows = whole_job(of["job_breakdown"])
    table = breakdown_table(rows, times_in(of["job_times"], WHOLE_JOB), slowest)
    items = [drawings["breakdown"]] if "breakdown" in drawings else []
    items.append(
        Table(
            "Classes of the slowest process",
            table,
            list(table.columns[1:]),
            title="Each class, whole job",
        )
    )
    items.append(
        Words(
            "Operations, bytes and files are those of all processes. META of a file "
            "that is read and written belongs to neither reading nor writing, so it is "
            "a class of its own. Tier other: paths of no tier; tier unnamed: records "
            "whose path was lost."
        )
    )
    if has_epochs(of["job_slowest"]):
        by_epoch = epochs_table(of["job_slowest"])
        numbers = list(by_epoch.columns[:3])
        items.append(Table("Epochs", by_epoch, numbers, title="Epochs"))
        n_left = of["job_slowest"]["epoch"].ge(0).sum() - len(by_epoch)
        if n_left:
            items.append(Words(more_words(n_left, "job_slowest")))
    return Section("breakdown", "What the slowest process waits for", items)


def _processes(of: Mapping[str, pd.DataFrame], drawings: Mapping) -> Section:
    """Return how the times spread over the processes."""
    slowest = whole_job(of["job_slowest"]).iloc[0]
    processes = with_io(of["job_processes"], WHOLE_JOB)
    if len(processes) < 2:
        return Section("processes", "Over the processes", [])
    items = [drawings["processes"]] if "processes" in drawings else []
    breakdown = whole_job(of["job_breakdown"])
    sum_s = breakdown.loc[breakdown["counted"], "sum_s"].sum()
    ordered = ordered_bounds(processes, breakdown)
    is_lost = slowest["times_are"] == LOWER_BOUNDS
    longest = bounds_words(slowest["least_s"], slowest["most_s"])
    shortest = bounds_words(*ordered.iloc[-1][["least_s", "most_s"]])
    together = bounds_words(sum_s, float("inf") if is_lost else sum_s)
    which = "with" if processes["least_s"].gt(0).all() else "that may have"
    items.append(
        Words(
            f"Of {len(processes):,} processes {which} I/O, the slowest took {longest}, "
            f"the median {bounds_words(*median_bounds(ordered))}, the fastest "
            f"{shortest}. Together they took {together}."
        )
    )
    if of["job_times"]["rank"].lt(0).any():
        helpers = "Logs of no process, such as those of helpers, are left out."
        items.append(Words(helpers))
    table = processes_table(processes, is_lost=is_lost)
    items.append(
        Table("Slowest processes", table, ["I/O time"], title="The slowest processes")
    )
    return Section("processes", "Over the processes", items)


def _files(of: Mapping[str, pd.DataFrame]) -> Section:
    """Return the files and folders that cost most."""
    items = []
    for kind in ("file", "folder"):
        table = files_table(of["job_files"], kind)
        if not table.empty:
            title = f"{kind.capitalize()}s that cost most"
            items.append(Table(title, table, list(table.columns[2:]), title=title))
    return Section("files", "Files and folders that cost most", items)


def _sizes(of: Mapping[str, pd.DataFrame]) -> Section:
    """Return how large the calls were."""
    table = sizes_table(of["job_sizes"])
    if table.empty:
        return Section("sizes", "Sizes of reads and writes", [])
    text = "How many calls of all processes read or wrote so many bytes (POSIX)."
    shown = Table("Sizes of calls", table, list(table.columns[1:]))
    return Section("sizes", "Sizes of reads and writes", [Words(text), shown])


def _whatif(of: Mapping[str, pd.DataFrame]) -> Section:
    """Return what faster storage would bring, and what meets the goal."""
    slowest = whole_job(of["job_slowest"]).iloc[0]
    estimates, combinations = (
        whole_job(rows)[lambda rows: rows["method"] == RULE]
        for rows in (of["job_estimates"], of["job_combinations"])
    )
    table, n_left = estimates_table(estimates)
    items: list = []
    if not table.empty:
        today = bounds_words(slowest["least_s"], slowest["most_s"])
        text = (
            f"I/O time of the slowest process in the whole job: {today} today, and "
            "after an improvement:"
        )
        items = [Words(text), Table("Improvements", table, list(table.columns[1:]))]
        if n_left:
            items.append(Words(more_words(n_left, "job_estimates")))
    advice = job_advice(of)
    if items and not advice.is_given:
        items.append(Words(advice.words))
    elif not combinations.empty:
        goal = number_words(combinations["goal_s"].iloc[0])
        text = (
            f"Combinations that meet the goal of {goal} s of I/O time, the least sum "
            "of percent first:"
        )
        found = combinations_table(combinations)
        numbers = ["Sum of percent", found.columns[1]]
        shown = Table("Combinations", found, numbers)
        items += [Words(text), shown]
        if n_left := len(combinations) - len(found):
            items.append(Words(more_words(n_left, "job_combinations")))
    if items:
        items.insert(0, Words(f"{RULE_NOTE} {NO_MODEL}"))
    return Section("whatif", "If storage were faster", items)


def job_advice(of: Mapping[str, pd.DataFrame]) -> Advice:
    """Return that no improvement is recommended for a job with little I/O time.

    `of` is what `rows_of_job` returns.
    """
    most_percent = whole_job(of["job_slowest"])["run_most_percent"].iloc[0]
    if not most_percent < LEAST_STORAGE_PERCENT:  # or not known
        return Advice()
    return Advice(
        False,
        f"No process spends more than {number_words(most_percent)} % of the run time "
        "on I/O, so storage hardly limits this job, and no combination is recommended.",
    )


def _origin(
    of: Mapping[str, pd.DataFrame], row: pd.Series, processes_per_node: int | None
) -> Section:
    """Return what the job is and the logs it was made of."""
    nodes = number_words(row["n_nodes"]) if row["n_nodes"] > 0 else _NOT_KNOWN
    if processes_per_node:
        of_node = count_words(processes_per_node, "process", "processes")
        nodes += f" (the configuration: {of_node} on a node)"
    about = {
        "name": seen(row["job"], NAME_LETTERS),
        "program": seen(row["exe"]),
        "user": seen(row["user"], NAME_LETTERS),
        "host": seen(row["host"], PATH_LETTERS),
        "started": time_words(row["started_s"]),
        "run time": run_time_words(row["run_time_s"]),
        "processes": f"{row['n_processes']:,}",
        "nodes": nodes,
    }
    made = {
        "logs": f"{row['n_logs']:,}",
        "grouped by": seen(row["grouped_by"]),
        "times are": TIMES_WORDS[row["times_are"]],
    }
    groups = {"Job": about, "Logs": made}
    shown = {
        name: {key: text for key, text in group.items() if text}
        for name, group in groups.items()
    }
    items: list = [Facts(shown)]
    logs = of["logs"]
    table = logs_table(logs)
    if not table.empty:
        numbers = ["Records", "Shared", "Without name"]
        items.append(Table("Logs", table, numbers, title="Its logs"))
    if len(logs) > MOST_LOGS:
        items.append(Words(more_words(len(logs) - MOST_LOGS, "logs")))
    return Section("logs", "What it was made of", items)
