"""Draw the measured effect of faster devices, and write it as text."""

from tierscope.analysis.breakdown import slowest_process, spread_over_repetitions
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.figures.style import save_figure
from tierscope.figures.whatif_truth import plot_whatif_truth, summary_text

if __name__ == "__main__":
    log_to(snakemake.log[0])
    table = read_table(snakemake.input.table, "whatif_truth")
    summary = read_table(snakemake.input.summary, "whatif_truth_summary")
    slowest = slowest_process(read_table(snakemake.input.io_time, "io_time"))
    times = slowest.rename(columns={"io_time_s": "time_s"}).assign(quantity="I/O time")
    origin = origin_of(snakemake)
    figure = plot_whatif_truth(
        table,
        summary,
        spread_over_repetitions(times, snakemake.params.max_spread_percent),
        provenance=origin,
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
    text = f"{summary_text(table, summary)}\nSource: {origin}.\n"
    write_text(snakemake.output.text, text)
    print(text)
