"""Draw Fig. 4: which improvements of two I/O classes meet a performance goal."""

from tierscope.analysis.breakdown import select_epoch, select_scenario, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.analysis.training.limit import advice_on
from tierscope.analysis.utilisation import UtilisationGoal, sufficient_utilisation
from tierscope.analysis.whatif import (
    improvement_grid,
    select_improvements,
    sufficient_combinations,
)
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, read_tables
from tierscope.core.words import goal_words, is_utilisation
from tierscope.figures.before_after import no_improvement
from tierscope.figures.style import save_figure, write_first
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
    spread = read_table(snakemake.input.spread, "spread")
    words = {
        "provenance": origin_of(snakemake),
        "dataset_titles": snakemake.params.dataset_titles,
    }
    limits = read_table(snakemake.input.limits, "limits")
    limits = select_scenario(limits, snakemake.params.scenario)
    advice = advice_on(limits, words["provenance"].phase)
    if advice.is_given:
        figure = plot_sufficient_combinations(
            # In the order of the tables.
            combinations.set_index("method")
            .loc[estimates["method"].unique()]
            .reset_index(),
            goal,
            spread,
            classes=snakemake.params.classes,
            cost_per_percent=snakemake.params.cost_per_percent,
            model=snakemake.params.model,
            **words,
        )
        write_first(figure, advice.words)
    else:
        figure = no_improvement(limits, spread, **words)
    save_figure(figure, snakemake.output)
    n_sufficient = combinations.groupby("method")["sufficient"].sum()
    print(f"{goal_words(goal)}; sufficient:", n_sufficient.to_string(), sep="\n")
