"""Simulate the designs of a study: which meet the goal, and what they cost."""

from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on, say_step
from tierscope.core.tables import write_table
from tierscope.data.designs import Study
from tierscope.model.designs.feeding import simulating
from tierscope.model.designs.study import simulate_study
from tierscope.storage.queueing_network import ModelError


def main() -> None:
    """Simulate in as many processes as the rule has threads, and write the tables."""
    study, output = Study.from_json(snakemake.params.study), snakemake.output
    with simulating(snakemake.threads) as simulate:
        found = simulate_study(study, simulate, print, say_step)
    write_table(found.designs, output.designs, "designs")
    write_table(found.inputs, output.inputs, "designs_inputs")
    if found.fit is not None:
        write_table(found.fit, output.fit, "designs_fit")


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(ModelError):
        main()
