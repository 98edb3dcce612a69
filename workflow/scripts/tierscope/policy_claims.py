"""Check what other papers claim of policies and loaders, and say what that is worth.

`resources/paper/policy_claims.yaml` holds the claims. Their numbers stand beside ours
and bound nothing: machines and workloads differ, and each claim says how.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tierscope.accuracy import ALPHA
from tierscope.claim_status import (
    UNMEASURABLE,
    Measured,
    NotMeasurable,
    accept_words,
    judge,
    measured_words,
    number_words,
)
from tierscope.node_counts import hit_law, per_record
from tierscope.tables import TABLES
from tierscope.validation import ConfigError, check, read_yaml

STUDY_IS_LACKING = "study nodes was not made (studies.nodes.n_nodes)"


@dataclass(frozen=True)
class NodeTables:
    """Tables of the study of nodes (`tierscope.node_counts`), None if it is not made.

    Parameters
    ----------
    epochs, totals, switches : DataFrame or None
        Tables ``policy_epochs``, ``policy_totals`` and ``node_switches``.
    """

    epochs: pd.DataFrame | None = None
    totals: pd.DataFrame | None = None
    switches: pd.DataFrame | None = None

    def on(self, n_nodes: int) -> list[pd.DataFrame]:
        """Return ``epochs`` and ``totals`` on so many nodes, or raise NotMeasurable."""
        if self.totals is None:
            raise NotMeasurable(STUDY_IS_LACKING)
        totals = self.totals[self.totals["n_nodes"] == n_nodes]
        if totals.empty:
            raise NotMeasurable(f"study nodes has no run with n_nodes {n_nodes}")
        is_there = self.epochs["system"].isin(totals["system"].unique())
        return [self.epochs[is_there], totals]


def read_policy_claims(path: str | Path) -> dict[str, Any]:
    """Read and check ``policy_claims.yaml``; a ConfigError says what is wrong."""
    content = read_yaml(path)
    check(content, "policy_claims", str(path))
    ids = [claim["id"] for claim in content["claims"]]
    for number, claim in enumerate(content["claims"]):
        where = f"{path}: claims.{claim['id']}"
        if claim["id"] in ids[:number]:
            raise ConfigError(f"{where}.id: got it twice, expected it once")
        for key, known in (("paper", content["papers"]), ("formula", FORMULAS)):
            if claim[key] is not None and claim[key] not in known:
                raise ConfigError(
                    f"{where}.{key}: got {claim[key]}, expected one of "
                    f"{', '.join(known)}"
                )
        needed = {"parameters", "unit", "accept"} if claim["formula"] else set()
        if missing := sorted(needed - set(claim)):
            raise ConfigError(f"{where}: missing key {missing[0]}")
    return content


def stated_numbers(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers that papers state of Monarch: ``of``, ``percent``, ``where``.

    Parameters
    ----------
    content : mapping
        What `read_policy_claims` returns.
    """
    return [claim["number"] for claim in content["claims"] if "number" in claim]


def time_cut(
    epochs: pd.DataFrame,
    totals: pd.DataFrame,
    policy: str,
    at_percent: int,
    n_epochs: int,
) -> Measured:
    """Return how much less time some epochs take with a policy in percent.

    That is the mean of the repetitions' cuts, each against the run of the same file
    order. Not measurable where a paired t test at the level of 5 % does not tell it
    from nothing, or where there is one repetition only.
    """
    rows = _after(totals, policy, at_percent, n_epochs)
    cuts = 100 * (1 - rows["time_s"] / rows["reference_time_s"])
    cut, error = cuts.mean(), cuts.sem()  # missing for one repetition
    words = (
        f"{number_words(rows['time_s'].mean())} instead of "
        f"{number_words(rows['reference_time_s'].mean())} s in {n_epochs} epochs"
    )
    if len(rows) == 1:
        raise NotMeasurable(
            f"one repetition, its spread is unknown; {words}, {number_words(cut)} % "
            "less time"
        )
    words += (
        f"; {number_words(cut)} \N{PLUS-MINUS SIGN} {number_words(error)} %, "
        f"{len(rows)} repetitions"
    )
    if error > 0 and stats.ttest_1samp(cuts, 0).pvalue >= ALPHA:
        raise NotMeasurable(f"not told from nothing by so few repetitions; {words}")
    return Measured(cut, words)


def gfs_operations_cut(
    epochs: pd.DataFrame,
    totals: pd.DataFrame,
    policy: str,
    at_percent: int,
    n_epochs: int,
) -> Measured:
    """Return how many fewer calls some epochs make on the GFS in percent."""
    rows = _after(totals, policy, at_percent, n_epochs)
    parts = ["gfs_operations", "background_gfs_operations", "staging_gfs_operations"]
    calls, copies, staging = (rows[name].mean() for name in parts)
    reference = rows["reference_gfs_operations"].mean()
    words = (
        f"{number_words(calls)} of reads, {number_words(copies)} of copies, "
        f"{number_words(staging)} of staging instead of {number_words(reference)} in "
        f"{n_epochs} epochs"
    )
    return Measured(100 * (1 - (calls + copies + staging) / reference), words)


