"""Say in a sentence who the slowest process of a job is, and what it waits for."""

import math
from collections.abc import Sequence

import numpy as np

from tierscope.core.columns import LOWER_BOUNDS
from tierscope.core.words import bounds_words, class_label, number_words
from tierscope.logs.fleet import FasterMeta
from tierscope.logs.join import JoinedJobs, Phases

_MOST_LABELS = 3
_HALF = 50.0  # percent
_NEARLY = 0.99  # of the most that the slowest can take: who takes that is named
_SAME, _SAME_S = 1e-9, 1e-8  # bounds that differ by less are equal, in words


def add_words(jobs: JoinedJobs, meta: Sequence[FasterMeta]) -> None:
    """Add the bottleneck and a sentence to each row of table ``job_slowest``."""
    table, phases = jobs.columns["job_slowest"], jobs.phases
    names = ("n_slowest", "least_s", "most_s", "run_least_percent", "run_most_percent")
    columns = [table[name].tolist() for name in names]
    who = _largest_recorded(phases)
    class_s = (
        phases.slowest.class_least_s.tolist(),
        phases.slowest.class_most_s.tolist(),
    )
    labels, sentences = [], []
    for phase, (classes, n_slowest, *bounds) in enumerate(
        zip(phases.classes, *columns, strict=True)
    ):
        n = len(classes)
        label, share = bottleneck(classes, *(of[phase][:n] for of in class_s))
        is_lower = phases.times_are[phase] == LOWER_BOUNDS
        epoch = int(phases.epoch[phase])
        where = "" if phases.is_whole[phase] else f" in epoch {epoch}"
        if label == "none" and is_lower:
            label = "unknown"
            words = f"No I/O time is recorded{where}, but not all I/O is recorded."
        elif label == "none":
            words = f"No process spent time on I/O{where}."
        else:
            ranks = table["slowest_ranks"][phase]
            name = _who(phases.times.n_processes[phase], n_slowest, ranks, *who[phase])
            time = _time_words(*bounds, is_whole=not where)
            words = f"{name} spent {time} on I/O{where}, {share} on {label}."
            if not where and not is_lower:
                words += meta_words(*meta[phases.job[phase]])
        labels.append(label)
        sentences.append(words)
    table |= {"bottleneck": labels, "sentence": sentences}


def meta_words(tier: str, least_s: float, most_s: float) -> str:
    """Return what a metadata server of twice the speed saves; nothing if nothing."""
    if not tier or not most_s > 0:
        return ""
    saved = bounds_words(least_s, most_s)
    return f" If META on {tier} were twice as fast, it would save {saved}."


def _time_words(
    least_s: float,
    most_s: float,
    least_percent: float,
    most_percent: float,
    *,
    is_whole: bool,
) -> str:
    """Return the time of the slowest process, of whole jobs with its part."""
    time = bounds_words(least_s, most_s)
    if is_whole and not math.isnan(least_percent):
        time += f" ({bounds_words(least_percent, most_percent, '%')} of the run time)"
    return time


def _largest_recorded(phases: Phases) -> list[tuple[int, float, float]]:
    """Return who has the largest least time by phase, that, and the largest most."""
    times = phases.recorded
    least_s, most_s = (
        times.largest(times.total_least_s),
        times.largest(times.total_most_s),
    )
    is_largest = times.total_least_s == least_s[times.phase]
    rank = times.smallest(np.where(is_largest, times.rank, len(times.rank)))
    return list(zip(rank.tolist(), least_s.tolist(), most_s.tolist(), strict=True))


def bottleneck(
    classes: Sequence[tuple[str, str, str]],
    least_s: Sequence[float],
    most_s: Sequence[float],
) -> tuple[str, str]:
    """Return the class on which the slowest process spends most, and how much that is.

    Both are words. If bounds leave it open, the label has the largest three classes.
    The share, such as ``61 % of it``, has no percentage if records were lost: then a
    time in `most_s` is not finite.
    """
    is_bounded = all(map(math.isfinite, most_s))
    most_s = [
        most if math.isfinite(most) else least
        for least, most in zip(least_s, most_s, strict=True)
    ]
    if not classes or not max(most_s) > 0:
        return "none", ""
    largest_s = max(least_s)
    if not is_bounded:
        label = class_label(*classes[least_s.index(largest_s)])
        return label, "the largest recorded part of it"
    possible = [i for i, most in enumerate(most_s) if most >= largest_s and most > 0]
    possible.sort(key=lambda i: -most_s[i])
    labels = [class_label(*classes[i]) for i in possible]
    if len(labels) > 1:
        others = " or others" if len(labels) > _MOST_LABELS else ""
        return " or ".join(labels[:_MOST_LABELS]) + others, "the largest part of it"
    (one,) = possible
    others_s = math.fsum(most for i, most in enumerate(most_s) if i != one)
    least_percent = 100 * least_s[one] / (least_s[one] + others_s)
    if all(
        abs(most - least) <= _SAME_S + _SAME * least
        for least, most in zip(least_s, most_s, strict=True)
    ):
        return labels[0], f"{least_percent:.0f} % of it"
    part = "most of it" if least_percent > _HALF else "the largest part of it"
    return labels[0], part


def _who(
    n: int, n_slowest: int, ranks: str, rank: int, least_s: float, most_s: float
) -> str:
    """Return the slowest of `n` processes in words, the beginning of a sentence."""
    if n == 1:
        return "The process"
    if n_slowest == 1:
        return f"Rank {ranks} of {n} processes"
    if least_s < _NEARLY * most_s:
        return f"The slowest process of {n} ({ranks})"
    within = number_words(most_s - least_s)
    return f"Rank {rank} of {n} processes, or another within {within} s of it,"
