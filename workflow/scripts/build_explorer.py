"""Build the explorer: one HTML page on which readers try improvements."""

from pathlib import Path

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
from tierscope.pages.explorer.data import Start
from tierscope.pages.explorer.page import build_explorer

if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    io_time = without_peers(read_table(snakemake.input.io_time, "io_time"))
    epochs = read_table(snakemake.input.epochs, "epochs")
    estimates = None
    if snakemake.input.estimates:
        estimates = read_table(snakemake.input.estimates, "estimates")
    epoch, origin = shown_epoch(io_time, params.epoch), origin_of(snakemake)
    shown = select_epoch(select_scenario(io_time, params.scenario), epoch)
    if params.percent is None:
        goal = make_goal(shown, epochs, **params.goal)
    else:
        goal = UtilisationGoal(params.percent)
    limits = read_table(snakemake.input.limits, "limits")
    start = Start(
        scenario=params.scenario,
        epoch=epoch,
        goal=goal,
        pair=params.pairs[0],
        method=params.method,
        origin=origin,
        limits=limits,
        **params.search,
    )
    stalls = snakemake.input.stalls
    stalls = read_table(stalls, "class_stalls") if stalls else None
    scenarios = scenario_titles(io_time, params.dataset_titles)
    explorer = build_explorer(
        io_time,
        start,
        page=Path(snakemake.input.page).read_text(encoding="utf-8"),
        computation=Path(snakemake.input.computation).read_text(encoding="utf-8"),
        title=f"What-if explorer: {params.experiment}",
        provenance=str(origin),
        dataset_titles=params.dataset_titles,
        estimates=estimates,
        pairs=params.pairs,
        model=params.model,
        stalls=stalls,
        note=" ".join(limit_notes(limits, scenarios)),
    )
    write_text(snakemake.output.explorer, explorer)
    print(f"{len(explorer.encode()) / 2**20:.1f} MiB")
