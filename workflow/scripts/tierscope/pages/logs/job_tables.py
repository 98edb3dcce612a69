"""The tables of one job in words, as its page shows them.

Each function takes rows of one job from the table that its docstring names, and returns
a DataFrame of str.
"""

import math
import re

import pandas as pd

from tierscope.core.columns import JOB_CLASS
from tierscope.core.words import bounds_words, number_words, size_words
from tierscope.figures.logs.classes import in_class_order, label
from tierscope.figures.logs.processes import has_epochs
from tierscope.pages.content import NAME_LETTERS, PATH_LETTERS, seen

MOST_ESTIMATES, MOST_COMBINATIONS, MOST_LOGS = 15, 15, 50
MOST_FILES, MOST_PROCESSES, MOST_EPOCHS = 20, 10, 100
_PERCENT = re.compile(r" \+\d+ %")
_OF_TIER = re.compile("(metadata server of|everything on) (.*)")
TIME = "I/O time of the slowest process"


def epochs_table(slowest: pd.DataFrame) -> pd.DataFrame:
    """Return the slowest process of each of the first epochs (``job_slowest``)."""
    return pd.DataFrame(
        {
            "Epoch": str(row["epoch"]),
            TIME: bounds_words(row["least_s"], row["most_s"]),
            "Of the run time": run_part_words(row),
            "Slowest process": ranks_words(row),
            "Most I/O time": seen(row["bottleneck"], NAME_LETTERS),
        }
        for row in _rows(slowest[slowest["epoch"] >= 0].sort_values("epoch"))[
            :MOST_EPOCHS
        ]
    )


def run_part_words(row: pd.Series | dict) -> str:
    """Return the part of I/O of the run time (a row of ``job_slowest``)."""
    least, most = row["run_least_percent"], row["run_most_percent"]
    return "unknown" if math.isnan(least) else bounds_words(least, most, "%")


def ranks_words(row: pd.Series | dict) -> str:
    """Return which process is the slowest, or can be (a row of ``job_slowest``)."""
    ranks = seen(row["slowest_ranks"], NAME_LETTERS)
    if row["n_slowest"] == 1:
        return f"rank {ranks}"
    return ranks if ranks.startswith("any") else f"one of ranks {ranks}"


def breakdown_table(
    breakdown: pd.DataFrame, times: pd.DataFrame, slowest: pd.Series
) -> pd.DataFrame:
    """Return the classes of the slowest process (``job_breakdown``, whole job).

    `times` are the rows of ``job_times`` and `slowest` the row of ``job_slowest`` of
    the whole job. If the slowest process is known and left several logs, the largest
    of them has a column.
    """
    known = {tuple(row[name] for name in JOB_CLASS): row for row in _rows(breakdown)}
    logs_s = _largest_logs(times, slowest)
    rows = []
    for one in in_class_order(known):
        row = known[one]
        words = {"Class": label(*one)}
        words["Slowest process"] = bounds_words(row["least_s"], row["most_s"])
        if not row["counted"]:
            words["Class"] += " (not counted: its calls reach POSIX)"
            words["Slowest process"] = "\N{EN DASH}"
        if logs_s:
            words["Its largest log"] = f"{number_words(logs_s.get(one, 0.0))} s"
        words["All processes"] = f"{number_words(row['sum_s'])} s"
        words["Operations"] = f"{row['operations']:,}"
        words["Bytes"] = size_words(row["bytes"]) if row["bytes"] else "0"
        words["Files"] = f"{row['files']:,}"
        rows.append(words)
    return pd.DataFrame(rows)


def _rows(frame: pd.DataFrame) -> list[dict]:
    """Return the rows of a table as mappings."""
    return frame.to_dict("records")


def _largest_logs(times: pd.DataFrame, slowest: pd.Series) -> dict[tuple, float]:
    """Return by class the time of the slowest process's largest log."""
    is_known = slowest["n_slowest"] == 1 and slowest["slowest_ranks"].isdigit()
    if not is_known or has_epochs(times):  # each epoch has a largest log
        return {}
    rows = times[times["rank"] == int(slowest["slowest_ranks"])]
    if not (rows["largest_s"] < (1 - 1e-9) * rows["least_s"]).any():
        return {}
    keys = map(tuple, rows[JOB_CLASS].to_numpy())
    return dict(zip(keys, rows["largest_s"], strict=True))


def processes_table(processes: pd.DataFrame, *, is_lost: bool) -> pd.DataFrame:
    """Return the processes with the longest I/O time.

    `processes` is what `tierscope.figures.logs.processes.with_io` returns. If records
    were lost, every process can be the slowest, and the table does not say so.
    """
    table = pd.DataFrame(
        {
            "Process": f"rank {row['rank']}",
            "I/O time": bounds_words(row["least_s"], row["most_s"]),
            "Can be the slowest": "yes" if row["can_be_slowest"] else "no",
        }
        for row in _rows(processes.head(MOST_PROCESSES))
    )
    return table.drop(columns="Can be the slowest") if is_lost else table


