"""Check the paper's claims against the tables of an experiment.

`resources/paper/claims.yaml` holds the claims. The formula of each claim
(`tierscope.claims.paper_formulas`) turns the tables into one number, and the tables of
each repetition, too. The claim holds if that number and the interval of the
repetitions' numbers lie within its bounds, does not hold if they lie outside, and is
undecided otherwise. One repetition has no interval: then the number alone decides
where the source repeats exactly, and nothing decides on real storage. The claim is not
measurable here if the experiment lacks data: a scenario, a second epoch, cache rates.
A bottleneck is one of I/O time, so it is not measurable where the training computes.

Times are means over the repetitions, of the epoch of the figures unless said otherwise.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import select_epoch, select_scenario
from tierscope.analysis.intervals import NO_INTERVAL, interval
from tierscope.claims.checks import (
    check_arguments,
    check_ids,
    check_word,
    check_words,
)
from tierscope.claims.paper_formulas import (
    EXACT,
    FORMULAS,
    OF_BOTTLENECKS,
    OF_CLAIMS,
    claims_that_hold,
    defined,
)
from tierscope.claims.tables import ScenarioTables
from tierscope.core.columns import SCENARIO, TABLES
from tierscope.core.validation import check, read_yaml
from tierscope.core.verdict import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNMEASURABLE,
    Measured,
    NotMeasurable,
    accept_words,
    ends_words,
    judge,
    measured_words,
)
from tierscope.core.words import scenario_titles

_HIDDEN = (
    "the training computes, so the class with most I/O time need not be the "
    "bottleneck; the paper's computes nothing"
)


def read_claims(path: str | Path) -> dict[str, Any]:
    """Read and check ``claims.yaml``.

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    paper = read_yaml(path)
    check(paper, "claims", str(path))
    ids = check_ids(paper["claims"], path)
    for number, claim in enumerate(paper["claims"]):
        where = f"{path}: claims.{claim['id']}"
        if claim["scenarios"] != "all":
            check_words(claim["scenarios"], paper["scenarios"], f"{where}.scenarios")
        _check_formula(claim, where)
        if claim["formula"] == OF_CLAIMS:
            known = ids[:number]
            check_words(claim["parameters"]["claims"], known, f"{where}.parameters")
    fitted, misses = paper["fitted"], paper["fitted"]["misses"]
    for part in ("targets", "by_hand", "derived"):
        check_words(fitted[part], ids, f"{path}: fitted.{part}")
    check_words(misses["why"], ids, f"{path}: fitted.misses.why")
    check_words(misses["of"], paper["scenarios"], f"{path}: fitted.misses.of")
    for claim in paper["claims"]:
        if claim["id"] in misses["why"]:
            where = f"{path}: fitted.misses.why.{claim['id']}.scenarios"
            scenarios = claim["scenarios"]
            check_words(
                ["all"] if scenarios == "all" else scenarios, misses["of"], where
            )
    return paper


def _check_formula(claim: Mapping[str, Any], where: str) -> None:
    """Refuse an unknown formula, and arguments that the formula does not take."""
    name, given = claim["formula"], claim.get("parameters", {})
    check_word(name, [*FORMULAS, OF_CLAIMS], f"{where}.formula")
    if name == OF_CLAIMS:
        formula, n_tables = claims_that_hold, 1
    else:
        formula = FORMULAS[name]
        n_tables = 0 if claim["scenarios"] == "all" else len(claim["scenarios"])
    of = f"scenarios {claim['scenarios']} and "
    check_arguments(name, formula, n_tables, given, where, of)


