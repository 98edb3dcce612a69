"""Run benchmarks: ``python tests/benchmarks [--small] [NAME ...]``; all by default.

Each prints a table and writes ``results/bench/<name>.json``. A missed goal is said and
is no error: speed on a busy machine is not what code can be failed for. Code of ours
that does not run is one.
"""

import argparse
import sys
import time
import traceback

import emulation
import events
import generation
import logs
import parsing
import planning
import reading
import simulator
import tracing
import whatif
from common import CannotMeasure

BENCHMARKS = {
    "generation": generation.measure,  # first: it suffers from what others delete
    "tracing": tracing.measure,
    "parsing": parsing.measure,
    "logs": logs.measure,
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
    finished, failed, started = [], [], time.monotonic()
    for name in arguments.names or BENCHMARKS:
        try:
            results = BENCHMARKS[name](arguments.small)
            results.finish()
        except Exception as error:  # the others run all the same
            if not isinstance(error, CannotMeasure):
                traceback.print_exc()
            failed.append(f"benchmark {name} does not run: {error!r}")
            continue
        finished.append(results)
    print(f"\nGoals ({time.monotonic() - started:.0f} s in all)")
    for results in finished:
        for c in results.comparisons:
            if c.goal:
                now = f"{c.by_median:9.3f} {c.goal:8}"
                print(f"  {results.name:11}{c.case:30} {c.what:46}{now}{c.verdict}")
        for text in results.skipped:
            print(f"  {results.name:11}SKIPPED {text}")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