def distance_from_law(
    epochs: pd.DataFrame, totals: pd.DataFrame, policy: str, at_percent: int
) -> Measured:
    """Return how far hits are from the law, at most, in units of the sampling error.

    With n nodes and room for a part f, a read of epoch e is a hit with probability
    p = min(f, 1 - (1 - 1/n)^e) (`hit_law`), so N reads have N p hits with a variance of
    at most N p (1 - p). Hits of all repetitions are judged in each epoch, and those of
    all epochs together. Half a file a run is rounding. There is no number, and no law,
    where hits differ from what leaves nothing to chance.
    """
    reads, n_nodes, n_repetitions = _against_law(epochs, totals, policy, at_percent)
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
        f"{where}: {number_words(reads['hits'][worst])} reads from the LFS, "
        f"{number_words(reads['expected'][worst])} \N{PLUS-MINUS SIGN} "
        f"{number_words(errors[worst])} by the law; {n_nodes} nodes, {len(reads) - 1} "
        f"epochs, {n_repetitions} repetition{'s'[: n_repetitions > 1]}"
    )
    return Measured(value, words)


def points_from_law(
    epochs: pd.DataFrame, totals: pd.DataFrame, policy: str, at_percent: int
) -> Measured:
    """Return how far an epoch's hit rate is from the law, at most, in points.

    Half a file a run is rounding. On one node the law is exact (`hit_law`).
    """
    reads, n_nodes, n_repetitions = _against_law(epochs, totals, policy, at_percent)
    off = (reads["hits"] - reads["expected"]).abs()
    points = 100 * off.where(off > n_repetitions / 2, 0) / reads["reads"]
    worst = points.idxmax()
    hits, expected = (
        100 * reads[name] / reads["reads"] for name in ("hits", "expected")
    )
    words = (
        f"epoch {worst + 1}: {number_words(hits[worst])} % of reads from the LFS, "
        f"{number_words(expected[worst])} % by the law; {n_nodes} nodes, {len(reads)} "
        f"epochs"
    )
    return Measured(float(points[worst]), words)


def _against_law(
    epochs: pd.DataFrame, totals: pd.DataFrame, policy: str, at_percent: int
) -> tuple[pd.DataFrame, int, int]:
    """Return each epoch's reads and hits beside the law, and n nodes and repetitions.

    Columns `reads`, `hits`, `expected` and `variance` are of all repetitions together.
    """
    rows = _of(epochs, at_percent, policy=policy)
    n_nodes = int(_of(totals, at_percent, policy=policy)["n_nodes"].iloc[0])
    opens = rows.groupby("epoch")[["gfs_opens", "lfs_opens"]].sum()
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
    return table, n_nodes, rows["repetition"].nunique()


def loader_ratio(
    epochs: pd.DataFrame,
    totals: pd.DataFrame,
    slow: str,
    fast: str,
    at_percent: int,
    policy: str,
) -> Measured:
    """Return how many times the I/O time of a loader another one's is."""
    times_s = [
        _of(epochs, at_percent, policy=policy, loader=loader)[
            ["io_time_s", "execution_time_s"]
        ].mean()
        for loader in (slow, fast)
    ]
    io_time, execution = (
        " against ".join(f"{number_words(time_s)} s" for time_s in pair)
        for pair in zip(*times_s, strict=True)
    )
    ratio_s, whole_s = times_s[0] / times_s[1]
    words = (
        f"{io_time} of I/O by the slowest process in an epoch; the whole epoch takes "
        f"{execution}, {number_words(whole_s)} times as long"
    )
    return Measured(ratio_s, words)


def opens_ratio(
    epochs: pd.DataFrame,
    totals: pd.DataFrame,
    slow: str,
    fast: str,
    at_percent: int,
    policy: str,
) -> Measured:
    """Return how many times the opens on the GFS of a loader another one's are."""
    opens = [
        _of(epochs, at_percent, policy=policy, loader=loader)["gfs_opens"].mean()
        for loader in (slow, fast)
    ]
    words = " against ".join(map(number_words, opens))
    return Measured(opens[0] / opens[1], f"{words} an epoch")


