"""Gather an experiment into one page of HTML that needs no other file.

This module prepares the content, as words and tables of words; the template places it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.comparing.ideal import storage_sentences
from tierscope.analysis.comparing.policies import warming_policies
from tierscope.analysis.comparing.savings import best_policy_words
from tierscope.analysis.intervals import BEST_METHOD, METHOD
from tierscope.analysis.scorecard import scorecard_title
from tierscope.analysis.training.limit import doubt_words, ideal_notes, limits_method
from tierscope.analysis.training.other_io import MOUNT_NAMES
from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass
from tierscope.core.provenance import Origin, source_note
from tierscope.core.verdict import FAILS, HOLDS, UNDECIDED, UNMEASURABLE
from tierscope.core.words import (
    FAILED,
    PASSED,
    UNKNOWN,
    count_words,
    iso_time_words,
    scenario_titles,
)
from tierscope.pages import scorecard
from tierscope.pages.content import Table
from tierscope.pages.document import Picture, caption_html
from tierscope.pages.report.facts import (
    SIMULATED,
    ReportedRun,
    devices_table,
    differences_table,
    distinct,
    facts,
    has_workers,
    is_simulated,
    without_identities,
)
from tierscope.pages.report.program import certificate_table, statements_table
from tierscope.pages.report.runs import (
    all_run_keys,
    audit_words,
    runs_table,
    spread_table,
    spread_words,
)
from tierscope.pages.report.stalls import times_beside_stalls
from tierscope.pages.report.summary import goal_kind, summary_table, utilisation_note_of
from tierscope.pages.web_page import content_policy

_NUMBERS = ("(%)", "(s)", "(GiB)", "Repetition", "Repetitions")  # ends of columns
_MEANINGS = {
    IOClass.GFS_READ: "reading files on the global file system",
    IOClass.GFS_META: "opening, closing and looking up these files",
    IOClass.LFS_READ: "reading files on the local file system",
    IOClass.LFS_META: "opening, closing and looking up these files",
    NET_READ: "reading files from other nodes",
}


def report_context(
    *,
    experiment: str,
    description: str,
    provenance: Origin,
    epoch: int,
    dataset_titles: Mapping[str, str],
    paper: str,
    runs: Sequence[ReportedRun],
    simulations: Sequence[Mapping[str, Any]] = (),
    pictures: Sequence[Picture],
    captions: Mapping[str, str],
    breakdown: pd.DataFrame,
    spread: pd.DataFrame,
    goals: pd.DataFrame,
    combinations: pd.DataFrame,
    limits: pd.DataFrame,
    claims: pd.DataFrame | None = None,
    statements: pd.DataFrame | None = None,
    certificate: pd.DataFrame | None = None,
    estimates: pd.DataFrame | None = None,
    calibration: pd.DataFrame | None = None,
    policy_claims: pd.DataFrame | None = None,
    policy_summary: pd.DataFrame | None = None,
    background: pd.DataFrame | None = None,
    storage_time: pd.DataFrame | None = None,
    stalls: pd.DataFrame | None = None,
    run_facts: pd.DataFrame | None = None,
    needs: str = "",
    anonymous: bool = False,
) -> dict[str, Any]:
    """Return everything that the template shows.

    Parameters
    ----------
    experiment, description : str
        Name of the experiment, and what its system is.
    provenance : Origin
        Where the numbers come from, as on the figures.
    epoch : int
        The epoch of the figures, counted from 0.
    dataset_titles : mapping of str to str
        What to call each dataset.
    paper : str
        The paper of the claims, as it is cited.
    runs : sequence of ReportedRun
        The runs of the experiment, in the order of the table; none if simulated.
    simulations : sequence of mapping
        The `run.json` of a run of each scenario, in the order of the tables, if
        simulated.
    pictures : sequence of Picture
        The figures, in order.
    captions : mapping of str to str
        What to say about ``scorecard`` and ``explorer``, in reStructuredText.
    breakdown, spread, goals, combinations, limits : DataFrame
        These tables. Runs that only `breakdown` has are listed as not audited.
    claims : DataFrame, optional
        Table ``claims``, unless a program of the user was run.
    statements, certificate : DataFrame, optional
        These tables, if a program of the user was run.
    estimates : DataFrame, optional
        Table ``estimates`` by the model.
    calibration : DataFrame, optional
        Table ``calibration`` of the model that estimates, if its devices were fitted.
    policy_claims : DataFrame, optional
        Table ``policy_claims``, where policies or loaders are compared.
    policy_summary : DataFrame, optional
        Rows of table ``policy_summary`` that figure ``policies`` shows, if it is one of
        the pictures.
    background : DataFrame, optional
        Table ``background`` of the runs that have copies.
    storage_time : DataFrame, optional
        Table ``storage_time``, if there are ideal runs.
    stalls : DataFrame, optional
        Table ``class_stalls``, if the training computes and a model tells the stall.
    run_facts : DataFrame, optional
        Table ``run_facts``, unless all runs are simulated.
    needs : str, optional
        What `tierscope.claims.paper.needed_sweep` returns.
    anonymous : bool
        Whether to leave out who ran it and where (`without_identities`).
    """
    if anonymous:
        runs = [ReportedRun(without_identities(run.run), run.audit) for run in runs]
    if simulations:
        scenarios = [simulation["scenario"] for simulation in simulations]
        breakdown = select_scenarios(breakdown, scenarios)  # in their order
    keys = all_run_keys(runs, breakdown)
    titles = scenario_titles(keys, dataset_titles)
    table = runs_table(runs, breakdown, dataset_titles, provenance)
    contents = [*(run.run for run in runs), *simulations]
    has_peers = breakdown["io_class"].eq(NET_READ).any()
    warming = warming_policies(background, epoch)
    further = {"estimates": estimates, "is_warming": bool(warming)}
    beside = None
    may_hide = limits["may_hide"].any()
    if statements is None and (stalls is not None or may_hide):
        beside = times_beside_stalls(breakdown, stalls, limits, titles, epoch)
    return {
        "policy": content_policy(),
        "results": results,
        "title": f"Storage experiment {experiment}",
        "description": description,
        "provenance": str(provenance),
        "source": source_words(keys["source"], provenance),
        "warning": source_warning(keys["source"], contents, provenance),
        "epoch": provenance.epoch_words(epoch),
        "headline": headline(runs, len(table), contents),
        "is_simulated": any(map(is_simulated, contents)),
        "has_workers": any(map(has_workers, contents)),
        "classes": [
            {"label": c.label, "colour": c.colour, "meaning": _MEANINGS[c]}
            for c in (ALL_CLASSES if has_peers else IOClass)
        ],
        "summary": summary_table(
            breakdown, spread, goals, combinations, limits, titles, epoch, **further
        ),
        "limits_method": limits_method(limits),
        "doubt": doubt_words(limits),
        "beside_stalls": beside,
        "knows_stalls": stalls is not None,
        "best_policy": best_policy_words(policy_summary),
        "is_measured": keys["source"].eq("measured").all(),
        "has_ideal": storage_time is not None,
        "storage": [
            MOUNT_NAMES.sub("", sentence) if anonymous else sentence
            for sentence in (
                storage_sentences(
                    storage_time, epoch, may_hide, provenance, dataset_titles
                )
                or ideal_notes(limits)
            )
        ],
        "best_method": BEST_METHOD,
        "interval_method": METHOD,
        "warming": warming,
        **_of_estimates(goals, epoch, calibration),
        "pictures": pictures,
        "explorer_caption": caption_html(captions["explorer"]),
        "scorecard_caption": caption_html(captions["scorecard"]),
        **_scorecard(claims, paper, provenance, needs),
        **_of_program(statements, certificate, anonymous),
        "papers": papers_table(policy_claims),
        "facts": facts(experiment, description, contents, keys, dataset_titles),
        "devices": devices_table(contents),
        "devices_note": devices_note(contents),
        "differences": differences_table(run_facts, anonymous),
        "audit": audit_words(runs, len(table)),
        "runs": table,
        "spread": spread_table(spread, titles, provenance),
        "spread_words": spread_words(spread),
    }


def _of_estimates(
    goals: pd.DataFrame, epoch: int, calibration: pd.DataFrame | None
) -> dict[str, Any]:
    """Return the goal, and whether the model that estimates describes this storage."""
    words = ""
    if calibration is not None and (said := calibration["lack_of_fit"].iloc[0]):
        name = calibration["calibration"].iloc[0]
        words = f"Calibration {name} of the model: {said}"
    return {
        "goal": goal_kind(goals, epoch),
        "utilisation_note": utilisation_note_of(goals),
        "calibration": words,
    }


def _of_program(
    statements: pd.DataFrame | None, certificate: pd.DataFrame | None, anonymous: bool
) -> dict[str, Any]:
    """Return what the template shows of the runs of a program, if there are any."""
    return {
        "statements": None
        if statements is None
        else statements_table(statements, anonymous),
        "certificate": None
        if certificate is None
        else certificate_table(certificate, anonymous),
    }


def _scorecard(
    claims: pd.DataFrame | None, paper: str, provenance: Origin, needs: str
) -> dict[str, Any]:
    """Return what the template shows of the paper's claims, if they were checked."""
    if claims is None:
        return {"scorecard_table": None}
    return {
        "scorecard_title": scorecard_title(claims),
        "scorecard_notes": scorecard.notes(claims, paper, str(provenance), needs),
        "scorecard_table": scorecard.claims_table(claims),
    }


