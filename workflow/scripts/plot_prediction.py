"""Draw the predictions of the models beside the measurements."""

from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.figures.prediction import plot_prediction
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    figure = plot_prediction(
        read_table(snakemake.input.predictions, "predictions"),
        read_table(snakemake.input.errors, "prediction_errors"),
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