def involuntary_ratio(switches: pd.DataFrame, slow: str, fast: str) -> Measured:
    """Return how many times the involuntary switches of a loader another one's are.

    Per record, with the most processes a node. Not measurable where no page fault waits
    for a device: then processes do not contend for pages.
    """
    table = per_record(switches).groupby(["loader", "processes_per_node"])
    rates = table["involuntary_switches_per_record"].mean()
    if lacking := sorted({slow, fast} - set(switches["loader"])):
        raise NotMeasurable(f"study nodes has no loader {lacking[0]}")
    fewest, most = (rates.index.levels[1][i] for i in (0, -1))
    words = f"with {fewest} and {most} processes a node " + ", ".join(
        f"{loader} {number_words(rates[loader, fewest])} and "
        f"{number_words(rates[loader, most])}"
        for loader in (slow, fast)
    )
    words += " involuntary switches per record"
    if (switches["source"] != "measured").any():
        raise NotMeasurable(
            f"emulated devices sleep in place of page faults, so processes do not "
            f"contend for pages; {words}"
        )
    if not switches["major_faults"].sum():
        raise NotMeasurable(f"no page fault waited for the device; {words}")
    if not rates[fast, most]:
        raise NotMeasurable(f"{fast} has no involuntary switches; {words}")
    return Measured(rates[slow, most] / rates[fast, most], words)


def partition_margin(tests: pd.DataFrame, shuffle: str) -> Measured:
    """Return the largest loss or gain of accuracy that a shuffle may still have.

    In points, for the network that shows least: the end of the 90 % confidence interval
    of the difference to global shuffle that is farther from 0.
    """
    rows = _of_shuffle(tests, shuffle)
    worst = rows.loc[rows["shown_margin_points"].idxmax()]
    return Measured(worst["shown_margin_points"], _training_words(rows, worst, 90))


def partition_loss(tests: pd.DataFrame, shuffle: str) -> Measured:
    """Return the loss of accuracy that a shuffle is shown to cost, in points.

    That of the network with the most significant loss against global shuffle, by paired
    t tests at the level of 5 %, by Bonferroni over the networks. None if there is no
    such network and all are shown to be equivalent; not measurable if some are neither.
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
        raise NotMeasurable(f"neither a loss nor its absence is shown; {words}")
    margin = number_words(rows["margin_points"].iloc[0])
    return Measured(
        None, f"no loss is shown, and {margin} points are excluded; {words}"
    )


def _of_shuffle(tests: pd.DataFrame, shuffle: str) -> pd.DataFrame:
    """Return the tests of a shuffle, or raise a NotMeasurable."""
    rows = tests[tests["shuffle"] == shuffle]
    if rows.empty:
        raise NotMeasurable(f"study accuracy has no shuffle {shuffle}")
    return rows


def _training_words(rows: pd.DataFrame, one: pd.Series, percent: int) -> str:
    """Return a network's difference with a confidence interval, and what was tried."""
    low, high = (one[f"{end}_{percent}_points"] for end in ("low", "high"))
    return (
        f"really trained, {one['n_ranks']} processes, network {one['network']}: "
        f"{one['difference_points']:+.2f} points from global shuffle's "
        f"{number_words(one['global_accuracy_percent'])} % "
        f"({percent} % confidence: {low:+.2f} to {high:+.2f}), "
        f"{one['n_repetitions']} seeds; the networks {', '.join(rows['network'])} "
        "were tried"
    )


OF_SWITCHES = {involuntary_ratio.__name__: involuntary_ratio}
OF_ACCURACY = {one.__name__: one for one in (partition_margin, partition_loss)}
FORMULAS = (
    {
        one.__name__: one
        for one in (
            time_cut,
            gfs_operations_cut,
            distance_from_law,
            points_from_law,
            loader_ratio,
            opens_ratio,
        )
    }
    | OF_SWITCHES
    | OF_ACCURACY
)


def _of(table: pd.DataFrame, at_percent: int, **keys: str) -> pd.DataFrame:
    """Return the rows of some keys at a cache rate, or raise a NotMeasurable."""
    fits = table["cache_rate_percent"] == at_percent
    for key, value in keys.items():
        fits &= table[key] == value
    if not fits.any():
        words = ", ".join(f"{key} {value}" for key, value in keys.items())
        raise NotMeasurable(f"no run of {words} at a cache rate of {at_percent} %")
    return table[fits]


def _after(
    totals: pd.DataFrame, policy: str, at_percent: int, n_epochs: int
) -> pd.DataFrame:
    """Return a policy's sums after a number of epochs, or raise a NotMeasurable."""
    rows = _of(totals, at_percent, policy=policy)
    rows = rows[rows["n_epochs"] == n_epochs]
    if rows.empty:
        raise NotMeasurable(f"runs of {policy} have no {n_epochs} epochs")
    return rows


