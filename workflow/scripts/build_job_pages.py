"""Build pages and figures of single jobs of an analysis of Darshan logs."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import jobs_with_pages
from tierscope.core.files import log_to, write_text
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.figures.logs.job_breakdown import plot_job_breakdown
from tierscope.figures.logs.job_processes import plot_job_processes
from tierscope.figures.logs.processes import WHOLE_JOB, with_io
from tierscope.figures.style import save_figure
from tierscope.pages.document import Picture, render
from tierscope.pages.logs.explorer import explorer_data, job_explorer
from tierscope.pages.logs.folders import EXPLORER, FLEET, REPORT, folder_names
from tierscope.pages.logs.job_page import OF_JOBS, job_advice, job_page, rows_of_job

_TITLES = {
    "breakdown": "I/O time of the slowest process by class",
    "processes": "I/O time of each process",
}


def build_pages(
    tables: Mapping[str, pd.DataFrame],
    job: str,
    folder: Path,
    captions: Mapping[str, str],
    *,
    provenance: Origin,
    fleet_page: str = "",
    processes_per_node: int | None = None,
) -> None:
    """Write report, figures and, where it is possible, the explorer of a job.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The tables of the analysis.
    job : str
        The job.
    folder : Path
        Where to write; made if it is missing.
    captions : mapping of str to str
        The captions ``breakdown`` and ``processes``.
    provenance, fleet_page, processes_per_node
        As for `tierscope.pages.logs.job_page.job_page`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of = rows_of_job(tables, job)
    tiers = list(tables["tier_prefixes"]["tier"].unique())
    known = {"provenance": provenance, "tiers": tiers}
    breakdown, slowest = of["job_breakdown"], of["job_slowest"]
    figures = {"breakdown": plot_job_breakdown(breakdown, slowest, job, **known)}
    if len(with_io(of["job_processes"], WHOLE_JOB)) > 1:
        figures["processes"] = plot_job_processes(of, job, **known)
    pictures = []
    for name, figure in figures.items():
        files = [folder / f"{name}.{kind}" for kind in ("svg", "png")]
        save_figure(figure, files)
        svg = files[0].read_bytes()
        pictures.append(Picture(name, _TITLES[name], svg, captions[name]))
    data = explorer_data(of["job_times"], job, tiers)
    if not isinstance(data, str):
        explorer = job_explorer(
            data,
            job,
            advice=job_advice(of),
            provenance=provenance,
        )
        write_text(folder / EXPLORER, explorer)
    context = job_page(
        of,
        job,
        pictures=pictures,
        provenance=provenance,
        explorer="" if isinstance(data, str) else EXPLORER,
        no_explorer=data if isinstance(data, str) else "",
        fleet_page=fleet_page,
        processes_per_node=processes_per_node,
    )
    page = render("logs.html.j2", context)
    write_text(folder / REPORT, page)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    jobs = jobs_with_pages(JobTables({"fleet": given.fleet}), params.pages)
    folders = folder_names(jobs)
    tables = {"tier_prefixes": read_table(given.tier_prefixes, "tier_prefixes")}
    shown = pc.field("job").isin(pa.array(jobs, pa.string()))
    tables |= {name: read_table(given[name], name, shown) for name in OF_JOBS}
    captions = {
        name: Path(given[f"{name}_caption"]).read_text(encoding="utf-8")
        for name in _TITLES
    }
    Path(snakemake.output.pages).mkdir(parents=True, exist_ok=True)  # even if empty
    for number, (job, name) in enumerate(folders.items(), start=1):
        build_pages(
            tables,
            job,
            Path(snakemake.output.pages, name),
            captions,
            provenance=Origin(params.provenance),
            fleet_page=f"../../{FLEET}",
            processes_per_node=params.processes_per_node,
        )
        print(f"{number} of {len(folders)} jobs: {name}")
