"""Build the report of an experiment: one HTML page."""

from pathlib import Path

from tierscope.analysis.breakdown import select_scenarios, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.claims.paper import needed_sweep, read_claims
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.core.validation import read_json
from tierscope.pages.document import Picture, render
from tierscope.pages.report.facts import ReportedRun
from tierscope.pages.report.page import ALWAYS, PERHAPS, About, report_context

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    runs = [
        ReportedRun(read_json(run), read_json(audit))
        for run, audit in zip(given.runs, given.audits, strict=True)
    ]
    pictures = [
        Picture.of_files(*figure, svg, caption)
        for figure, svg, caption in zip(
            params.figures.items(), given.figures, given.captions, strict=True
        )
    ]
    present = [name for name in (*ALWAYS, *PERHAPS) if given.get(name)]
    tables = {name: read_table(given[name], name) for name in present}
    if "policy_summary" in tables:
        rows = select_scenarios(tables["policy_summary"], [params.scene])
        tables["policy_summary"] = rows
    paper = read_claims(given.paper)
    about = About(
        experiment=params.experiment,
        description=params.description,
        origin=origin_of(snakemake),
        epoch=shown_epoch(tables["breakdown"], params.epoch),
        scene=params.scene,
        dataset_titles=params.dataset_titles,
        paper=paper["paper"],
        needs=needed_sweep(paper, tables["claims"]) if "claims" in tables else "",
        anonymous=params.anonymous,
        goal_origin=params.goal_origin,
    )
    context = report_context(
        about,
        tables,
        runs=runs,
        simulations=list(map(read_json, given.simulations)),
        pictures=pictures,
        captions={
            name: Path(given[f"{name}_caption"]).read_text(encoding="utf-8")
            for name in ("explorer", "scorecard")
        },
    )
    page = render("report.html.j2", context)
    write_text(snakemake.output.report, page)
    write_text(
        snakemake.output.answer, "".join(f"{one}\n" for one in context["answer"])
    )
    print(f"{context['headline']}, {len(pictures)} figures, {len(page) >> 10} KiB")