def tables_of_scenarios(
    io_time: pd.DataFrame,
    breakdown: pd.DataFrame,
    epochs: pd.DataFrame,
    epoch: int,
    wanted: Mapping[str, str],
    dataset_titles: Mapping[str, str] | None = None,
) -> list[ScenarioTables]:
    """Return the tables of each scenario, of which the claims are checked.

    Parameters
    ----------
    io_time, breakdown, epochs : DataFrame
        These tables, of one source and system; `epochs` may lack runs.
    epoch : int
        The epoch that represents the paper's second, counted from 0.
    wanted : mapping of str to str
        ``policy`` and ``loader``: only runs with these count.
    dataset_titles : mapping of str to str, optional
        What to call each dataset, as for `tierscope.core.words.scenario_titles`.

    Raises
    ------
    ValueError
        If the tables hold no run of the policy and loader, several sources or systems,
        or not the epoch.
    """
    present = io_time[SCENARIO].drop_duplicates()
    present = present[(present[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    origins = present[["source", "system"]].drop_duplicates().to_dict("records")
    if len(origins) != 1:
        raise ValueError(f"claims: got runs of {origins} with {wanted}, expected one.")
    found = []
    for titled in scenario_titles(present, dataset_titles).to_dict("records"):
        keys = {name: titled[name] for name in SCENARIO}
        found.append(
            ScenarioTables(
                io_time=select_scenario(io_time, keys),
                breakdown=select_epoch(select_scenario(breakdown, keys), epoch),
                epochs=epochs[(epochs[SCENARIO] == pd.Series(keys)).all(axis=1)],
                epoch=epoch,
                title=titled["title"],
            )
        )
    return found


def score_claims(
    paper: Mapping[str, Any],
    scenarios: Sequence[ScenarioTables],
    model: str,
    *,
    computes: bool = False,
) -> pd.DataFrame:
    """Check every claim of a paper against an experiment.

    Parameters
    ----------
    paper : mapping
        What `read_claims` returns.
    scenarios : sequence of ScenarioTables
        What `tables_of_scenarios` returns.
    model : str
        The system whose devices were emulated or simulated; not used if measured.
    computes : bool, optional
        Whether the training computes, so that I/O time may be hidden.

    Returns
    -------
    DataFrame, shape (n_claims, 20)
        Table ``claims``, in the order of the paper's claims.
    """
    origin = {name: scenarios[0].key(name) for name in ("source", "system")}
    results: dict[str, str] = {}
    table = []
    for claim in paper["claims"]:
        used, measured, sure, reason = [], Measured(None, ""), "", ""
        try:
            used = _scenarios_of(claim, paper["scenarios"], scenarios)
            if computes and claim["formula"] in OF_BOTTLENECKS:
                raise NotMeasurable(_HIDDEN)
            measured = _measure(claim, used, results)
            measured, sure = _with_interval(claim, used, measured)
            status = judge(claim["accept"], measured.value, measured.ends)
            if sure == NO_INTERVAL and origin["source"] == "measured":
                status, reason = (
                    UNDECIDED,
                    "on real storage, one launch decides nothing",
                )
            stated = judge(claim.get("stated", {}), measured.value)
            if (status, stated) == (HOLDS, FAILS):
                measured = measured._replace(
                    details=f"{measured.details}, within tolerance"
                )
            if status == FAILS:
                reason = _why_missed(claim, paper["fitted"], origin, model, used)
        except NotMeasurable as missing:
            status, reason = UNMEASURABLE, str(missing)
        results[claim["id"]] = status
        table.append(
            origin
            | {name: claim[name] for name in ("section", "title", "statement")}
            | {
                "claim": claim["id"],
                "scenarios": "; ".join(scenario.title for scenario in used),
                "n_repetitions": min((s.n_repetitions for s in used), default=0),
                "expected": claim["expected"],
                "accepted": accept_words(claim["accept"], claim["unit"]),
                "tolerance": claim["tolerance"],
                "measured": measured_words(measured, status, claim["unit"]),
                "details": measured.details,
                "value": np.nan if measured.value is None else float(measured.value),
                **_ends(measured),
                "interval": sure,
                "status": status,
                "reason": reason,
                "fitted": _fitted(claim["id"], paper["fitted"], origin, model),
            }
        )
    return pd.DataFrame(table)[list(TABLES["claims"])]


def _scenarios_of(
    claim: Mapping[str, Any],
    roles: Mapping[str, Mapping[str, Any]],
    scenarios: Sequence[ScenarioTables],
) -> list[ScenarioTables]:
    """Return the scenarios that a claim is about, or raise a NotMeasurable."""
    if claim["scenarios"] == "all":
        return list(scenarios)
    return [_find(roles[name], scenarios) for name in claim["scenarios"]]


def _find(
    role: Mapping[str, Any], scenarios: Sequence[ScenarioTables]
) -> ScenarioTables:
    """Return the scenario with a role's file size and speed of the GFS."""
    size, slow = role["file_size_bytes"], role["gfs"] == "slow"
    words = _role_words(role)
    found = [
        scenario
        for scenario in scenarios
        if scenario.file_size_bytes == size and (scenario.key("n_osts") == 1) == slow
    ]
    if not found:
        present = "; ".join(scenario.title for scenario in scenarios)
        raise NotMeasurable(f"no scenario of {words} (the scenarios are: {present})")
    if len({scenario.key("dataset") for scenario in found}) > 1:
        names = "; ".join(scenario.title for scenario in found)
        raise NotMeasurable(f"several scenarios of {words}: {names}")
    return max(found, key=lambda scenario: scenario.key("n_osts"))


def _role_words(role: Mapping[str, Any]) -> str:
    """Return a role in words, such as ``128 KiB files on one OST``."""
    size = role["file_size_bytes"]
    kib = f"{size / 1024:.10g} KiB" if size < 2**20 else f"{size / 2**20:.10g} MiB"
    return f"{kib} files on {'one OST' if role['gfs'] == 'slow' else 'the fast GFS'}"


def needed_sweep(paper: Mapping[str, Any], claims: pd.DataFrame) -> str:
    """Return what to run to measure the claims that are not measurable.

    Parameters
    ----------
    paper : mapping
        What `read_claims` returns.
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.

    Returns
    -------
    str
        A sentence; empty if no claim lacks a scenario, a cache rate or an epoch.
    """
    lacks_data = (claims["status"] == UNMEASURABLE) & (claims["reason"] != _HIDDEN)
    missing = set(claims.loc[lacks_data, "claim"])
    needed = [claim for claim in paper["claims"] if claim["id"] in missing]
    # A claim about all scenarios does not lack a part of the sweep.
    needed = [claim for claim in needed if claim["scenarios"] != "all"]
    if not needed:
        return ""
    names = {name for claim in needed for name in claim["scenarios"]}
    roles = [
        _role_words(paper["scenarios"][n]) for n in paper["scenarios"] if n in names
    ]
    rates = sorted({rate for claim in needed for rate in claim["cache_rates_percent"]})
    n_epochs = max(claim["least_epochs"] for claim in needed)
    return (
        f"A sweep that can measure these: {', '.join(roles)}; cache rates "
        f"{', '.join(map(str, rates))} %; {n_epochs} epochs or more. The sweep of "
        "config/config.yaml has all of this."
    )


def _measure(
    claim: Mapping[str, Any],
    scenarios: Sequence[ScenarioTables],
    results: Mapping[str, str],
) -> Measured:
    """Return a claim's number, or raise a NotMeasurable."""
    for scenario in scenarios:
        if scenario.io_time["epoch"].nunique() < claim["least_epochs"]:
            raise NotMeasurable("the runs have one epoch; the paper uses the second")
        scenario.need_rates(claim["cache_rates_percent"])
    parameters = claim.get("parameters", {})
    if claim["formula"] == OF_CLAIMS:
        return claims_that_hold(results, **parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = FORMULAS[claim["formula"]](*scenarios, **parameters)
    if measured.value is not None:
        defined(pd.Series(measured.value))
    return measured


def _with_interval(
    claim: Mapping[str, Any], scenarios: Sequence[ScenarioTables], measured: Measured
) -> tuple[Measured, str]:
    """Return a claim's number with its interval over the repetitions, and its words.

    The unit is the repetition that all scenarios have. Rates that were run once are
    part of every repetition, so the interval lacks their spread, and the words say so.
    """
    if claim["formula"] in EXACT:
        return measured, ""
    shared = set.intersection(*(scenario.repetitions for scenario in scenarios))
    if len(shared) < 2:
        return measured._replace(ends=None), NO_INTERVAL
    values = []
    for repetition in sorted(shared):
        part = [scenario.of_repetition(repetition) for scenario in scenarios]
        try:
            values.append(_measure(claim, part, {}).value)
        except NotMeasurable:
            values.append(None)
    present = [value for value in values if value is not None]
    if not present and measured.value is None:
        return measured, ""
    words = f"n = {len(values)}"
    if len(present) < len(values):
        words += f", no such number in {len(values) - len(present)}"
        return measured._replace(ends=(-np.inf, np.inf)), words
    if measured.ends is None:
        found = interval(present)
        measured = measured._replace(ends=(found.low, found.high))
    if any(scenario.rates_run_once for scenario in scenarios):
        words += ", without the spread of rates run once"
    return measured, f"{ends_words(measured.ends, claim['unit'])} ({words})"


def _ends(measured: Measured) -> dict[str, float]:
    """Return the columns of an interval; missing if there is none or it has no end."""
    ends = measured.ends or (np.nan, np.nan)
    ends = [float(end) if np.isfinite(end) else np.nan for end in ends]
    return dict(zip(("low", "high"), ends, strict=True))


def _why_missed(
    claim: Mapping[str, Any],
    fitted: Mapping[str, Any],
    origin: Mapping[str, str],
    model: str,
    used: Sequence[ScenarioTables],
) -> str:
    """Return why the fitted model misses a claim; nothing for other numbers."""
    misses = fitted["misses"]
    known = origin["source"] == "simulated" and model == fitted["system"]
    if not known or claim["id"] not in misses["why"]:
        return ""
    of = misses["of"]
    agree = all(
        name in of and scenario.is_of(of[name])
        for name, scenario in zip(claim["scenarios"], used, strict=True)
    )
    return misses["why"][claim["id"]] if agree else ""


def _fitted(
    claim: str, fitted: Mapping[str, Any], origin: Mapping[str, str], model: str
) -> str:
    """Return whether the devices behind the numbers were fitted to a claim."""
    if origin["source"] == "measured" or model != fitted["system"]:
        return "no"
    kinds = {"targets": "target", "by_hand": "by hand", "derived": "derived"}
    return next((kind for key, kind in kinds.items() if claim in fitted[key]), "no")
