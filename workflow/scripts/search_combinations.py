"""Search the improvements that meet the goal of each scenario and epoch."""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd
from tierscope.analysis.breakdown import without_peers
from tierscope.analysis.search import Search, search_combinations
from tierscope.analysis.whatif import make_goal
from tierscope.core.columns import SCENARIO
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table


def search_all(
    io_time: pd.DataFrame,
    epochs: pd.DataFrame,
    goal: Mapping,
    search: Mapping,
    dataset_bytes: Mapping[str, int],
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield tables `goals` and `combinations` of each scenario and epoch.

    Scenarios that read from other nodes are omitted: no goal is set for a network.

    `goal` and `search` are those of the configuration, section `whatif`.
    """
    io_time = without_peers(io_time)
    # Row numbers of each group: iterating over groups would copy the whole table.
    groups = io_time.groupby([*SCENARIO, "epoch"]).indices
    for keys in sorted(groups):
        part = io_time.iloc[groups[keys]]
        dataset = dict(zip(SCENARIO, keys, strict=False))["dataset"]
        yield search_combinations(
            part,
            make_goal(part, epochs, **goal),
            Search(**search, dataset_bytes=dataset_bytes[dataset]),
        )


def bytes_of_listed(
    datasets: Iterable[str], manifests: Iterable[str]
) -> dict[str, int]:
    """Return the bytes of datasets whose files were listed, by name."""
    tables = (read_table(path, "user_manifest") for path in manifests)
    return {
        name: int(table["size_bytes"].sum())
        for name, table in zip(datasets, tables, strict=True)
    }


if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    dataset_bytes = params.dataset_bytes | bytes_of_listed(
        params.listed, snakemake.input.manifests
    )
    goals, combinations = [], []
    for goal, found in search_all(
        read_table(snakemake.input.io_time, "io_time"),
        read_table(snakemake.input.epochs, "epochs"),
        params.goal,
        params.search,
        dataset_bytes,
    ):
        print(goal.to_string(index=False, header=not goals))
        goals.append(goal)
        combinations.append(found)
    write_table(pd.concat(goals), snakemake.output.goals, "goals")
    # Empty parts have no common column types.
    combinations = [part for part in combinations if len(part)] or combinations[:1]
    write_table(pd.concat(combinations), snakemake.output.combinations, "combinations")