def score_policy_claims(
    content: Mapping[str, Any],
    policy_epochs: pd.DataFrame,
    totals: pd.DataFrame,
    *,
    loader: str,
    of_nodes: NodeTables = NodeTables(),
    accuracy: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return table ``policy_claims``: each claim beside what was found.

    Parameters
    ----------
    content : mapping
        What `read_policy_claims` returns.
    policy_epochs, totals : DataFrame
        Tables ``policy_epochs`` and ``policy_totals`` of one dataset and OST count.
    loader : str
        The loader of files with which policies are judged.
    of_nodes : NodeTables, optional
        Tables of the same dataset and OST count from the study of nodes; claims with
        the parameter `n_nodes`, and those on context switches, are judged by them.
    accuracy : DataFrame, optional
        Table ``accuracy_tests``.
    """
    rows = []
    for claim in content["claims"]:
        reason, measured = "", Measured(None, "")
        try:
            if claim["formula"] in OF_ACCURACY:
                measured = _measure_accuracy(claim, accuracy)
            else:
                measured = _measure(claim, policy_epochs, totals, loader, of_nodes)
            status = judge(claim["accept"], measured.value)
        except NotMeasurable as error:
            reason, status = str(error), UNMEASURABLE
        unit, accept = claim.get("unit", ""), claim.get("accept")
        is_trained = claim["formula"] in OF_ACCURACY and accuracy is not None
        of_what = accuracy if is_trained else policy_epochs
        rows.append(
            {
                "claim": claim["id"],
                "paper": content["papers"][claim["paper"]],
                **{
                    key: claim[key]
                    for key in ("statement", "stated", "comparable", "not_comparable")
                },
                "here": measured_words(measured, status, unit),
                "value": np.nan if measured.value is None else measured.value,
                "accepted": accept_words(accept, unit) if accept else "",
                "status": status,
                "details": reason or measured.details,
                "source": of_what["source"].iloc[0],
            }
        )
    return pd.DataFrame(rows)[list(TABLES["policy_claims"])]


def _measure(
    claim: Mapping[str, Any],
    policy_epochs: pd.DataFrame,
    totals: pd.DataFrame,
    loader: str,
    of_nodes: NodeTables,
) -> Measured:
    """Return the number of a claim, or raise a NotMeasurable."""
    if claim["formula"] is None:
        raise NotMeasurable(claim["not_comparable"])
    formula, parameters = FORMULAS[claim["formula"]], dict(claim["parameters"])
    if claim["formula"] in OF_SWITCHES:
        if of_nodes.switches is None:
            raise NotMeasurable(STUDY_IS_LACKING)
        return formula(of_nodes.switches, **parameters)
    n_nodes = parameters.pop("n_nodes", None)
    tables = [policy_epochs, totals] if n_nodes is None else of_nodes.on(n_nodes)
    if "slow" not in parameters:
        tables = [table[table["loader"] == loader] for table in tables]
    if "policy" in parameters:
        _check_copies(tables[0], parameters["policy"], parameters["at_percent"])
    return formula(*tables, **parameters)


def _check_copies(policy_epochs: pd.DataFrame, policy: str, at_percent: int) -> None:
    """Raise a NotMeasurable if copies of a policy failed: it held too little."""
    rows = _of(policy_epochs, at_percent, policy=policy)
    if n_failed := rows["failed_files"].sum():
        raise NotMeasurable(
            f"{n_failed} cop{'ies' if n_failed > 1 else 'y'} of {policy} failed"
        )


def _measure_accuracy(
    claim: Mapping[str, Any], accuracy: pd.DataFrame | None
) -> Measured:
    """Return the number of a claim on accuracy, or raise a NotMeasurable."""
    if accuracy is None:
        raise NotMeasurable(
            "study accuracy was not made (studies.accuracy.with_policies)"
        )
    return FORMULAS[claim["formula"]](accuracy, **claim["parameters"])


def claims_text(claims: pd.DataFrame, provenance: str) -> str:
    """Return table ``policy_claims`` in Markdown."""
    blocks = [
        "# What other papers say, and what is found here",
        f"Source: {provenance}. Numbers that the papers state were taken "
        "on other machines with other workloads. They stand beside ours and bound "
        "nothing; a claim holds if what its argument implies anywhere is so here.",
    ]
    for row in claims.to_dict("records"):
        lines = [
            f"## {row['claim']}: {row['status']}",
            f"{row['statement']} ({row['paper']})",
            f"- stated: {row['stated']}",
            f"- here: {row['here'] or row['status']} ({row['details']})",
            f"- source: {row['source']}",
        ]
        if row["accepted"]:
            lines.append(f"- holds for: {row['accepted']}")
        lines += [
            f"- comparable: {row['comparable']}",
            f"- not comparable: {row['not_comparable']}",
        ]
        blocks.append("\n".join([lines[0], "", lines[1], "", *lines[2:]]))
    return "\n\n".join(blocks) + "\n"
