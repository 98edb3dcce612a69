"""How the LFS of runs is filled before the first epoch, and what that takes."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from tierscope.analysis.comparing.savings import RUN
from tierscope.core.columns import SCENARIO
from tierscope.core.description import Run, run_keys
from tierscope.core.scenario import PROGRAM_LOADER
from tierscope.policies import PLACED, of_kind
from tierscope.policies.copy_limits import READ_BYTES

NO_STAGING, IN_TRAINING = "none", "while training"
# Staging of a fixed part: estimated as if each node had read it; by the rate of the
# copies that were made; or made by the runs.
ESTIMATED, BY_COPIES, AS_RUN = "estimated", "copies", "run"


def staging_kinds(table: pd.DataFrame) -> np.ndarray:
    """Return how the LFS of each row is filled, by its policy and cache rate."""
    return np.select(
        [table["cache_rate_percent"] == 0, table["policy"].isin(of_kind(PLACED))],
        [NO_STAGING, IN_TRAINING],
        ESTIMATED,
    )


def fills_of(runs: Iterable[Run]) -> pd.DataFrame:
    """Return what each node of some runs of a program copied before the program.

    Returns
    -------
    DataFrame, shape (n_nodes_of_all_runs, 13)
        The keys of a run; ``held_files`` and ``held_bytes`` on the LFS; of these, what
        this fill has copied, ``copied_bytes``, and its time, ``time_s``; both 0 if the
        run does not tell.
    """
    rows = []
    for run in runs:
        seen, keys = run.observed, run_keys(run, run.point)
        held = list(zip(seen["lfs_files"], seen["lfs_bytes"], strict=True))
        untold = [{"copied_bytes": 0, "time_s": 0.0}] * len(held)
        for node, filled in zip(held, seen.get("filled", untold), strict=True):
            made = filled["copied_bytes"], filled["time_s"]
            rows.append([*(keys[key] for key in RUN), *node, *made])
    names = ["held_files", "held_bytes", "copied_bytes", "time_s"]
    return pd.DataFrame(rows, columns=[*RUN, *names])


def staging_of_copies(fills: pd.DataFrame) -> pd.DataFrame:
    """Return the staging of runs by the rate of the copies of their scenario.

    A launch copies for a later point only what that one adds. So the time of a run is
    the bytes that its LFS holds times the seconds a byte of all fills of the scenario.

    Parameters
    ----------
    fills : DataFrame
        What `fills_of` returns.

    Returns
    -------
    DataFrame, shape (n_runs, 3); index: keys of a run
        ``staging``; ``staging_time_s`` of the node that holds most; and the opens and
        reads of all nodes, ``staging_gfs_operations``: for each file an open, a read of
        its end, and one of its bytes, or one a MiB if these are more. Without cache
        rate 0, and without scenarios that have copied nothing.
    """
    made = fills[fills["copied_bytes"] > 0].groupby(SCENARIO)
    rate = made["time_s"].sum() / made["copied_bytes"].sum()
    fills = fills[staging_kinds(fills) == ESTIMATED].join(
        rate.rename("seconds_a_byte"), on=SCENARIO
    )
    fills = fills[fills["seconds_a_byte"].notna()]
    n_reads = np.maximum(fills["held_files"], -(-fills["held_bytes"] // READ_BYTES))
    operations = 2 * fills["held_files"] + n_reads
    fills = fills.assign(
        staging_time_s=fills["held_bytes"] * fills["seconds_a_byte"],
        staging_gfs_operations=operations,
    )
    nodes = fills.groupby(RUN)
    return pd.DataFrame(
        {
            "staging": BY_COPIES,
            "staging_time_s": nodes["staging_time_s"].max(),
            "staging_gfs_operations": nodes["staging_gfs_operations"].sum(),
        }
    )


def staging_as_run(stage_in: pd.DataFrame) -> pd.DataFrame:
    """Return the staging that runs made, from table ``stage_in``: see above."""
    nodes = stage_in.groupby(RUN)
    return pd.DataFrame(
        {
            "staging": AS_RUN,
            "staging_time_s": nodes["stage_in_time_s"].max(),
            "staging_gfs_operations": nodes[["gfs_opens", "gfs_reads"]]
            .sum()
            .sum(axis=1),
        }
    )


def with_staging(table: pd.DataFrame, staging: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose runs have this staging in place of another one."""
    table = table.set_index(RUN)
    table.update(staging)
    return table.reset_index().astype({"staging_gfs_operations": "int64"})


def estimated_seconds(table: pd.DataFrame) -> pd.Series:
    """Return how long a node takes to read the dataset, estimated for each row.

    That is an epoch of the reference. Programs compute in it, so of theirs it is the
    I/O time only.
    """
    is_program = table["loader"] == PROGRAM_LOADER
    return table["reference_epoch_s"].where(~is_program, table["reference_epoch_io_s"])
