"""Search the improvements that meet a goal of accelerator utilisation, by the model."""

from tierscope.analysis.breakdown import select_scenario, shown_epoch
from tierscope.analysis.search import Search
from tierscope.analysis.utilisation import UtilisationGoal
from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on
from tierscope.core.tables import read_table, write_table
from tierscope.model.calibration.fit import read_described
from tierscope.model.goal_search import search_by_model
from tierscope.storage.queueing_network import ModelError


def main() -> None:
    """Search, write the tables, and print the goal and the effort."""
    params, files = snakemake.params, snakemake.input
    description = read_described(params.description, files.devices, files.manifest)
    io_time, epochs = (
        select_scenario(read_table(snakemake.input[name], name), params.scenario)
        for name in ("io_time", "epochs")
    )
    dataset = description.dataset
    dataset_bytes = dataset.n_files * dataset.file_size_bytes
    found = search_by_model(
        io_time,
        epochs,
        UtilisationGoal(params.percent),
        shown_epoch(io_time, params.epoch),
        description,
        Search(**params.search, dataset_bytes=dataset_bytes),
        known=read_table(snakemake.input.estimates, "estimates"),
    )
    for name in ("goals", "combinations", "estimates"):
        write_table(getattr(found, name), snakemake.output[name], name)
    print(found.goals.iloc[0].to_string())
    print(f"{found.n_simulations} simulated epochs")


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(ModelError):
        main()
