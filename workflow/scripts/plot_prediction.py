"""Draw the predictions of the models beside the measurements."""

import sys

from tierscope.analysis.origin import origin_of
from tierscope.core.tables import read_table
from tierscope.figures.prediction import plot_prediction
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    figure = plot_prediction(
        read_table(snakemake.input.predictions, "predictions"),
        read_table(snakemake.input.errors, "prediction_errors"),
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
