"""The plan of a dry run: one line per rule, and one per scenario to be measured."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest

from snakemake_logger_plugin_tierscope.words import family, plural

# A reason that follows from the reason of another job.
_FOLLOWS = "Input files updated by another job"
_USUAL = ("Missing output files", _FOLLOWS)


def pattern(paths: Iterable[str]) -> str:
    """Return paths as one, with a star where they differ."""
    parts = zip_longest(*(path.split("/") for path in paths), fillvalue="")
    return "/".join(map(_common, parts))


def _common(names: Sequence[str]) -> str:
    """Return names as one: the words with which all begin and end, and a star."""
    if len(set(names)) == 1:
        return names[0]
    start = _shared_words(names)
    end = _shared_words([name[len(start) :][::-1] for name in names])[::-1]
    return f"{start}*{end}"


def _shared_words(names: Iterable[str]) -> str:
    """Return the common beginning of all names, up to the end of a word."""
    letters = takewhile(lambda some: len(set(some)) == 1, zip(*names, strict=False))
    return re.match(r"(.*[-_.])?", "".join(some[0] for some in letters))[0]


def why(reason: str) -> str:
    """Return the first reason for a job, without its files."""
    kinds = [part.partition(":")[0].strip() for part in reason.split("; ") if part]
    own = [kind for kind in kinds if kind != _FOLLOWS]
    return (own or kinds or [""])[0]


def planned_lines(records: Sequence[logging.LogRecord]) -> list[str]:
    """Return the plan of the jobs that a dry run has named."""
    by_rule: dict[str, list[logging.LogRecord]] = {}
    for record in records:
        if record.output:
            by_rule.setdefault(family(record.rule_name), []).append(record)
    width = max(map(len, by_rule), default=0)
    lines = []
    for rule, jobs in by_rule.items():
        makes = pattern(job.output[0] for job in jobs)
        more = len(jobs[0].output) - 1
        reasons = Counter(why(job.reason) for job in jobs)
        reason = reasons.most_common(1)[0][0]
        lines.append(
            f"{rule:<{width}}  {len(jobs):>4}  {makes}{f' (+{more})' if more else ''}"
            f"{f'  [{reason}]' if reason not in _USUAL else ''}"
        )
        lines += [f"{'':<{width}}        {line}" for line in launch_lines(jobs)]
    total = sum(map(len, by_rule.values()))
    return [*lines, f"{plural(total, 'job')} would run; nothing was run (-n)."]


def launch_lines(jobs: Sequence[logging.LogRecord]) -> Iterator[str]:
    """Yield for each scenario the launches of its points and their requests."""
    scenarios: dict[str, list[dict]] = {}
    for job in jobs:
        resources = dict(job.resources or {})
        if "launch" in resources:
            name = job.wildcards.get("scenario", job.rule_name)
            size = "minutes" in (job.rule_msg or "")  # it is submitted
            scenarios.setdefault(name, []).append(resources | {"size": size})
    for name, launches in scenarios.items():
        n_points = sum(int(launch.get("points", 1)) for launch in launches)
        words = f"{plural(n_points, 'point')} in {_launches(len(launches))}"
        yield f"{name}: {words}{_size(launches)}"


def _launches(number: int) -> str:
    return "one launch" if number == 1 else f"{number} launches"


def _size(launches: Sequence[dict]) -> str:
    """Return the request of launches to the scheduler, if there is one."""
    if not launches[0]["size"]:
        return ""
    times = [one.get("runtime") for one in launches]
    minutes = [time for time in times if isinstance(time, int)]
    nodes = sorted({one["nodes"] for one in launches})
    words = f" of {', '.join(map(str, nodes))} nodes"
    if not minutes:
        return words
    low, high = min(minutes), max(minutes)
    return f"{words}, {low if low == high else f'{low} to {high}'} minutes at most"
