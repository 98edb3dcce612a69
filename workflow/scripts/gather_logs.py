"""Gather the tables of all jobs from those of the chunks."""

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import open_table
from tierscope.core.words import printable
from tierscope.logs.chunks.gather import gather
from tierscope.logs.settings import Settings, settings_of
from tierscope.logs.tiers import AUTO
from tierscope.pages.logs.anonymous import anonymise

_MOST_REFUSALS = 5
_MOST_PREFIXES = 6  # of a tier
# What is said of an analysis.
_SAID = {
    "logs": ["log"],
    "refusals": ["log", "reason"],
    "tier_prefixes": ["tier", "prefix", "fs_type", "n_logs"],
    "job_slowest": ["epoch", "sentence"],
    "jobs": ["remarks"],
}


def unused(tables: Mapping[str, pd.DataFrame], settings: Settings) -> list[str]:
    """Return which parts of the configuration match nothing, a sentence each."""
    found: list[tuple[str, str]] = []
    if settings.tiers != AUTO:
        used = set(tables["tier_prefixes"]["prefix"])
        found += [
            (f"tiers.{tier.name} matches no path", tier.prefix)
            for tier in settings.tiers
            if tier.prefix not in used
        ]
    if settings.epochs and not tables["job_slowest"]["epoch"].ge(0).any():
        found.append(("epochs matches no path", settings.epochs))
    if isinstance(settings.group, Mapping):
        logs = tables["logs"]["log"]
        found += [
            (f"group.{key} matches no log", pattern)
            for key, pattern in settings.group.items()
            if not any(re.search(pattern, path) for path in logs)
        ]
    return [f"{what}." if settings.anonymous else f"{what}: {it}" for what, it in found]


def summary(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what was read, which tiers were found, and what was refused, in words."""
    n_logs, refusals = len(tables["logs"]), tables["refusals"]
    lines = [
        f"{n_logs} of {n_logs + len(refusals)} logs can be used. Jobs: "
        f"{len(tables['jobs'])}."
    ]
    for tier, rows in tables["tier_prefixes"].groupby("tier", sort=False):
        most_used = rows.sort_values("n_logs", ascending=False, kind="stable")
        prefixes = [
            f"{row.prefix} ({row.fs_type})" if row.fs_type else row.prefix
            for row in most_used.head(_MOST_PREFIXES).itertuples()
        ]
        if len(rows) > _MOST_PREFIXES:
            prefixes.append(f"{len(rows) - _MOST_PREFIXES} more in table tier_prefixes")
        lines.append(f"Tier {tier}: {', '.join(prefixes)}.")
    for row in refusals.head(_MOST_REFUSALS).itertuples():
        lines.append(f"Refused: {row.log}: {row.reason}")
    if len(refusals) > _MOST_REFUSALS:
        lines.append(f"{len(refusals) - _MOST_REFUSALS} more in table refusals.")
    if len(tables["job_slowest"]) == 1:
        lines.append(tables["job_slowest"]["sentence"].iloc[0])
    remarks = tables["jobs"]["remarks"]
    if len(remarks) == 1:
        lines += list(filter(None, remarks))
    elif n_remarked := remarks.ne("").sum():
        lines.append(f"{n_remarked} of {len(remarks)} jobs have remarks (table jobs).")
    return "\n".join(map(printable, lines))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    settings = settings_of(**params.settings)
    gather(
        [Path(chunk) for chunk in snakemake.input.chunks],
        settings,
        kept=Path(params.kept),
        tables=Path(snakemake.output.jobs).parent,
        without_names=anonymise if settings.anonymous else None,
    )
    tables = {
        name: open_table(snakemake.output[name], name).to_table(columns).to_pandas()
        for name, columns in _SAID.items()
    }
    text = "\n".join([summary(tables), *unused(tables, settings)])
    write_text(snakemake.output.summary, text + "\n")
