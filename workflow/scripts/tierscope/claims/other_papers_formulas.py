"""The formulas of other papers' claims: each turns tables into one number.

`tierscope.claims.other_papers` reads the claims and judges them.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tierscope.analysis.accuracy import ALPHA
from tierscope.analysis.comparing.savings import paired_cuts
from tierscope.analysis.intervals import NO_INTERVAL, interval
from tierscope.analysis.nodes import hit_law, per_record
from tierscope.core.verdict import (
    Measured,
    NotMeasurable,
    Undecided,
    ends_words,
    with_unit,
)
from tierscope.core.words import count_words, short_number


@dataclass(frozen=True)
class Runs:
    """Runs of one dataset and OST count on which claims are checked.

    The tables are ``policy_epochs`` and ``policy_totals``; `loader` is that of files
    with which policies are judged, and `where` the runs' place in messages.
    """

    epochs: pd.DataFrame
    totals: pd.DataFrame
    loader: str
    where: str = "in the sweep"

    def of(self, policy: str, at_percent: int, loader: str | None = None) -> "Runs":
        """Return those of a policy at a cache rate, or raise a NotMeasurable.

        It is also raised if copies of the policy failed: then the LFS held too little.
        """
        keys = {"loader": loader or self.loader, "policy": policy}
        words, rows = [], self.epochs
        for key, value in keys.items():
            words.append(f"{key} {value}")
            rows = rows[rows[key] == value]
            if rows.empty:
                raise NotMeasurable(f"no run with {' and '.join(words)} {self.where}")
        rates = sorted(set(rows["cache_rate_percent"]))
        if at_percent not in rates:
            raise NotMeasurable(
                f"no run with {' and '.join(words)} at a cache rate of {at_percent} % "
                f"{self.where} (only at {', '.join(map(str, rates))} %)"
            )
        keys["cache_rate_percent"] = at_percent
        runs = replace(
            self,
            **{
                name: table[(table[list(keys)] == pd.Series(keys)).all(axis=1)]
                for name, table in (("epochs", self.epochs), ("totals", self.totals))
            },
        )
        if n_failed := runs.epochs["failed_files"].sum():
            raise NotMeasurable(
                f"{n_failed} cop{'ies' if n_failed > 1 else 'y'} of {policy} failed"
            )
        return runs

    def after(self, n_epochs: int) -> pd.DataFrame:
        """Return ``totals`` after a number of epochs, or raise a NotMeasurable."""
        rows = self.totals[self.totals["n_epochs"] == n_epochs]
        if rows.empty:
            most = count_words(self.totals["n_epochs"].max(), "epoch")
            raise NotMeasurable(
                f"runs have {most} (training.epochs), {n_epochs} are needed"
            )
        return rows


def time_cut(runs: Runs, policy: str, at_percent: int, n_epochs: int) -> Measured:
    """Return how much less time some epochs take with a policy in percent.

    That is the mean of the repetitions' cuts (`paired_cuts`).
    """
    rows = runs.of(policy, at_percent).after(n_epochs)
    cuts = paired_cuts(rows)["time_cut_percent"]
    words = (
        f"{short_number(rows['time_s'].mean())} instead of "
        f"{short_number(rows['reference_time_s'].mean())} s in "
        f"{count_words(n_epochs, 'epoch')}"
    )
    return _over_repetitions(cuts, words, "%")


def _over_repetitions(values: pd.Series, words: str, unit: str = "") -> Measured:
    """Return the mean of the repetitions' values with its interval, also in words.

    The claim is undecided if there is only one repetition.
    """
    found = interval(values)
    if not found.is_known:
        raise Undecided(Measured(found.mean, words), NO_INTERVAL)
    ends = found.low, found.high
    words += f"; interval {ends_words(ends, unit)} (n = {found.n})"
    return Measured(found.mean, words, ends)


def gfs_operations_cut(
    runs: Runs, policy: str, at_percent: int, n_epochs: int
) -> Measured:
    """Return how many fewer calls some epochs make on the GFS in percent."""
    rows = runs.of(policy, at_percent).after(n_epochs)
    parts = ["gfs_operations", "background_gfs_operations", "staging_gfs_operations"]
    calls, copies, staging = (rows[name].mean() for name in parts)
    reference = rows["reference_gfs_operations"].mean()
    words = (
        f"{short_number(calls)} of reads, {short_number(copies)} of copies, "
        f"{short_number(staging)} of staging instead of {short_number(reference)} in "
        f"{count_words(n_epochs, 'epoch')}"
    )
    return Measured(100 * (1 - (calls + copies + staging) / reference), words)


def distance_from_law(runs: Runs, policy: str, at_percent: int) -> Measured:
    """Return the largest distance of hits from the law, in units of the sampling error.

    With n nodes and room for a part f, a read of epoch e is a hit with probability
    p = min(f, 1 - (1 - 1/n)^e) (`hit_law`), so N reads have N p hits with a variance of
    at most N p (1 - p). The hits of all repetitions are compared in each epoch, and
    over all epochs together. Half a file per run is rounding. There is no number if
    hits differ where the law leaves nothing to chance; then the law does not hold.
    """
    reads, n_nodes, n_repetitions = _against_law(
        runs.of(policy, at_percent), at_percent
    )
    reads.loc["all"] = reads.sum()
    off = (reads["hits"] - reads["expected"]).abs() - n_repetitions / 2
    off = off.clip(lower=0)
    errors = np.sqrt(reads["variance"]) if n_nodes > 1 else 0 * off
    is_certain = errors == 0
    distances = (off / errors.where(~is_certain)).where(off > 0, 0)
    worst = off[is_certain].idxmax() if off[is_certain].any() else distances.idxmax()
    value = None if off[is_certain].any() else float(distances[worst])
    where = f"epoch {worst + 1}" if worst != "all" else "all epochs"
    words = (
        f"{where}: {short_number(reads['hits'][worst])} reads from the LFS, "
        f"{short_number(reads['expected'][worst])} \N{PLUS-MINUS SIGN} "
        f"{short_number(errors[worst])} by the law; {count_words(n_nodes, 'node')}, "
        f"{count_words(len(reads) - 1, 'epoch')}, "
        f"{count_words(n_repetitions, 'repetition')}"
    )
    return Measured(value, words)


def points_from_law(runs: Runs, policy: str, at_percent: int) -> Measured:
    """Return the largest distance of an epoch's hit rate from the law, in points.

    Half a file per run is rounding. On one node the law is exact (`hit_law`).
    """
    reads, n_nodes, n_repetitions = _against_law(
        runs.of(policy, at_percent), at_percent
    )
    off = (reads["hits"] - reads["expected"]).abs()
    points = 100 * off.where(off > n_repetitions / 2, 0) / reads["reads"]
    worst = points.idxmax()
    hits, expected = (
        100 * reads[name] / reads["reads"] for name in ("hits", "expected")
    )
    words = (
        f"epoch {worst + 1}: {short_number(hits[worst])} % of reads from the LFS, "
        f"{short_number(expected[worst])} % by the law; "
        f"{count_words(n_nodes, 'node')}, {count_words(len(reads), 'epoch')}"
    )
    return Measured(float(points[worst]), words)


def _against_law(runs: Runs, at_percent: int) -> tuple[pd.DataFrame, int, int]:
    """Return each epoch's reads and hits with the law; numbers of nodes, repetitions.

    Columns `reads`, `hits`, `expected` and `variance` are of all repetitions together.
    """
    n_nodes = int(runs.totals["n_nodes"].iloc[0])
    opens = runs.epochs.groupby("epoch")[["gfs_opens", "lfs_opens"]].sum()
    law = hit_law(n_nodes, opens.index.to_numpy(), at_percent / 100)
    reads = opens.sum(axis=1)
    table = pd.DataFrame(
        {
            "reads": reads,
            "hits": opens["lfs_opens"],
            "expected": law * reads,
            "variance": law * (1 - law) * reads,
        }
    )
    return table, n_nodes, runs.epochs["repetition"].nunique()


def epoch_ratio(
    runs: Runs, slow: str, fast: str, at_percent: int, policy: str
) -> Measured:
    """Return the ratio of the epoch times of two loaders, slow over fast.

    Times are of whole epochs. Each repetition that both loaders have gives one ratio.
    """
    columns = ["execution_time_s", "io_time_s"]
    slow_s, fast_s = (
        runs.of(policy, at_percent, loader).epochs.groupby("repetition")[columns].mean()
        for loader in (slow, fast)
    )
    common = slow_s.index.intersection(fast_s.index)
    if common.empty:
        raise NotMeasurable(f"no repetition has runs of both {slow} and {fast}")
    slow_s, fast_s = slow_s.loc[common], fast_s.loc[common]
    ratios = slow_s["execution_time_s"] / fast_s["execution_time_s"]
    (slow_whole, slow_io), (fast_whole, fast_io) = (
        map(short_number, times_s.mean()) for times_s in (slow_s, fast_s)
    )
    words = (
        f"an epoch takes {slow_whole} s with {slow}, {fast_whole} s with {fast}; "
        f"I/O of the slowest process alone {slow_io} s and {fast_io} s"
    )
    return _over_repetitions(ratios, words)


def opens_ratio(
    runs: Runs, slow: str, fast: str, at_percent: int, policy: str
) -> Measured:
    """Return the ratio of the opens of two loaders on the GFS, slow over fast."""
    opens = [
        runs.of(policy, at_percent, loader).epochs["gfs_opens"].mean()
        for loader in (slow, fast)
    ]
    words = " against ".join(map(short_number, opens))
    return Measured(opens[0] / opens[1], f"{words} an epoch")


def involuntary_ratio(switches: pd.DataFrame, slow: str, fast: str) -> Measured:
    """Return the ratio of the involuntary switches of two loaders, slow over fast.

    They are counted per record, with the most processes per node. The ratio is not
    measurable if no page fault waits for a device: then no processes contend for pages.
    """
    if switches.empty:
        raise NotMeasurable("no context switches are reported on emulated devices")
    table = per_record(switches).groupby(["loader", "processes_per_node"])
    rates = table["involuntary_switches_per_record"].mean()
    if lacking := sorted({slow, fast} - set(switches["loader"])):
        raise NotMeasurable(
            f"no loader {lacking[0]} in study nodes (studies.nodes.loaders)"
        )
    counts = sorted(set(switches["processes_per_node"]))
    most, shown = counts[-1], sorted({counts[0], counts[-1]})
    words = f"with {' and '.join(map(str, shown))} processes per node " + ", ".join(
        f"{loader} " + " and ".join(short_number(rates[loader, n]) for n in shown)
        for loader in (slow, fast)
    )
    words += " involuntary switches per record"
    if not switches["major_faults"].sum():
        raise NotMeasurable(f"no page fault waited for the device; {words}")
    if not rates[fast, most]:
        raise NotMeasurable(f"{fast} has no involuntary switches; {words}")
    return Measured(rates[slow, most] / rates[fast, most], words)


def partition_margin(tests: pd.DataFrame, shuffle: str) -> Measured:
    """Return the largest loss or gain of accuracy that a shuffle may still have.

    In points, for the network with the largest such margin: the end of the 90 %
    confidence interval of the difference to global shuffle that is farther from 0.
    """
    rows = _of_shuffle(tests, shuffle)
    worst = rows.loc[rows["shown_margin_points"].idxmax()]
    return Measured(worst["shown_margin_points"], _training_words(rows, worst, 90))


def partition_loss(tests: pd.DataFrame, shuffle: str) -> Measured:
    """Return the loss of accuracy that a shuffle is shown to cost, in points.

    It is the loss of the network with the most significant loss compared with global
    shuffle, by paired t tests at the level of 5 %, with Bonferroni's correction for the
    networks. None if no network loses and all are shown to be equivalent; undecided if
    some network shows neither.
    """
    rows = _of_shuffle(tests, shuffle)
    losing = rows[
        (rows["difference_points"] < 0) & (rows["difference_p"] * len(rows) < ALPHA)
    ]
    if not losing.empty:
        worst = losing.loc[losing["difference_p"].idxmin()]
        return Measured(-worst["difference_points"], _training_words(rows, worst, 95))
    worst = rows.loc[rows["low_95_points"].idxmin()]
    words = _training_words(rows, worst, 95)
    if not rows["equivalent"].all():
        measured = Measured(-worst["difference_points"], words)
        raise Undecided(measured, "neither a loss nor its absence is shown")
    margin = with_unit(rows["margin_points"].iloc[0], "points")
    words = f"no loss is shown, and a loss of {margin} is excluded; {words}"
    return Measured(None, words)


def _of_shuffle(tests: pd.DataFrame, shuffle: str) -> pd.DataFrame:
    """Return the tests of a shuffle, or raise a NotMeasurable."""
    rows = tests[tests["shuffle"] == shuffle]
    if rows.empty:
        raise NotMeasurable(f"study accuracy has no shuffle {shuffle}")
    return rows


def _training_words(rows: pd.DataFrame, one: pd.Series, percent: int) -> str:
    """Return a network's difference with a confidence interval, and all networks."""
    low, high = (one[f"{end}_{percent}_points"] for end in ("low", "high"))
    return (
        f"really trained, {one['n_ranks']} processes, network {one['network']}: "
        f"{one['difference_points']:+.2f} points from global shuffle's "
        f"{short_number(one['global_accuracy_percent'])} % "
        f"({percent} % confidence: {low:+.2f} to {high:+.2f}), "
        f"{one['n_repetitions']} seeds; the networks {', '.join(rows['network'])} "
        "were tried"
    )


OF_RUNS, OF_SWITCHES, OF_ACCURACY = (
    {formula.__name__: formula for formula in formulas}
    for formulas in (
        (
            time_cut,
            gfs_operations_cut,
            distance_from_law,
            points_from_law,
            epoch_ratio,
            opens_ratio,
        ),
        (involuntary_ratio,),
        (partition_margin, partition_loss),
    )
)
FORMULAS = OF_RUNS | OF_SWITCHES | OF_ACCURACY
