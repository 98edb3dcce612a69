"""Run points of a scenario under MPI.

    mpiexec -n N python run_benchmark.py SCENARIO_JSON --staging DIR --runs DIR
        --native DIR --launch NAME 0/0 5/0

A point is written CACHE_RATE/REPETITION. Points whose run is already complete, in the
staging folder or among the runs, are left out. NAME tells this launch from all others.
The process starts itself again with the tracer and the emulated devices preloaded, so
only the ranks' interpreter carries them.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

from tierscope.database import Database
from tierscope.driver import Benchmark
from tierscope.environment import TENSORFLOW_ENVIRONMENT
from tierscope.keeper import Keeper
from tierscope.launch import (
    is_started_again,
    run_or_fail,
    say,
    start_again,
)
from tierscope.loaders import Loader, make_loader
from tierscope.processes import BenchmarkError, Processes
from tierscope.run_folder import is_complete
from tierscope.scenario import Point
from tierscope.tiers import TierError
from tierscope.tiers.clock import Clock
from tierscope.tiers.emulated import Emulation
from tierscope.trace.tracer import choose_tracer
from tierscope.validation import ConfigError


def parse_point(text: str) -> Point:
    """Return the point written as ``CACHE_RATE/REPETITION``."""
    cache_rate, _, repetition = text.partition("/")
    return Point(int(cache_rate), int(repetition))


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", type=Path, help="scenario description, JSON")
    parser.add_argument("--staging", type=Path, required=True, help="new runs go here")
    parser.add_argument("--runs", type=Path, required=True, help="finished runs")
    parser.add_argument("--native", type=Path, required=True, help="our libraries")
    parser.add_argument("--launch", required=True, help="name of this launch")
    parser.add_argument("points", type=parse_point, nargs="+", metavar="RATE/REP")
    return parser.parse_args()


def main() -> None:
    """Run the points named on the command line."""
    arguments = parse_arguments()
    description = json.loads(arguments.scenario.read_text())
    points = [
        point
        for point in arguments.points
        if not is_complete(arguments.staging / point.path, description)
        and not is_complete(arguments.runs / point.path, description)
    ]
    if not points:
        return
    native = arguments.native / platform.machine()
    try:
        tracer = choose_tracer(description, native, arguments.staging, points)
        emulation = Emulation.of(
            description, native, arguments.staging, arguments.launch
        )
    except (ConfigError, TierError, OSError, ValueError) as error:
        sys.exit(f"tierscope: {error}")
    try:
        if not is_started_again():
            preload = tracer.preload()
            environment = TENSORFLOW_ENVIRONMENT | tracer.environment()
            if emulation:
                preload = [*preload, emulation.library]
                environment |= emulation.environment()
            start_again(preload, environment)
        keeper = Keeper(arguments.launch)  # before MPI: it may not like new processes
    except (ConfigError, TierError, OSError) as error:
        sys.exit(f"tierscope: {error}")
    from mpi4py import MPI

    try:
        processes = Processes(MPI.COMM_WORLD, description["system"], keeper)
    except BenchmarkError as error:  # all ranks see the same
        sys.exit(f"tierscope: {error}" if MPI.COMM_WORLD.rank == 0 else 1)
    benchmark = Benchmark(
        description,
        processes,
        make_loader=lambda clock: make_loader_of(description, processes, clock),
        tracer=tracer,
        emulation=emulation,
        say=lambda line: say(processes, line),
    )
    processes.keep(benchmark.storage)

    def run() -> None:
        tracer.join(processes)
        if emulation:
            emulation.join(processes)
        benchmark.run(points, arguments.staging)

    run_or_fail(processes, run, benchmark.stop, benchmark.release)
    MPI.Finalize()
    processes.end()
    if processes.rank == 0:
        try:
            benchmark.finish()
        except (ValueError, OSError) as error:  # LogError, too large to import before
            sys.exit(f"tierscope: {error}")


def make_loader_of(description: dict, processes: Processes, clock: Clock) -> Loader:
    """Return the loader of a scenario."""
    if database := Database.of(description):
        return database.make_loader(processes, clock)
    return make_loader(
        description["scenario"]["loader"],
        batch_size=description["dataset"]["batch_size"],
        **description["loader"],
    )


if __name__ == "__main__":
    main()