def results(frame: pd.DataFrame, label: str, style: str = "") -> Table:
    """Return a table of the report; columns with a unit or a count are numbers."""
    return Table(
        label,
        frame,
        numbers=[c for c in frame if "(s of" in c or c.endswith(_NUMBERS)],
        style=style,
        labelled=list(frame),
        has_lines=True,
    )


def papers_table(policy_claims: pd.DataFrame | None) -> pd.DataFrame:
    """Return what other papers state and what is found here, one row per claim.

    Parameters
    ----------
    policy_claims : DataFrame or None
        Table ``policy_claims``.

    Returns
    -------
    DataFrame of str
        Empty if there is no such table. Verdicts are marked.
    """
    if policy_claims is None:
        return pd.DataFrame()
    marks = {HOLDS: PASSED, FAILS: FAILED, UNDECIDED: "?", UNMEASURABLE: UNKNOWN}
    return pd.DataFrame(
        {
            "Claim": f"{row['claim']}: {row['statement']}\n({row['paper']})",
            "Stated there": row["stated"],
            "Here": f"{row['here']}\n{row['details']}".strip(),
            "Verdict": f"{marks[row['status']]} {row['status']}",
            "Not comparable": row["not_comparable"],
        }
        for row in policy_claims.to_dict("records")
    )


