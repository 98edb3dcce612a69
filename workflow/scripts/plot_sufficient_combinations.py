"""Draw Fig. 4: which improvements of two I/O classes meet a performance goal."""

from tierscope.analysis.breakdown import select_epoch, select_scenario, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.analysis.utilisation import UtilisationGoal, sufficient_utilisation
from tierscope.analysis.whatif import (
    improvement_grid,
    select_improvements,
    sufficient_combinations,
)
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, read_tables
from tierscope.core.words import goal_words, is_utilisation
from tierscope.figures.style import save_figure
from tierscope.figures.sufficient_combinations import plot_sufficient_combinations

if __name__ == "__main__":
    log_to(snakemake.log[0])
    estimates, goals = (
        select_epoch(
            select_scenario(table, snakemake.params.scenario),
            shown_epoch(table, snakemake.params.epoch),
        )
        for table in (
            read_tables(snakemake.input.estimates, "estimates"),
            read_table(snakemake.input.goals, "goals"),
        )
    )
    goal = goals.iloc[0]
    grid = improvement_grid(snakemake.params.classes, **snakemake.params.grid)
    estimates = select_improvements(estimates, grid)
    if is_utilisation(goal):
        combinations = sufficient_utilisation(
            estimates, UtilisationGoal(goal["goal_percent"])
        )
    else:
        combinations = sufficient_combinations(
            estimates, goal["goal_s"], goal["difference_s"]
        )
    figure = plot_sufficient_combinations(
        # In the order of the tables.
        combinations.set_index("method")
        .loc[estimates["method"].unique()]
        .reset_index(),
        goal,
        read_table(snakemake.input.spread, "spread"),
        classes=snakemake.params.classes,
        cost_per_percent=snakemake.params.cost_per_percent,
        provenance=origin_of(snakemake),
        model=snakemake.params.model,
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
    n_sufficient = combinations.groupby("method")["sufficient"].sum()
    print(f"{goal_words(goal)}; sufficient:", n_sufficient.to_string(), sep="\n")
