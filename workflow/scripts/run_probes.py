"""Run the micro-probes of a machine's storage under MPI.

    command=(python run_probes.py DESCRIPTION_JSON --manifest FILE --output DIR
        --native DIR --launch NAME)
    start=$("${command[@]}" --prepare) &&
        mpiexec -n N /bin/sh -c "$start" tierscope "${command[@]}"

NAME is unique to this launch. If tiers are emulated, the start preloads the devices. No
tracer is involved: the probes time their own calls.
"""

import argparse
from pathlib import Path

from tierscope.benchmark.preparation import refuse_unless_started
from tierscope.benchmark.probe_launch import prepare_probes, run_probes
from tierscope.benchmark.rank import ending_launch


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description="Run the micro-probes of a machine's storage under MPI."
    )
    parser.add_argument("description", type=Path, help="what to probe, JSON")
    parser.add_argument("--manifest", type=Path, required=True, help="of the dataset")
    parser.add_argument("--output", type=Path, required=True, help="folder of results")
    parser.add_argument("--native", type=Path, required=True, help="compiled libraries")
    parser.add_argument("--launch", required=True, help="name of this launch")
    parser.add_argument("--prepare", action="store_true", help="only print the start")
    return parser.parse_args()


def main() -> None:
    """Prepare the launch, or run the probes."""
    arguments = parse_arguments()
    if arguments.prepare:
        prepare_probes(arguments)
    else:
        refuse_unless_started()
        with ending_launch():
            run_probes(arguments)


if __name__ == "__main__":
    main()
