"""Gather an experiment into one page of HTML that needs no other file.

This module prepares the content, as words and tables of words; the template places it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.comparing.ideal import storage_sentences
from tierscope.analysis.comparing.policies import warming_policies
from tierscope.analysis.comparing.savings import best_policy_words
from tierscope.analysis.intervals import BEST_METHOD, METHOD
from tierscope.analysis.scorecard import scorecard_title
from tierscope.analysis.training.answer import Evidence, answer
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

ALWAYS = ("breakdown", "spread", "goals", "combinations", "limits")
PERHAPS = (
    "claims",
    "statements",
    "certificate",
    "estimates",
    "calibration",
    "policy_claims",
    "policy_summary",
    "background",
    "storage_time",
    "class_stalls",
    "run_facts",
)
_NUMBERS = ("(%)", "(s)", "(GiB)", "Repetition", "Repetitions")  # ends of columns
_MEANINGS = {
    IOClass.GFS_READ: "reading files on the global file system",
    IOClass.GFS_META: "opening, closing and looking up these files",
    IOClass.LFS_READ: "reading files on the local file system",
    IOClass.LFS_META: "opening, closing and looking up these files",
    NET_READ: "reading files from other nodes",
}


@dataclass(frozen=True)
class About:
    """What a report is about.

    Parameters
    ----------
    experiment, description : str
        Name of the experiment, and what its system is.
    origin : Origin
        Where the numbers come from, as on the figures.
    epoch : int
        The epoch of the figures, counted from 0.
    scene : mapping
        Dataset, OST count and loader of figures 3 to 5.
    dataset_titles : mapping of str to str
        What to call each dataset.
    paper : str
        The paper of the claims, as it is cited.
    needs : str, optional
        What `tierscope.claims.paper.needed_sweep` returns.
    anonymous : bool
        Whether to leave out who ran it and where (`without_identities`).
    goal_origin : str, optional
        Where the goal comes from.
    """

    experiment: str
    description: str
    origin: Origin
    epoch: int
    scene: Mapping[str, Any]
    dataset_titles: Mapping[str, str]
    paper: str
    needs: str = ""
    anonymous: bool = False
    goal_origin: str = ""


def report_context(
    about: About,
    tables: Mapping[str, pd.DataFrame],
    *,
    runs: Sequence[ReportedRun],
    simulations: Sequence[Mapping[str, Any]] = (),
    pictures: Sequence[Picture],
    captions: Mapping[str, str],
) -> dict[str, Any]:
    """Return everything that the template shows.

    Parameters
    ----------
    about : About
        What the report is about.
    tables : mapping of str to DataFrame
        Tables of `ALWAYS`, and those of `PERHAPS` that there are: ``claims`` unless a
        program of the user was run, else ``statements`` and ``certificate``;
        ``estimates`` by the model and its ``calibration``; ``policy_claims`` where
        policies or loaders are compared; the rows of ``policy_summary`` that figure
        ``policies`` shows; ``background`` of the runs that have copies;
        ``storage_time`` if there are ideal runs; ``class_stalls`` if the training
        computes and a model tells the stall; ``run_facts`` unless all runs are
        simulated. Runs that only ``breakdown`` has are listed as not audited.
    runs : sequence of ReportedRun
        The runs of the experiment, in the order of the table; none if simulated.
    simulations : sequence of mapping
        The `run.json` of a run of each scenario, in the order of the tables, if
        simulated.
    pictures : sequence of Picture
        The figures, in order.
    captions : mapping of str to str
        What to say about ``scorecard`` and ``explorer``, in reStructuredText.
    """
    origin, epoch, dataset_titles = about.origin, about.epoch, about.dataset_titles
    breakdown, limits, spread = (
        tables[name] for name in ("breakdown", "limits", "spread")
    )
    found = {name: tables.get(name) for name in PERHAPS}
    if about.anonymous:
        runs = [ReportedRun(without_identities(run.run), run.audit) for run in runs]
    if simulations:
        scenarios = [simulation["scenario"] for simulation in simulations]
        breakdown = select_scenarios(breakdown, scenarios)  # in their order
    keys = all_run_keys(runs, breakdown)
    titles = scenario_titles(keys, dataset_titles)
    table = runs_table(runs, breakdown, dataset_titles, origin)
    contents = [*(run.run for run in runs), *simulations]
    has_peers = breakdown["io_class"].eq(NET_READ).any()
    warming = warming_policies(found["background"], epoch)
    stalls, storage_time = found["class_stalls"], found["storage_time"]
    may_hide = limits["may_hide"].any()
    beside = None
    if found["statements"] is None and (stalls is not None or may_hide):
        beside = times_beside_stalls(breakdown, stalls, limits, titles, epoch)
    storage = storage_sentences(storage_time, epoch, may_hide, origin, dataset_titles)
    storage = storage or ideal_notes(limits)
    if about.anonymous:
        storage = [MOUNT_NAMES.sub("", sentence) for sentence in storage]
    evidence = Evidence(
        *(tables[name] for name in ("breakdown", "limits", "goals", "combinations")),
        found["policy_summary"],
        found["storage_time"],
        about.scene,
        epoch,
        origin.phase,
        "bytes" if origin.is_program else "files",
        origin.mark,
        about.goal_origin,
    )
    return {
        "policy": content_policy(),
        "results": results,
        "answer": answer(evidence),
        "title": f"Storage experiment {about.experiment}",
        "description": about.description,
        "provenance": str(origin),
        "source": source_words(keys["source"], origin),
        "warning": source_warning(keys["source"], contents, origin),
        "epoch": origin.epoch_words(epoch),
        "headline": headline(runs, len(table), contents),
        "is_simulated": any(map(is_simulated, contents)),
        "has_workers": any(map(has_workers, contents)),
        "classes": [
            {"label": c.label, "colour": c.colour, "meaning": _MEANINGS[c]}
            for c in (ALL_CLASSES if has_peers else IOClass)
        ],
        "summary": summary_table(
            {**tables, "breakdown": breakdown}, titles, epoch, is_warming=bool(warming)
        ),
        "limits_method": limits_method(limits),
        "doubt": doubt_words(limits),
        "beside_stalls": beside,
        "knows_stalls": stalls is not None,
        "best_policy": best_policy_words(found["policy_summary"]),
        "is_measured": keys["source"].eq("measured").all(),
        "has_ideal": storage_time is not None,
        "storage": storage,
        "best_method": BEST_METHOD,
        "interval_method": METHOD,
        "warming": warming,
        "goal": goal_kind(tables["goals"], epoch),
        "goal_origin": about.goal_origin,
        "utilisation_note": utilisation_note_of(tables["goals"]),
        "calibration": _calibration_words(found["calibration"]),
        "pictures": pictures,
        "explorer_caption": caption_html(captions["explorer"]),
        "scorecard_caption": caption_html(captions["scorecard"]),
        **_scorecard(about, found["claims"]),
        "statements": statements_table(found["statements"], about.anonymous),
        "certificate": certificate_table(found["certificate"], about.anonymous),
        "papers": papers_table(found["policy_claims"]),
        "facts": facts(
            about.experiment, about.description, contents, keys, dataset_titles
        ),
        "devices": devices_table(contents),
        "devices_note": devices_note(contents),
        "differences": differences_table(found["run_facts"], about.anonymous),
        "audit": audit_words(runs, len(table)),
        "runs": table,
        "spread": spread_table(spread, titles, origin),
        "spread_words": spread_words(spread),
    }


def _calibration_words(calibration: pd.DataFrame | None) -> str:
    """Return in words that the model does not describe this storage, if so."""
    if calibration is None or not (said := calibration["lack_of_fit"].iloc[0]):
        return ""
    return f"Calibration {calibration['calibration'].iloc[0]} of the model: {said}"


def _scorecard(about: About, claims: pd.DataFrame | None) -> dict[str, Any]:
    """Return what the template shows of the paper's claims, if they were checked."""
    if claims is None:
        return {"scorecard_table": None}
    notes = scorecard.notes(claims, about.paper, str(about.origin), about.needs)
    return {
        "scorecard_title": scorecard_title(claims),
        "scorecard_notes": notes,
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
