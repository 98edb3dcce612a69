"""Draw Fig. 4: which improvements of two I/O classes meet a performance goal."""

import sys

from tierscope.breakdown import select_epoch, select_scenario
from tierscope.plot import save_figure
from tierscope.plot_whatif import plot_sufficient
from tierscope.tables import read_table
from tierscope.whatif import (
    improvement_grid,
    select_improvements,
    sufficient_combinations,
)

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    estimates, goals = (
        select_epoch(
            select_scenario(
                read_table(snakemake.input[name], name), snakemake.params.scenario
            ),
            snakemake.params.epoch,
        )
        for name in ("estimates", "goals")
    )
    goal = goals.iloc[0]
    grid = improvement_grid(snakemake.params.classes, **snakemake.params.grid)
    combinations = sufficient_combinations(
        select_improvements(estimates, grid), goal["goal_s"], goal["difference_s"]
    )
    figure = plot_sufficient(
        combinations,
        goal,
        read_table(snakemake.input.spread, "spread"),
        classes=snakemake.params.classes,
        provenance=snakemake.params.provenance,
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
    print(f"goal: {goal['goal_s']} s; sufficient: {combinations['sufficient'].sum()}")
