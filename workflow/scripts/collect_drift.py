"""Compare the sentinel's reads at all runs, and flag those outside the band."""

from tierscope.analysis.drift import drift_of, drift_words
from tierscope.core.description import Run
from tierscope.core.files import log_to
from tierscope.core.tables import write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    drift = drift_of(map(Run.read, snakemake.input.runs), snakemake.params.limit)
    write_table(drift, snakemake.output[0], "drift")
    print(*drift_words(drift), sep="\n")
