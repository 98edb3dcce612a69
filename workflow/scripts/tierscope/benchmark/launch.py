"""One launch of the benchmark: the job prepares it, then each rank runs it."""

import argparse
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from tierscope.benchmark.devices import devices_of
from tierscope.benchmark.preparation import TENSORFLOW_ENVIRONMENT, announce
from tierscope.benchmark.rank import (
    join_launch,
    leave_launch,
    run_or_fail,
    say_once,
)
from tierscope.benchmark.run_folder import are_missing
from tierscope.core.description import RunDescription
from tierscope.core.machine import TierError
from tierscope.core.output.streams import ending_on
from tierscope.core.validation import ConfigError
from tierscope.trace.runtime import BUILTIN, OVERRIDES, find_darshan_runtime
from tierscope.trace.tracer import make_tracer

# The Darshan that traces, or `builtin`: the job chooses, so that no rank does.
TRACER_VARIABLE = "TIERSCOPE_TRACER"


@dataclass
class BenchmarkLaunch:
    """A launch that runs the missing points.

    Parameters
    ----------
    arguments : argparse.Namespace
        Arguments of `run_benchmark.py`.
    """

    arguments: argparse.Namespace

    def __post_init__(self):
        arguments = self.arguments
        with ending_on(ConfigError, OSError):
            self.description = RunDescription.read(arguments.scenario)
        folders = arguments.staging, arguments.runs
        self.points = are_missing(arguments.points, folders, self.description)
        native = arguments.native / platform.machine()
        self.tracer, self.devices = None, None
        if not self.points:
            return
        with ending_on(ConfigError, TierError, OSError, ValueError):
            self._runtime = self._choose_runtime()
            self.tracer = make_tracer(
                self.description,
                self._runtime,
                native,
                arguments.staging,
                self.points,
            )
            n_osts = self.description.scenario.n_osts
            where = native, arguments.staging, arguments.launch
            self.devices = devices_of(self.description.system, n_osts, *where)

    def _choose_runtime(self) -> Path | None:
        """Return the site's Darshan if it traces; ranks take what the job chose."""
        if self.arguments.prepare:
            return find_darshan_runtime(self.description.runtime)
        chosen = os.environ[TRACER_VARIABLE]
        return None if chosen == BUILTIN else Path(chosen)

    def prepare(self) -> None:
        """Make the devices' files and print the start of the ranks."""
        if not self.points:
            announce([], {}, [])
            return
        with ending_on(ConfigError, TierError, ImportError, OSError):
            self.devices.check_loader(self.description.scenario.loader)
            preload = [*self.tracer.preload(), *self.devices.preload()]
            environment = TENSORFLOW_ENVIRONMENT | self.tracer.environment()
            environment[TRACER_VARIABLE] = str(self._runtime or BUILTIN)
            environment |= self.devices.environment()
        announce(preload, environment, OVERRIDES)

    def run(self) -> None:
        """Run the points, as one of the ranks."""
        if not self.points:
            return
        from tierscope.benchmark.driver import Benchmark  # large, only ranks need it

        processes = join_launch(self.description.system, self.arguments.launch)
        benchmark = Benchmark(
            self.description,
            processes,
            tracer=self.tracer,
            devices=self.devices,
            say=lambda line: say_once(processes, line),
        )
        processes.keep(benchmark.storage)

        def run() -> None:
            benchmark.gather_facts()
            self.tracer.join(processes)
            self.devices.join(processes)
            benchmark.run(self.points, self.arguments.staging)

        run_or_fail(processes, run, benchmark.stop, benchmark.release)
        leave_launch(processes)
        if processes.rank == 0:
            with ending_on(ValueError, OSError):  # LogError, large to import before
                benchmark.finish()
