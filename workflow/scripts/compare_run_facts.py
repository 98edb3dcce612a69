"""List what runs were measured with; refuse runs that must not be joined."""

from pathlib import Path
from shlex import join

from tierscope.analysis.run_facts import (
    differing,
    list_facts,
    refuse_mixed_runs,
    run_facts,
    to_measure_again,
)
from tierscope.core.files import log_to
from tierscope.core.tables import write_table
from tierscope.core.validation import read_json

if __name__ == "__main__":
    log_to(snakemake.log[0])
    allowed = snakemake.params.allow_mixed
    paths = list(map(Path, snakemake.input.runs))
    listed = list_facts({str(one.parent): read_json(one) for one in paths})
    facts = run_facts(listed)
    for row in differing(facts).itertuples():
        print(f"{row.fact}: {row.value} (number of runs: {row.n_runs}; {row.run})")
    if again := to_measure_again(listed, allowed):
        print(f"To measure again: {join(['rm', '-r', *again])}")
    refuse_mixed_runs(listed, allowed)
    write_table(facts, snakemake.output[0], "run_facts")
