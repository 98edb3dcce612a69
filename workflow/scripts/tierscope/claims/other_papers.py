"""Check other papers' claims on policies and loaders, and say what is comparable.

`resources/paper/policy_claims.yaml` holds the claims,
`tierscope.claims.other_papers_formulas` measures them. The papers' numbers stand beside
ours and are not bounds: machines and workloads differ, and each claim says how.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.intervals import METHOD
from tierscope.claims.checks import check_arguments, check_ids, check_word
from tierscope.claims.other_papers_formulas import (
    FORMULAS,
    OF_ACCURACY,
    OF_RUNS,
    OF_SWITCHES,
    Runs,
)
from tierscope.core.columns import TABLES
from tierscope.core.validation import ConfigError, check, read_yaml
from tierscope.core.verdict import (
    UNDECIDED,
    UNMEASURABLE,
    Measured,
    NotMeasurable,
    Undecided,
    accept_words,
    judge,
    measured_words,
)

NO_NODES = "study nodes is not part of this experiment (studies.nodes.n_nodes)"
NO_ACCURACY = (
    "study accuracy is not part of this comparison (studies.accuracy.with_policies)"
)


@dataclass(frozen=True)
class NodeTables:
    """Tables of the study of nodes (`analysis.nodes`), None without the study.

    Parameters
    ----------
    epochs, totals, switches : DataFrame or None
        Tables ``policy_epochs``, ``policy_totals`` and ``node_switches``.
    """

    epochs: pd.DataFrame | None = None
    totals: pd.DataFrame | None = None
    switches: pd.DataFrame | None = None

    def on(self, n_nodes: int, loader: str) -> Runs:
        """Return the runs on a number of nodes, or raise NotMeasurable."""
        if self.totals is None:
            raise NotMeasurable(NO_NODES)
        totals = self.totals[self.totals["n_nodes"] == n_nodes]
        if totals.empty:
            raise NotMeasurable(
                f"no run with n_nodes {n_nodes} in study nodes (studies.nodes.n_nodes)"
            )
        is_there = self.epochs["system"].isin(totals["system"].unique())
        return Runs(self.epochs[is_there], totals, loader, "in study nodes")


def read_policy_claims(path: str | Path) -> dict[str, Any]:
    """Read and check ``policy_claims.yaml``; a ConfigError says what is wrong."""
    content = read_yaml(path)
    check(content, "policy_claims", str(path))
    check_ids(content["claims"], path)
    for claim in content["claims"]:
        where = f"{path}: claims.{claim['id']}"
        name = claim["formula"]
        check_word(claim["paper"], content["papers"], f"{where}.paper")
        if name is not None:
            check_word(name, FORMULAS, f"{where}.formula")
            if missing := sorted({"unit", "accept"} - set(claim)):
                raise ConfigError(f"{where}: missing key {missing[0]}")
            check_arguments(name, FORMULAS[name], 1, _arguments(claim), where)
    return content


def _arguments(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a formula, without `n_nodes` that chooses runs."""
    chooses = {"n_nodes"} if claim["formula"] in OF_RUNS else set()
    parameters = claim.get("parameters", {})
    return {key: value for key, value in parameters.items() if key not in chooses}


