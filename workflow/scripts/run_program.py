"""Run points of a scenario whose samples a program of the user reads.

    python run_program.py SCENARIO_JSON --manifest FILE --staging DIR --runs DIR
        --native DIR --launch NAME --mpi LAUNCHER --tasks N --minutes N POINT ...

starts the ranks of each point by the launcher. These are the same script with
``--shared``.
"""

import argparse
from pathlib import Path

from run_benchmark import parse_point
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.launch import ProgramLaunch
from tierscope.benchmark.rank import Terminated, terminate_by_exception
from tierscope.core.machine import TierError
from tierscope.core.output.streams import end, run_and_exit
from tierscope.core.processes.calls import watch_calls
from tierscope.core.validation import ConfigError
from tierscope.core.words import error_words


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description="Run points with a user's program.")
    parser.add_argument("scenario", type=Path, help="scenario description, JSON")
    parser.add_argument("--manifest", type=Path, required=True, help="its files")
    parser.add_argument("--staging", type=Path, required=True, help="for new runs")
    parser.add_argument("--runs", type=Path, required=True, help="finished runs")
    parser.add_argument("--native", type=Path, required=True, help="compiled libraries")
    parser.add_argument("--launch", required=True, help="name of this launch")
    parser.add_argument("--mpi", help="launcher, shell text")
    parser.add_argument("--tasks", type=int, required=True, help="number of ranks")
    parser.add_argument("--minutes", type=int, default=60, help="most time of a run")
    parser.add_argument("--shared", type=Path, help="of a rank: folder of all nodes")
    parser.add_argument("--last", action="store_true", help="of a rank: last point")
    parser.add_argument("points", type=parse_point, nargs="+", metavar="POINT")
    return parser.parse_args()


def main() -> None:
    """Run the points as the job, or a point as one of its ranks."""
    arguments = parse_arguments()
    watch = watch_calls()
    terminate_by_exception()
    try:
        launch = ProgramLaunch(arguments)
        if arguments.shared is None:
            launch.run()
        else:
            launch.run_rank(watch)
    except (BenchmarkError, ConfigError, TierError, OSError) as error:
        end(f"tierscope: {error_words(error)}")
    except Terminated as error:
        end(f"tierscope: {error} ended the launch.")


if __name__ == "__main__":
    run_and_exit(main)
