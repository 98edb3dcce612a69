"""Draw Fig. 3: breakdown of the slowest process after improving I/O classes."""

from tierscope.analysis.breakdown import select_epoch, select_scenario, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.analysis.training.limit import advice_on
from tierscope.analysis.whatif import estimated_breakdown
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, read_tables
from tierscope.figures.improvement import plot_improved_utilisation, plot_improvement
from tierscope.figures.style import save_figure, write_first

if __name__ == "__main__":
    log_to(snakemake.log[0])
    estimates = read_tables(snakemake.input.estimates, "estimates")
    estimates = select_scenario(estimates, snakemake.params.scenario)
    epoch = shown_epoch(estimates, snakemake.params.epoch)
    estimates = select_epoch(estimates, epoch)
    improvements = [{}, *snakemake.params.improvements]
    spread = read_table(snakemake.input.spread, "spread")
    words = {
        "provenance": origin_of(snakemake),
        "model": snakemake.params.model,
        "dataset_titles": snakemake.params.dataset_titles,
    }
    if snakemake.input.goals:  # those of utilisation are drawn here, too
        goals = read_table(snakemake.input.goals, "goals")
        figure = plot_improved_utilisation(
            estimates,
            snakemake.params.improvements,
            goals.iloc[0],
            spread,
            **words,
        )
    else:
        breakdown = estimated_breakdown(estimates, improvements)
        figure = plot_improvement(breakdown, spread, **words)
    limits = read_table(snakemake.input.limits, "limits")
    limits = select_scenario(limits, snakemake.params.scenario)
    write_first(figure, advice_on(limits, words["provenance"].phase).words)
    save_figure(figure, snakemake.output)
