"""Draw the effect of partitioning on accuracy, and write it as text."""

from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.figures.accuracy import plot_accuracy, summary_text, training_words
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    accuracy = read_table(snakemake.input.accuracy, "accuracy")
    tests = read_table(snakemake.input.tests, "accuracy_tests")
    training = training_words(snakemake.params.study)
    figure = plot_accuracy(accuracy, tests, training=training)
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
    text = summary_text(tests, training=training)
    write_text(snakemake.output.text, text)
    print(text)
