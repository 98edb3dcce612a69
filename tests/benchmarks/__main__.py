"""Run benchmarks: ``python tests/benchmarks [--small] [NAME ...]``; all by default.

Each prints a table and writes ``results/bench/<name>.json``. The last lines say which
goals were met and missed. A missed goal of speed is no error: a busy machine can miss
it. Errors are: what does not run, work that is not as much as expected, and clocks that
do not agree.
"""

import argparse
import sys

import emulation
import events
import generation
import logs
import parsing
import planning
import program
import reading
import redirect
import simulator
import tracing
import whatif
import year
from common import run_benchmarks

BENCHMARKS = {
    "generation": generation.measure,  # first: it suffers from what others delete
    "tracing": tracing.measure,
    "redirect": redirect.measure,
    "program": program.measure,
    "parsing": parsing.measure,
    "logs": logs.measure,
    "year": year.measure,
    "reading": reading.measure,
    "whatif": whatif.measure,
    "simulator": simulator.measure,
    "events": events.measure,
    "emulation": emulation.measure,
    "planning": planning.measure,
}


def main() -> None:
    """Run the benchmarks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="try it in seconds")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(BENCHMARKS)):
        known = ", ".join(BENCHMARKS)
        parser.error(f"got {', '.join(unknown)}, expected some of {known}")
    names = arguments.names or BENCHMARKS
    chosen = {name: BENCHMARKS[name] for name in names}
    sys.exit(run_benchmarks(chosen, arguments.small))


if __name__ == "__main__":
    main()
