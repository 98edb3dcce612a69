"""Run points of a scenario under MPI.

    command=(python run_benchmark.py SCENARIO_JSON --staging DIR --runs DIR
        --native DIR --launch NAME cache-000/rep-0 cache-005/rep-0)
    start=$("${command[@]}" --prepare) &&
        mpiexec -n N /bin/sh -c "$start" tierscope "${command[@]}"

A point is given as the folder of its run. Points with a complete run, in the staging
folder or among the runs, are skipped. NAME is unique to this launch. The start preloads
the tracer and the emulated devices.
"""

import argparse
from pathlib import Path

from tierscope.benchmark.launch import BenchmarkLaunch
from tierscope.benchmark.preparation import refuse_unless_started
from tierscope.benchmark.rank import ending_launch
from tierscope.core.scenario import Point


def parse_point(text: str) -> Point:
    """Return the point of this text; argparse prints the reason of a refusal."""
    try:
        return Point.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description="Run points of a scenario under MPI.")
    parser.add_argument("scenario", type=Path, help="scenario description, JSON")
    parser.add_argument("--staging", type=Path, required=True, help="for new runs")
    parser.add_argument("--runs", type=Path, required=True, help="finished runs")
    parser.add_argument("--native", type=Path, required=True, help="compiled libraries")
    parser.add_argument("--launch", required=True, help="name of this launch")
    parser.add_argument("--prepare", action="store_true", help="only print the start")
    parser.add_argument("points", type=parse_point, nargs="+", metavar="POINT")
    return parser.parse_args()


def main() -> None:
    """Prepare the launch, or run the points named on the command line."""
    arguments = parse_arguments()
    if arguments.prepare:
        BenchmarkLaunch(arguments).prepare()
        return
    refuse_unless_started()
    with ending_launch():
        BenchmarkLaunch(arguments).run()


if __name__ == "__main__":
    main()
