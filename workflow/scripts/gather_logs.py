"""Gather the tables of all jobs from those of the chunks."""

import re
from collections.abc import Mapping
from pathlib import Path

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import count, first_rows, prefixes
from tierscope.core.files import log_to, write_text
from tierscope.core.words import printable
from tierscope.logs.chunks.gather import gather
from tierscope.logs.jobs import JOB_TABLES
from tierscope.logs.settings import Settings, settings_of
from tierscope.logs.tiers import AUTO
from tierscope.pages.logs.anonymous import anonymise

_MOST_REFUSALS = 5
_MOST_PREFIXES = 6  # of a tier


def unused(tables: JobTables, settings: Settings) -> list[str]:
    """Return which parts of the configuration match nothing, a sentence each."""
    found: list[tuple[str, str]] = []
    if settings.tiers != AUTO:
        used = set(prefixes(tables)["prefix"])
        found += [
            (f"tiers.{tier.name} matches no path", tier.prefix)
            for tier in settings.tiers
            if tier.prefix not in used
        ]
    in_epochs = "SELECT count(*) AS n FROM job_slowest WHERE epoch >= 0"
    if settings.epochs and not tables.ask_one(in_epochs)["n"]:
        found.append(("epochs matches no path", settings.epochs))
    if isinstance(settings.group, Mapping):
        found += [
            (f"group.{key} matches no log", pattern)
            for key, pattern in settings.group.items()
            if not any(
                re.search(pattern, log) for log in tables.each("SELECT log FROM logs")
            )
        ]
    return [f"{what}." if settings.anonymous else f"{what}: {it}" for what, it in found]


def summary(tables: JobTables) -> str:
    """Return what was read, which tiers were found, and what was refused, in words."""
    n_logs, n_refused = (count(tables, name) for name in ("logs", "refusals"))
    n_jobs = count(tables, "jobs")
    lines = [f"{n_logs} of {n_logs + n_refused} logs can be used. Jobs: {n_jobs}."]
    for tier, rows in prefixes(tables).groupby("tier", sort=False):
        most_used = rows.sort_values("n_logs", ascending=False, kind="stable")
        words = [
            f"{row.prefix} ({row.fs_type})" if row.fs_type else row.prefix
            for row in most_used.head(_MOST_PREFIXES).itertuples()
        ]
        if len(rows) > _MOST_PREFIXES:
            words.append(f"{len(rows) - _MOST_PREFIXES} more in table tier_prefixes")
        lines.append(f"Tier {tier}: {', '.join(words)}.")
    refused = first_rows(tables, "refusals", _MOST_REFUSALS)
    lines += [f"Refused: {row.log}: {row.reason}" for row in refused.itertuples()]
    if n_refused > _MOST_REFUSALS:
        lines.append(f"{n_refused - _MOST_REFUSALS} more in table refusals.")
    if count(tables, "job_slowest") == 1:
        lines += tables.each("SELECT sentence FROM job_slowest")
    if n_jobs == 1:
        lines += filter(None, tables.each("SELECT remarks FROM jobs"))
    else:
        remarked = "SELECT count(*) AS n FROM jobs WHERE remarks <> ''"
        if n := tables.ask_one(remarked)["n"]:
            lines.append(f"{n} of {n_jobs} jobs have remarks (table jobs).")
    return "\n".join(map(printable, lines))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    settings = settings_of(**params.settings)
    unmatched: list[str] = []
    gather(
        [Path(chunk) for chunk in snakemake.input.chunks],
        settings,
        kept=Path(params.kept),
        tables=Path(snakemake.output.jobs).parent,
        look=lambda places: unmatched.extend(unused(JobTables(places), settings)),
        without_names=anonymise if settings.anonymous else None,
    )
    tables = JobTables({name: snakemake.output[name] for name in JOB_TABLES})
    kept = [f"Jobs: {words}." for words in [settings.filter_words()] if words]
    text = "\n".join([summary(tables), *kept, *unmatched])
    write_text(snakemake.output.summary, text + "\n")
