"""Build the report of an experiment: one HTML page."""

import json
from pathlib import Path
from typing import Any

from tierscope.analysis.breakdown import select_scenarios, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.claims.paper import needed_sweep, read_claims
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.pages.document import Picture, render
from tierscope.pages.report.facts import ReportedRun
from tierscope.pages.report.page import report_context


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(Path(path).read_text())


if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    runs = [
        ReportedRun(read_json(run), read_json(audit))
        for run, audit in zip(given.runs, given.audits, strict=True)
    ]
    pictures = [
        Picture(
            name,
            title,
            Path(svg).read_bytes(),
            Path(caption).read_text(encoding="utf-8"),
        )
        for (name, title), svg, caption in zip(
            params.figures.items(), given.figures, given.captions, strict=True
        )
    ]
    estimates = read_table(given.estimates, "estimates") if given.estimates else None
    calibration = None
    if given.calibration:
        calibration = read_table(given.calibration, "calibration")
    policy_claims = None
    if given.policy_claims:
        policy_claims = read_table(given.policy_claims, "policy_claims")
    background = None
    if given.background:
        background = read_table(given.background, "background")
    storage_time = None
    if given.storage_time:
        storage_time = read_table(given.storage_time, "storage_time")
    stalls = read_table(given.stalls, "class_stalls") if given.stalls else None
    policy_summary = None
    if given.policy_summary:
        policy_summary = read_table(given.policy_summary, "policy_summary")
        policy_summary = select_scenarios(policy_summary, [params.scene])
    run_facts = None
    if given.run_facts:
        run_facts = read_table(given.run_facts, "run_facts")
    names = ("breakdown", "spread", "goals", "combinations", "limits", "claims")
    names += ("statements", "certificate")  # of programs
    present = [name for name in names if given.get(name)]
    tables = {name: read_table(given[name], name) for name in present}
    paper = read_claims(given.paper)
    context = report_context(
        experiment=params.experiment,
        description=params.description,
        provenance=origin_of(snakemake),
        epoch=shown_epoch(tables["breakdown"], params.epoch),
        dataset_titles=params.dataset_titles,
        paper=paper["paper"],
        needs=needed_sweep(paper, tables["claims"]) if "claims" in tables else "",
        runs=runs,
        simulations=list(map(read_json, given.simulations)),
        pictures=pictures,
        captions={
            name: Path(given[f"{name}_caption"]).read_text(encoding="utf-8")
            for name in ("explorer", "scorecard")
        },
        estimates=estimates,
        calibration=calibration,
        policy_claims=policy_claims,
        policy_summary=policy_summary,
        storage_time=storage_time,
        stalls=stalls,
        background=background,
        run_facts=run_facts,
        anonymous=params.anonymous,
        **tables,
    )
    page = render("report.html.j2", context)
    write_text(snakemake.output.report, page)
    print(f"{context['headline']}, {len(pictures)} figures, {len(page) >> 10} KiB")