def source_words(sources: Iterable[str], provenance: Origin) -> str:
    """Return what titles say of the source, such as ``emulated``, or nothing."""
    words = sorted(set(sources) - {"measured"})
    return " and ".join([*words, provenance.mark] if provenance.mark else words)


def source_warning(
    sources: Iterable[str], contents: Sequence[Mapping[str, Any]], provenance: Origin
) -> str:
    """Return a warning about the numbers; nothing if all were measured on devices."""
    models = distinct(map(_model_words, contents))
    others = sorted(set(sources) - {"measured"})
    notes = provenance.observed if provenance.mark else ()
    observed = [f"{note[0].upper()}{note[1:]}." for note in notes]
    return " ".join([*(source_note(source, models) for source in others), *observed])


def _model_words(content: Mapping[str, Any]) -> str:
    """Return which machine emulated devices model; nothing for other devices."""
    if not (emulation := content["system"].get("emulation")):
        return ""
    return f"{emulation['model_of']}, in virtual time"


def devices_note(contents: Sequence[Mapping[str, Any]]) -> str:
    """Return a note on the devices of emulated or simulated tiers."""
    source = SIMULATED if any(map(is_simulated, contents)) else "emulated"
    note = f"{source_note(source)} The numbers are those of the whole machine"
    if any(map(_model_words, contents)):
        note += "; the runs use them scaled to their number of processes"
    return f"{note}."


def headline(
    runs: Sequence[ReportedRun], n_runs: int, contents: Sequence[Mapping[str, Any]]
) -> str:
    """Return size and dates of the experiment in a line."""
    kind = "simulated run" if any(map(is_simulated, contents)) else "run"
    words = [count_words(n_runs, kind, separator="")]
    if runs:
        started = min(run.run["started"] for run in runs)
        finished = max(run.run["finished"] for run in runs)
        words.append(f"{iso_time_words(started)} to {iso_time_words(finished)} UTC")
    return ", ".join(words)
