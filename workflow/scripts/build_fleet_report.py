"""Build the page of all jobs of an analysis of Darshan logs."""

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import jobs_with_pages, over_time
from tierscope.core.files import log_to, write_text
from tierscope.core.provenance import Origin
from tierscope.pages.document import Picture, render
from tierscope.pages.logs.fleet_page import OF_FLEET, fleet_page
from tierscope.pages.logs.folders import FOLDER, REPORT, folder_names

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    tables = JobTables({name: given[name] for name in OF_FLEET})
    folders = folder_names(jobs_with_pages(tables, params.pages))
    titles = {"fleet": "All jobs"}
    if over_time(tables):
        titles["fleet_over_time"] = "Hours of I/O by class"
    pictures = [
        Picture.of_files(name, title, given[f"{name}_figure"], given[f"{name}_caption"])
        for name, title in titles.items()
    ]
    context = fleet_page(
        tables,
        experiment=params.experiment,
        pictures=pictures,
        provenance=Origin(params.provenance),
        pages={job: f"{FOLDER}/{name}/{REPORT}" for job, name in folders.items()},
        processes_per_node=params.processes_per_node,
    )
    page = render("logs.html.j2", context)
    write_text(snakemake.output.report, page)
    print(f"{context['lead']} {len(page) >> 10} KiB")
