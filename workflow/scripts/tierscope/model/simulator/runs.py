"""Simulate a run of any kind."""

from collections.abc import Callable, Mapping

import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.description import RunDescription, run_keys
from tierscope.core.scenario import Point
from tierscope.model.simulator.database_run import simulate_database
from tierscope.model.simulator.placed_run import AdHocRun, DynamicRun
from tierscope.model.simulator.run import simulate_reads, tables_of
from tierscope.policies import DATABASE, FILES, PEERS, PLACED, kind_of

Tables = dict[str, pd.DataFrame]


def simulate_run(description: RunDescription, point: Point) -> Tables:
    """Simulate a run.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario.
    point : Point
        Cache rate and repetition.

    Returns
    -------
    mapping of str to DataFrame
        Tables ``io_time`` and ``epochs``, and the sums of this kind of run
        (`tierscope.policies.kinds.RunKind.sums`). The LFS is not filled, so
        `lfs_fill_time_s` is 0.

    Raises
    ------
    ModelError
        If the system's network is needed but not described. In runs of up to 100,000
        reads also if a new instance of the policy would decide otherwise, or the
        contents of an LFS forbid a decision.
    """
    return SIMULATIONS[kind_of(description.scenario)](description, point)


def _simulate_files(description: RunDescription, point: Point) -> Tables:
    """Simulate a run whose files are on their tiers before the first epoch."""
    reads = simulate_reads(description, point)
    io_time, epochs = tables_of(description, point, reads)
    return {"io_time": io_time, "epochs": epochs}


def _simulate_placed(description: RunDescription, point: Point) -> Tables:
    """Simulate a run whose policy decides while files are read."""
    return _with_sums(DynamicRun(description, point))


def _simulate_peers(description: RunDescription, point: Point) -> Tables:
    """Simulate a run that reads from other nodes."""
    return _with_sums(AdHocRun(description, point))


def _with_sums(run: DynamicRun | AdHocRun) -> Tables:
    """Return the tables of a run, with those that the run sums up itself."""
    io_time, epochs = tables_of(run.description, run.point, run.epochs())
    keys = run_keys(run.description, run.point)
    sums = {
        name: table.assign(**keys)[list(TABLES[name])]
        for name, table in run.tables().items()
    }
    return {"io_time": io_time, "epochs": epochs, **sums}


SIMULATIONS: Mapping[object, Callable[[RunDescription, Point], Tables]] = {
    FILES: _simulate_files,
    PLACED: _simulate_placed,
    PEERS: _simulate_peers,
    DATABASE: simulate_database,
}