def files_table(files: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the files or folders that cost most (``job_files``)."""
    of_kind = files[files["kind"] == kind].sort_values("position").head(MOST_FILES)
    return pd.DataFrame(
        {
            kind.capitalize(): seen(row["path"], PATH_LETTERS) or "(no name)",
            "Tier": seen(row["tier"], NAME_LETTERS),
            "Time of all processes": f"{number_words(row['time_s'])} s",
            "Opens": f"{row['opens']:,}",
            "Reads": f"{row['reads']:,}",
            "Writes": f"{row['writes']:,}",
            "Read": size_words(row["bytes_read"]) if row["bytes_read"] else "0",
            "Written": size_words(row["bytes_written"])
            if row["bytes_written"]
            else "0",
        }
        for row in _rows(of_kind)
    )


def sizes_table(sizes: pd.DataFrame) -> pd.DataFrame:
    """Return how many calls had which size, tiers and operations as columns."""
    ordered = sizes.sort_values("position", kind="stable")
    positions = ordered.drop_duplicates("size")["size"]
    by = ["tier", "operation"]
    calls = {
        f"{seen(tier, NAME_LETTERS)} {operation.upper()}": rows.groupby("size")["calls"]
        .sum()
        .reindex(positions, fill_value=0)
        for (tier, operation), rows in ordered.groupby(by, sort=True)
        if rows["calls"].any()
    }
    if not calls:
        return pd.DataFrame()
    table = pd.DataFrame(calls)
    used = table[table.sum(axis="columns") > 0]
    words = used.map(lambda n: f"{n:,}")
    words.insert(
        0, "Bytes of a call", [seen(size, NAME_LETTERS) for size in used.index]
    )
    return words.reset_index(drop=True)


def estimates_table(estimates: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return what improvements would bring, those that save most first.

    Rows of ``job_estimates`` of the whole job and one method; the same classes with
    several percentages are one row, a column a percentage. Rows that say the same of a
    tier are one. Also how many rows are left out.
    """
    if estimates.empty:
        return pd.DataFrame(), 0
    bases = estimates["improvement"].str.replace(_PERCENT, "", regex=True)
    rows = estimates.assign(base=bases)
    best = rows.groupby("base", sort=False)[["saved_least_s", "saved_most_s"]].max()
    best = best.fillna(0).sort_values(
        ["saved_least_s", "saved_most_s"], ascending=False, kind="stable"
    )
    cells = rows.groupby(["base", "improvement_percent"]).first()
    percents = sorted(rows["improvement_percent"].unique())
    names = _names_of_same(rows.groupby("base")["n_classes"].first())
    shown = [base for base in best.index if base in names]
    table = []
    for base in shown[:MOST_ESTIMATES]:
        words = {"More throughput of": seen(names[base], 2 * NAME_LETTERS)}
        for percent in percents:
            known = (base, percent) in cells.index
            words[f"+{percent} %"] = (
                _estimate_words(cells.loc[(base, percent)]) if known else ""
            )
        table.append(words)
    return pd.DataFrame(table), max(0, len(shown) - MOST_ESTIMATES)


def _names_of_same(n_classes: pd.Series) -> dict[str, str]:
    """Return the names of improvements, one for those that improve the same classes."""
    names = {base: base for base in n_classes.index}
    of_tier = {base: found for base in names if (found := _OF_TIER.fullmatch(base))}
    for base, (what, tier) in {one: it.groups() for one, it in of_tier.items()}.items():
        is_server = what == "metadata server of"
        same = [
            other
            for other in names
            if other not in of_tier
            and n_classes[other] == n_classes[base] == other.count(", ") + 1
            and all(
                part.startswith(f"{tier} ") and (not is_server or "META" in part)
                for part in other.split(", ")
            )
        ]
        server = f"metadata server of {tier}"
        if not is_server and n_classes.get(server) == n_classes[base]:
            del names[base]  # everything on it is metadata
        elif same:
            names[base] += f" ({same[0]})"  # metadata server of gfs (gfs META)
            del names[same[0]]
    return names


def _estimate_words(row: pd.Series) -> str:
    """Return the time after an improvement and what is saved."""
    after = bounds_words(row["least_s"], row["most_s"])
    saved = bounds_words(row["saved_least_s"], row["saved_most_s"])
    return f"{after}\nsaves {saved}"


def combinations_table(combinations: pd.DataFrame) -> pd.DataFrame:
    """Return improvements that meet the goal (``job_combinations``, whole job)."""
    rows = combinations.sort_values("position").head(MOST_COMBINATIONS)
    return pd.DataFrame(
        {
            "Improvement": seen(row["improvement"], 2 * NAME_LETTERS),
            TIME: bounds_words(row["least_s"], row["most_s"]),
            "Sum of percent": number_words(row["cost"]),
            "Meets the goal": "yes" if row["certain"] else "perhaps (bounds)",
        }
        for row in _rows(rows)
    )


def _mapped_words(row: dict) -> str:
    """Return how much of files a process has mapped into its memory."""
    if not row["n_mappings"]:
        return "nothing"
    is_known = not math.isnan(row["mapped_bytes"])
    size = size_words(row["mapped_bytes"]) if is_known else "size unknown"
    return f"{row['n_mappings']:,} mappings ({size})"


def logs_table(logs: pd.DataFrame) -> pd.DataFrame:
    """Return the logs of a job, and what they lack (``logs``)."""
    rows = logs.sort_values(["process", "log"]).head(MOST_LOGS)
    return pd.DataFrame(
        {
            "Log": seen(row["log"], PATH_LETTERS),
            "Process": f"rank {row['process']}" if row["process"] >= 0 else "all",
            "Format": seen(row["log_format"], NAME_LETTERS),
            "Modules": seen(row["modules"], NAME_LETTERS),
            "Lost records of": seen(row["partial"], NAME_LETTERS) or "none",
            "Records": f"{row['n_records']:,}",
            "Shared": f"{row['n_shared_records']:,}",
            "Without name": f"{row['n_nameless_records']:,}",
            "Mapped, not measured": _mapped_words(row),
        }
        for row in _rows(rows)
    )