def stated_numbers(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers that papers state of Monarch: ``of``, ``percent``, ``where``.

    Parameters
    ----------
    content : mapping
        What `read_policy_claims` returns.
    """
    return [claim["number"] for claim in content["claims"] if "number" in claim]


def score_policy_claims(
    content: Mapping[str, Any],
    policy_epochs: pd.DataFrame,
    totals: pd.DataFrame,
    *,
    loader: str,
    of_nodes: NodeTables = NodeTables(),
    accuracy: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return table ``policy_claims``: each claim beside what was found, by number.

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
    sweep = Runs(policy_epochs, totals, loader)
    rows = []
    for claim in sorted(content["claims"], key=lambda claim: int(claim["id"][1:])):
        status, measured = _judged(claim, sweep, of_nodes, accuracy)
        unit, accept = claim.get("unit", ""), claim.get("accept")
        is_trained = claim["formula"] in OF_ACCURACY and accuracy is not None
        of_what = accuracy if is_trained else policy_epochs
        rows.append(
            {
                "claim": claim["id"],
                "paper": content["papers"][claim["paper"]],
                **{
                    key: claim[key]
                    for key in (
                        "title",
                        "statement",
                        "stated",
                        "comparable",
                        "not_comparable",
                    )
                },
                "stated_number": claim.get("stated_number", ""),
                "here": measured_words(
                    measured, status, unit, claim.get("unit_below_zero", "")
                ),
                "value": np.nan if measured.value is None else measured.value,
                "accepted": accept_words(accept, unit) if accept else "",
                "status": status,
                "details": measured.details,
                "source": of_what["source"].iloc[0],
            }
        )
    return pd.DataFrame(rows)[list(TABLES["policy_claims"])]


def _judged(claim: Mapping[str, Any], *tables: Any) -> tuple[str, Measured]:
    """Return status and number of a claim; the details say what prevents a verdict."""
    try:
        measured = _measure(claim, *tables)
    except Undecided as error:
        details = f"{error}; {error.measured.details}"
        return UNDECIDED, error.measured._replace(details=details)
    except NotMeasurable as error:
        return UNMEASURABLE, Measured(None, str(error))
    status = judge(claim["accept"], measured.value, measured.ends)
    if status == UNDECIDED:
        words = f"the interval crosses the bound; {measured.details}"
        measured = measured._replace(details=words)
    return status, measured


def _measure(
    claim: Mapping[str, Any],
    sweep: Runs,
    of_nodes: NodeTables,
    accuracy: pd.DataFrame | None,
) -> Measured:
    """Return the number of a claim, or raise an Undecided or a NotMeasurable."""
    name = claim["formula"]
    if name is None:
        raise NotMeasurable(claim["not_comparable"])
    if name in OF_ACCURACY:
        table, lacking = accuracy, NO_ACCURACY
    elif name in OF_SWITCHES:
        table, lacking = of_nodes.switches, NO_NODES
    else:
        n_nodes = claim["parameters"].get("n_nodes")
        runs = sweep if n_nodes is None else of_nodes.on(n_nodes, sweep.loader)
        return FORMULAS[name](runs, **_arguments(claim))
    if table is None:
        raise NotMeasurable(lacking)
    return FORMULAS[name](table, **_arguments(claim))


def claims_text(claims: pd.DataFrame, provenance: str) -> str:
    """Return table ``policy_claims`` in Markdown."""
    blocks = [
        "# What other papers say, and what is found here",
        f"Source: {provenance}. The numbers of the papers come from other machines and "
        "workloads, so they are not bounds here. A claim holds if the consequence of "
        "its argument that is valid on any machine is found here. It is undecided if "
        "the interval of its number crosses the bound, or if there is only one "
        "repetition. "
        f"Interval: {METHOD} (Student's t), of pairs that share their seeds.",
    ]
    for row in claims.to_dict("records"):
        lines = [
            f"## {row['claim']}, {row['title']}: {row['status']}",
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


def claims_lines(claims: pd.DataFrame, path: str) -> str:
    """Return table ``policy_claims`` in short, to be read on a terminal.

    Claims that are not measurable share the last line; `path` is of `claims_text`.
    """
    head = f"What other papers say, and what is found here (all in {path})"
    lines = ["", _wrapped(head)]
    is_found = claims["status"] != UNMEASURABLE
    for row in claims[is_found].to_dict("records"):
        start = f"{row['claim']:<3}  {row['status']:<13}  "
        lines.append(_wrapped(f"{row['title']}: {_found_words(row)}", start))
    if not is_found.all():
        names = ", ".join(claims.loc[~is_found, "claim"])
        lines.append(
            _wrapped(f"{UNMEASURABLE}: {names} (reasons in {Path(path).name})")
        )
    return "\n".join(lines) + "\n"


def _found_words(row: Mapping[str, Any]) -> str:
    """Return the value found for a claim, and the number that the paper states."""
    reason = row["details"].split("; ")[0]
    words = reason if np.isnan(row["value"]) else row["here"]
    if row["stated_number"]:
        words += f" (paper: {row['stated_number']})"
    return f"{words}, {reason}" if row["status"] == UNDECIDED else words


def _wrapped(words: str, start: str = "") -> str:
    """Wrap words into lines of 80 columns, aligned after the start."""
    return fill(
        words,
        80,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
