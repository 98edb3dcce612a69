"""Draw Fig. 4: which improvements of two I/O classes meet a performance goal."""

import sys

import pandas as pd
from tierscope.breakdown import select_epoch, select_scenario
from tierscope.plot import plot_sufficient, save_figure
from tierscope.tables import read_table
from tierscope.whatif import (
    default_goal_s,
    improvement_grid,
    select_improvements,
    sufficient_combinations,
)


def goal_and_words(estimates: pd.DataFrame, goal_s: float | None) -> tuple[float, str]:
    """Return the goal in seconds, half of the best measured time if not given."""
    if goal_s is None:
        return default_goal_s(
            estimates
        ), "half of the best I/O time without improvement"
    return goal_s, ""


if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    estimates = read_table(snakemake.input.estimates, "estimates")
    estimates = select_scenario(estimates, snakemake.params.scenario)
    estimates = select_epoch(estimates, snakemake.params.epoch)
    goal_s, goal_words = goal_and_words(estimates, snakemake.params.goal_s)
    grid = improvement_grid(**snakemake.params.grid)
    combinations = sufficient_combinations(select_improvements(estimates, grid), goal_s)
    figure = plot_sufficient(
        combinations,
        goal_s,
        classes=snakemake.params.grid["classes"],
        goal_words=goal_words,
        provenance=snakemake.params.provenance,
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
    print(f"goal: {goal_s} s; sufficient: {combinations['sufficient'].sum()}")
