"""Test whether partitioning reduces accuracy."""

from tierscope.analysis.accuracy import compare
from tierscope.core.files import log_to
from tierscope.core.tables import read_tables, write_table
from tierscope.data.labelled_samples import best_possible_percent

if __name__ == "__main__":
    log_to(snakemake.log[0])
    study = snakemake.params.study
    accuracy = read_tables(snakemake.input.accuracy, "accuracy")
    best_percent = best_possible_percent(
        study["n_classes"], study["n_test_files"], snakemake.params.seed
    )
    tests = compare(
        accuracy,
        margin_points=study["margin_points"],
        best_possible_percent=best_percent,
    )
    write_table(accuracy, snakemake.output.accuracy, "accuracy")
    write_table(tests, snakemake.output.tests, "accuracy_tests")
    print(tests.T.to_string(header=False))
