"""Draw Fig. 5: breakdown before and after the cheapest improvements to meet a goal."""

from collections.abc import Mapping

import pandas as pd
from tierscope.analysis.breakdown import select_epoch, select_scenario, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.analysis.search import cheapest_combination
from tierscope.analysis.training.limit import advice_on
from tierscope.analysis.whatif import break_down_improved
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.core.words import is_utilisation
from tierscope.figures.before_after import no_improvement
from tierscope.figures.cheapest_combination import (
    plot_cheapest_combination,
    plot_cheapest_utilisation,
)
from tierscope.figures.style import save_figure, write_first


def shown_improvements(
    cheapest: pd.Series | None, max_improvement_percent: int
) -> list[Mapping[str, int]]:
    """Return no improvement and the cheapest, or the largest if none meets the goal."""
    if cheapest is None:
        return [{}, dict.fromkeys(CLASSES, max_improvement_percent)]
    percents = dict(zip(CLASSES, map(int, cheapest[IMPROVEMENTS]), strict=True))
    return [{}, percents] if any(percents.values()) else [{}]


if __name__ == "__main__":
    log_to(snakemake.log[0])
    tables = (read_table(snakemake.input[name], name) for name in ("io_time", "goals"))
    io_time, goals = (
        select_epoch(table, shown_epoch(table, snakemake.params.epoch))
        for table in (select_scenario(one, snakemake.params.scenario) for one in tables)
    )
    goal = goals.iloc[0]
    cheapest = cheapest_combination(
        read_table(snakemake.input.combinations, "combinations"), goal
    )
    spread = read_table(snakemake.input.spread, "spread")
    words = {
        "provenance": origin_of(snakemake),
        "dataset_titles": snakemake.params.dataset_titles,
    }
    limits = read_table(snakemake.input.limits, "limits")
    limits = select_scenario(limits, snakemake.params.scenario)
    advice = advice_on(limits, words["provenance"].phase)
    if not advice.is_given:
        figure = no_improvement(limits, spread, **words)
    elif is_utilisation(goal):
        estimates = read_table(snakemake.input.estimates, "estimates")
        figure = plot_cheapest_utilisation(
            estimates, goal, cheapest, spread, model=snakemake.params.model, **words
        )
    else:
        improvements = shown_improvements(
            cheapest, snakemake.params.max_improvement_percent
        )
        figure = plot_cheapest_combination(
            break_down_improved(io_time, improvements), goal, cheapest, spread, **words
        )
    if advice.is_given:
        write_first(figure, advice.words)
    save_figure(figure, snakemake.output)
    print(goal.to_string())
    print("no combination meets the goal" if cheapest is None else cheapest.to_string())
