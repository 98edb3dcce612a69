"""Build the page of designs, on which readers change prices."""

from tierscope.analysis.designs.answer import Answer
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.pages.designs import build_designs

if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    table = read_table(snakemake.input.designs, "designs")
    inputs = read_table(snakemake.input.inputs, "designs_inputs")
    answer = Answer.of(table, inputs, params)
    title = f"What to buy: {params.experiment} (simulated)"
    page = build_designs(answer, title, params.sources, params.provenance)
    write_text(snakemake.output.page, page)
    print(f"{len(page.encode()) / 2**20:.1f} MiB")
