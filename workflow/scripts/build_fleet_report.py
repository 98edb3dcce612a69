"""Build the page of all jobs of an analysis of Darshan logs."""

from pathlib import Path

from tierscope.core.files import log_to, write_text
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.pages.document import Picture, render
from tierscope.pages.logs.fleet_page import OF_FLEET, fleet_page
from tierscope.pages.logs.folders import FOLDER, REPORT, page_folders

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    tables = {name: read_table(given[name], name) for name in OF_FLEET}
    folders = page_folders(tables["fleet"], params.pages)
    svg, caption = Path(given.figure).read_bytes(), Path(given.caption).read_text()
    context = fleet_page(
        tables,
        experiment=params.experiment,
        picture=Picture("fleet", "All jobs", svg, caption),
        provenance=Origin(params.provenance),
        pages={job: f"{FOLDER}/{name}/{REPORT}" for job, name in folders.items()},
        processes_per_node=params.processes_per_node,
    )
    page = render("logs.html.j2", context)
    write_text(snakemake.output.report, page)
    print(f"{context['lead']} {len(page) >> 10} KiB")
