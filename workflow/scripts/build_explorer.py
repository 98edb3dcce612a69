"""Build the explorer: one HTML page on which readers try improvements."""

from tierscope.analysis.breakdown import (
    select_epoch,
    select_scenario,
    shown_epoch,
    without_peers,
)
from tierscope.analysis.origin import origin_of
from tierscope.analysis.training.limit import limit_notes
from tierscope.analysis.utilisation import UtilisationGoal
from tierscope.analysis.whatif import make_goal
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.core.words import scenario_titles
from tierscope.pages.explorer.page import build_explorer
from tierscope.pages.explorer.subjects import Sweep, UtilisationSweep

if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    io_time = without_peers(read_table(snakemake.input.io_time, "io_time"))
    epochs = read_table(snakemake.input.epochs, "epochs")
    estimates = None
    if snakemake.input.estimates:
        estimates = read_table(snakemake.input.estimates, "estimates")
    epoch = shown_epoch(io_time, params.epoch)
    shown = select_epoch(select_scenario(io_time, params.scenario), epoch)
    if params.percent is None:
        kind, goal = Sweep, make_goal(shown, epochs, **params.goal)
    else:
        kind, goal = UtilisationSweep, UtilisationGoal(params.percent)
    limits, stalls = read_table(snakemake.input.limits, "limits"), None
    if snakemake.input.stalls:
        stalls = read_table(snakemake.input.stalls, "class_stalls")
    subject = kind(
        io_time=io_time,
        scenario=params.scenario,
        epoch=epoch,
        goal=goal,
        pair=params.pairs[0],
        method=params.method,
        origin=origin_of(snakemake),
        estimates=estimates,
        pairs=params.pairs,
        model=params.model,
        limits=limits,
        stalls=stalls,
        **params.search,
    )
    explorer = build_explorer(
        subject,
        f"What-if explorer: {params.experiment}",
        " ".join(limit_notes(limits, scenario_titles(io_time, params.dataset_titles))),
        params.dataset_titles,
    )
    write_text(snakemake.output.explorer, explorer)
    print(f"{len(explorer.encode()) / 2**20:.1f} MiB")
