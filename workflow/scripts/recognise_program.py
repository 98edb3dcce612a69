"""Tell from the runs that there are whether the models know how a program loads."""

from describe_program import seen_run
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.model.programs.facts import program_facts
from tierscope.storage.queueing_network import ModelError

if __name__ == "__main__":
    log_to(snakemake.log[0])
    sizes = read_table(snakemake.input.manifest, "user_manifest")["size_bytes"]
    runs = list(map(seen_run, snakemake.input.runs))
    refusal = ""
    try:
        print(f"The program {program_facts(runs, sizes.to_numpy()).words}.")
    except ModelError as error:
        refusal = f"{error}\n"
        print(f"predict: {error} The sweep goes on without predictions.")
    write_text(snakemake.output[0], refusal)
