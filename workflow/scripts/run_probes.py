"""Run the micro-probes of a machine's storage under MPI.

    mpiexec -n N python run_probes.py DESCRIPTION_JSON --output DIR --native DIR
        --launch NAME

NAME tells this launch from all others. Where tiers are emulated, the process starts
itself again with the devices preloaded. Nothing traces the calls: they time themselves.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

from tierscope.keeper import Keeper
from tierscope.launch import (
    is_started_again,
    run_or_fail,
    say,
    start_again,
)
from tierscope.probe_launch import ProbeLaunch
from tierscope.processes import BenchmarkError, Processes
from tierscope.tiers import TierError
from tierscope.tiers.emulated import Emulation


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("description", type=Path, help="what to probe, JSON")
    parser.add_argument("--output", type=Path, required=True, help="folder of results")
    parser.add_argument("--native", type=Path, required=True, help="our libraries")
    parser.add_argument("--launch", required=True, help="name of this launch")
    return parser.parse_args()


def main() -> None:
    """Run the probes."""
    arguments = parse_arguments()
    description = json.loads(arguments.description.read_text())
    native = arguments.native / platform.machine()
    try:
        emulation = Emulation.of(
            description, native, arguments.output, arguments.launch
        )
    except (TierError, OSError, ValueError) as error:
        sys.exit(f"tierscope: {error}")
    try:
        if not is_started_again():
            preload = [emulation.library] if emulation else []
            start_again(preload, emulation.environment() if emulation else {})
        keeper = Keeper(arguments.launch)  # before MPI: it may not like new processes
    except (TierError, OSError) as error:
        sys.exit(f"tierscope: {error}")
    from mpi4py import MPI

    try:
        processes = Processes(MPI.COMM_WORLD, description["system"], keeper)
    except BenchmarkError as error:  # all ranks see the same
        sys.exit(f"tierscope: {error}" if MPI.COMM_WORLD.rank == 0 else 1)
    probes = ProbeLaunch(
        description,
        processes,
        emulation,
        say=lambda line: say(processes, line),
    )
    processes.keep(probes.storage)

    def run() -> None:
        if emulation:
            emulation.join(processes)
        probes.run(arguments.output)

    run_or_fail(processes, run, probes.stop, probes.release)
    MPI.Finalize()
    processes.end()


if __name__ == "__main__":
    main()
