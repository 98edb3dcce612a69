"""Draw the effect of partitioning on accuracy, and write it as text."""

import sys
from pathlib import Path

from tierscope.core.tables import read_table
from tierscope.figures.accuracy import plot_accuracy, summary_text, training_words
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    accuracy = read_table(snakemake.input.accuracy, "accuracy")
    tests = read_table(snakemake.input.tests, "accuracy_tests")
    training = training_words(snakemake.params.study)
    figure = plot_accuracy(accuracy, tests, training=training)
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
    text = summary_text(tests, training=training)
    Path(snakemake.output.text).write_text(text, encoding="utf-8")
    print(text)
