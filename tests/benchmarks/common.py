"""What the benchmarks share: paths, child processes, results and their table."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
OUTPUT = ROOT / "results" / "bench"
NATIVE = ROOT / "results" / "native"
BIN = Path(sys.executable).parent
N_RANKS = 2
sys.path.insert(0, str(SCRIPTS))

_PACKAGES = ["numpy", "pandas", "pyarrow", "tensorflow-cpu", "mpi4py", "mpich"]
_PACKAGES += ["darshan", "google-crc32c", "numba", "simpy"]
_TIMEOUT_S = 900
MISSED, NOT_MEASURED = "MISSED", "not measured"
_KIB, _MIB = 1 << 10, 1 << 20


class CannotMeasure(RuntimeError):
    """A peer or a tool is missing or fails; the message says which and why."""


class WrongWork(RuntimeError):
    """What is measured, or a check of it, did other work than it stands for."""


@dataclass(frozen=True)
class Files:
    """A dataset: many files of one size."""

    name: str
    n_files: int
    file_size_bytes: int
    batch_size: int

    @property
    def title(self) -> str:
        """Return how the table calls it, such as ``4096 x 128 KiB``."""
        size, unit = self.file_size_bytes / _KIB, "KiB"
        if self.file_size_bytes >= _MIB:
            size, unit = self.file_size_bytes / _MIB, "MiB"
        return f"{self.n_files} x {size:g} {unit}"


# Batches divide both ranks' shares: DLIO would drop the rest, we do not.
SMALL_FILES = Files("small", 4096, 128 * _KIB, batch_size=16)
LARGE_FILES = Files("large", 128, 12 * _MIB, batch_size=2)
TRIAL_FILES = [Files("small", 256, 128 * _KIB, batch_size=16)]


@dataclass
class Measurement:
    """All samples of one thing measured."""

    case: str
    what: str
    unit: str
    samples: list[float]

    @property
    def median(self) -> float:
        """Return the middle sample."""
        return statistics.median(self.samples)

    @property
    def minimum(self) -> float:
        """Return the least sample: the one that noise disturbed least."""
        return min(self.samples)


@dataclass
class Count:
    """What something measured did, counted: files, bytes, waits, records, events."""

    case: str
    what: str
    unit: str
    found: int
    n_times: int = 1


@dataclass
class Comparison:
    """A ratio or a value beside its goal; `met` is None where none is judged.

    Both values are None if a side is missing. `start` is what was measured on
    2026-11-22, before the goal was set.
    """

    case: str
    what: str
    by_median: float | None
    by_minimum: float | None
    goal: str = ""
    start: str = ""
    met_by_median: bool | None = None
    met_by_minimum: bool | None = None

    @property
    def values(self) -> str:
        """Return both values for the table."""
        if self.by_median is None:
            return f"{'-':>10}{'-':>10}"
        return f"{self.by_median:>10.3f}{self.by_minimum:>10.3f}"

    @property
    def verdict(self) -> str:
        """Return whether the goal was met, in words."""
        if self.by_median is None:
            return NOT_MEASURED
        if self.met_by_median is None:
            return ""
        return {
            (True, True): "met",
            (False, True): "met by minimum only",
            (True, False): "met by median only",
            (False, False): MISSED,
        }[self.met_by_median, self.met_by_minimum]


@dataclass
class Results:
    """What a benchmark measured, for the screen and for `results/bench/<name>.json`."""

    name: str
    title: str
    small: bool
    measurements: list[Measurement] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load_before: tuple[float, ...] = field(default_factory=os.getloadavg)
    _missing: set[str] = field(default_factory=set)

    def add(self, case: str, what: str, samples: list[float], unit: str = "s") -> None:
        """Add samples of something, which may have some already."""
        if not samples:
            raise WrongWork(f"{case}, {what}: got no samples, expected some.")
        if not (found := self.find(case, what)):
            found = Measurement(case, what, unit, [])
            self.measurements.append(found)
        found.samples += samples

    def find(self, case: str, what: str) -> Measurement | None:
        """Return the measurement of something, None if it was not measured."""
        for measurement in self.measurements:
            if (measurement.case, measurement.what) == (case, what):
                return measurement
        return None

    def count(self, case: str, what: str, unit: str, found: int, expected: int) -> None:
        """Record how much work something did.

        Raises
        ------
        WrongWork
            If it is not as much as expected, or if nothing is expected.
        """
        if found != expected or not expected:
            amount = f"{expected:,}" if expected else "some"
            raise WrongWork(f"{case}, {what}: got {found:,} {unit}, expected {amount}.")
        for count in self.counts:
            if (count.case, count.what, count.unit) == (case, what, unit):
                count.n_times += 1
                return
        self.counts.append(Count(case, what, unit, found))

    def skip(self, what: str, reason: object) -> None:
        """Record that something is left out; its comparisons are not measured."""
        self._missing.add(what)
        self.skipped.append(f"{what}: {reason}")
        progress(self.name, f"SKIPPED {what}: {reason}")

    def has_peer(self, package: str, what: str) -> bool:
        """Return whether the package of a peer is installed; if not, leave it out."""
        try:
            return bool(version(package))
        except PackageNotFoundError:
            self.skip(what, f"{package} is not installed")
            return False

    def fail(self, case: str, what: str, error: object) -> None:
        """Record that something failed; the rest is measured all the same."""
        self._missing.add(what)
        self.failures.append(f"{case}, {what}: {error}")
        progress(self.name, f"FAILED {case}, {what}: {error}")

    def interleave(
        self,
        case: str,
        n_rounds: int,
        runs: Mapping[str, Callable[[], list[float]]],
        peers: Sequence[str],
        unit: str = "s",
    ) -> None:
        """Run everything once a round, every second round in reverse order.

        A peer that fails is left out from then on, and the benchmark fails at its end.
        """
        left = dict(runs)
        for number in range(n_rounds):
            for what in list(left)[:: 1 if number % 2 == 0 else -1]:
                progress(self.name, f"{case}, round {number + 1} of {n_rounds}, {what}")
                try:
                    self.add(case, what, left[what](), unit)
                except (CannotMeasure, WrongWork) as error:
                    if what not in peers:
                        raise
                    self.fail(case, what, error)
                    del left[what]

    def compare(
        self,
        case: str,
        over: str,
        under: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        start: str = "",
    ) -> None:
        """Add the ratio of two measurements."""
        if over == under:
            raise WrongWork(f"{case}: compares {over} with itself.")
        a, b = self._measured(case, over), self._measured(case, under)
        ratios = None
        if a and b:
            ratios = a.median / b.median, a.minimum / b.minimum
        self._judge(case, f"{over} / {under}", ratios, at_most, at_least, start)

    def agree(self, case: str, one: str, other: str, within_percent: float) -> None:
        """Add how far two measurements differ; too far is an error but in trials."""
        a, b = self._measured(case, one), self._measured(case, other)
        if not (a and b):
            raise WrongWork(f"{case}: got no {one} and {other} that could agree.")
        values = tuple(
            100 * abs(x / y - 1)
            for x, y in ((a.median, b.median), (a.minimum, b.minimum))
        )
        what = f"{one} against {other}, %"
        self._judge(case, what, values, within_percent)
        if self.comparisons[-1].verdict == MISSED:
            self.failures.append(
                f"{case}: {one} is {a.median:.4g} {a.unit}, {other} {b.median:.4g}, "
                f"expected within {within_percent:g} %"
            )

    def limit(self, case: str, what: str, at_most: float) -> None:
        """Compare the largest sample of something with an absolute limit."""
        a = self._measured(case, what)
        values = (max(a.samples),) * 2 if a else None
        self._judge(case, f"{what}, largest", values, at_most)

    def limit_median(self, case: str, what: str, at_most: float) -> None:
        """Compare the median and the least sample of something with a limit."""
        a = self._measured(case, what)
        self._judge(case, what, (a.median, a.minimum) if a else None, at_most)

    def _measured(self, case: str, what: str) -> Measurement | None:
        """Return what is to be judged, None if it was left out.

        Raises
        ------
        WrongWork
            If it was not measured, or if nothing counts what it did.
        """
        parts = {what, *what.split(", ")}
        if not (found := self.find(case, what)):
            if parts & self._missing:
                return None
            raise WrongWork(f"{case}, {what}: got no measurement, expected one.")
        if not any(c.case == case and c.what in parts for c in self.counts):
            raise WrongWork(f"{case}, {what}: got no count of its work, expected one.")
        return found

    def _judge(
        self,
        case: str,
        what: str,
        values: tuple[float, float] | None,
        at_most: float | None,
        at_least: float | None = None,
        start: str = "",
    ) -> None:
        """Add two values and, except in a trial, whether they meet a goal."""
        comparison = Comparison(case, what, *(values or (None, None)), start=start)
        met = None
        if at_most is not None:
            comparison.goal = f"<= {at_most:g}"
            met = [value <= at_most for value in values or ()]
        elif at_least is not None:
            comparison.goal = f">= {at_least:g}"
            met = [value >= at_least for value in values or ()]
        if met and not self.small:
            comparison.met_by_median, comparison.met_by_minimum = met
        self.comparisons.append(comparison)

    def finish(self) -> None:
        """Print the table and write the JSON file.

        Raises
        ------
        WrongWork
            If nothing counts what was done.
        """
        if not self.counts:
            raise WrongWork("got no count of any work, expected some.")
        print(self.table(), flush=True)
        OUTPUT.mkdir(parents=True, exist_ok=True)
        suffix = "-small" if self.small else ""
        path = OUTPUT / f"{self.name}{suffix}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.as_json(), indent=1) + "\n")
        temporary.replace(path)

    def as_json(self) -> dict[str, Any]:
        """Return everything, with the machine and the versions."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "small": self.small,
            "machine": machine() | {"load_before": self.load_before},
            "versions": software_versions(),
            "measurements": [
                asdict(m) | {"median": m.median, "minimum": m.minimum}
                for m in self.measurements
            ],
            "counts": [asdict(c) for c in self.counts],
            "comparisons": [
                asdict(c) | {"verdict": c.verdict} for c in self.comparisons
            ],
            "skipped": self.skipped,
            "failures": self.failures,
            "notes": self.notes,
        }

    def table(self) -> str:
        """Return the measurements, the comparisons and the verdicts as text."""
        trial = " (SMALL TRIAL, numbers mean nothing)" if self.small else ""
        lines = ["", f"{self.name}: {self.title}{trial}"]
        for case in dict.fromkeys(m.case for m in self.measurements):
            lines += ["", f"  {case:48}{'median':>10}{'minimum':>10}  samples"]
            for m in (m for m in self.measurements if m.case == case):
                lines.append(
                    f"    {m.what:46}{m.median:>10.4g}{m.minimum:>10.4g}  "
                    f"{len(m.samples)} ({m.unit})"
                )
            for c in (c for c in self.comparisons if c.case == case):
                line = f"    {c.what:46}{c.values}  {c.goal:8} {c.verdict}"
                lines.append(f"{line} (start {c.start})" if c.start else line.rstrip())
        lines += [f"  SKIPPED {text}" for text in self.skipped]
        lines += [f"  FAILED {text}" for text in self.failures]
        lines += [f"  note: {text}" for text in self.notes]
        return "\n".join(lines)


def summary(measured: Sequence[Results], failures: Sequence[str]) -> list[str]:
    """Return all goals with their verdicts, and what failed; the last line counts."""
    lines, verdicts = [], Counter()
    for results in measured:
        for c in results.comparisons:
            if c.goal:
                verdicts[c.verdict] += 1
                line = (
                    f"  {results.name:11}{c.case:30} {c.what:46}{c.values} {c.goal:8}"
                )
                lines.append(f"{line} {c.verdict}".rstrip())
        lines += [f"  {results.name:11}SKIPPED {text}" for text in results.skipped]
    lines += [f"FAILED {text}" for text in failures]
    n_met, n_missed = verdicts["met"], verdicts[MISSED]
    n_open, n_unjudged = verdicts[NOT_MEASURED], verdicts[""]
    n_partly = verdicts.total() - n_met - n_missed - n_open - n_unjudged
    judged = f"{n_met} met, {n_partly} by one measure only, {n_missed} MISSED"
    judged += f", {n_open} not measured"
    if n_unjudged:
        judged = f"{n_unjudged + n_open} not judged in a trial"
    n_counts = sum(len(results.counts) for results in measured)
    return [
        *lines,
        f"Goals: {judged}. Counts of work: {n_counts} as expected. "
        f"Failures: {len(failures)}.",
    ]


def machine() -> dict[str, Any]:
    """Return what the numbers depend on and no version says."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory_kib = Path("/proc/meminfo").read_text().split()[1]
    return {
        "host": platform.node(),
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory_kib) // 1024,
        "kernel": platform.release(),
        "load_after": os.getloadavg(),
    }


def software_versions() -> dict[str, str]:
    """Return the versions of the code measured and of what it stands on."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if commit.returncode == 0:
        versions["tierscope"] = commit.stdout.strip()
    return versions


def progress(name: str, text: str) -> None:
    """Print what is being done."""
    print(f"{name}: {text}", file=sys.stderr, flush=True)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder beside the results, removed at the end."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUTPUT, prefix="tmp-") as folder:
        yield Path(folder)


def run(
    command: list[object],
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Run a command and return what it printed; a failure is a CannotMeasure."""
    words = [str(word) for word in command]
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    settings = {
        "PATH": path,
        "PYTHONPATH": str(SCRIPTS),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    if sys.dont_write_bytecode:  # or every process compiles TensorFlow's Python
        settings["PYTHONDONTWRITEBYTECODE"] = ""
        settings["PYTHONPYCACHEPREFIX"] = str(OUTPUT / "pycache")
    try:
        done = subprocess.run(
            words,
            env=os.environ | settings | (environment or {}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(str(error)) from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise CannotMeasure(
            f"{' '.join(words[:4])} ... ended with {done.returncode}: "
            + " | ".join(reason)
        )
    return done.stdout


def run_python(script: str, *arguments: object, **options: Any) -> Any:
    """Run a script of this folder in a fresh process and return its JSON."""
    path = Path(__file__).with_name(script)
    return _last_line(run([sys.executable, path, *arguments], **options))


def run_ranks(
    script: Path | str, *arguments: object, start: str = 'exec "$@"', **options: Any
) -> str:
    """Run a script on all ranks, started by a shell line; return what they printed."""
    ranks = ["/bin/sh", "-c", start, "rank", sys.executable, script, *arguments]
    return run([BIN / "mpiexec", "-n", N_RANKS, *ranks], **options)


def run_python_ranks(script: str, *arguments: object, **options: Any) -> Any:
    """Run a script of this folder on all MPI ranks and return its JSON."""
    path = Path(__file__).with_name(script)
    return _last_line(run_ranks(path, *arguments, **options))


def _last_line(output: str) -> Any:
    """Return the JSON value on the last line."""
    return json.loads(output.splitlines()[-1])


def build_native() -> None:
    """Compile the preload libraries as the workflow does."""
    run(["make", "--silent", "-C", ROOT / "workflow" / "native"])


def run_benchmarks(
    benchmarks: Mapping[str, Callable[[bool], Results]], small: bool
) -> int:
    """Run benchmarks, print all goals and failures last, and return the exit status."""
    started = time.monotonic()
    measured, failures = [], []
    for name, measure in benchmarks.items():
        try:
            results = measure(small)
            results.finish()
        except (CannotMeasure, WrongWork) as error:
            failures.append(f"{name}: {error}")
        except Exception as error:  # the others run all the same
            traceback.print_exc()
            failures.append(f"{name}: does not run: {error!r}")
        else:
            measured.append(results)
            failures += [f"{name}: {text}" for text in results.failures]
    print(f"\nGoals ({time.monotonic() - started:.0f} s in all)")
    print("\n".join(summary(measured, failures)), flush=True)
    return 1 if failures else 0


def run_as_script(measure: Callable[[bool], Results]) -> None:
    """Measure as the command line says: ``--small`` tries a script in seconds."""
    name = Path(sys.argv[0]).stem
    sys.exit(run_benchmarks({name: measure}, small=sys.argv[1:] == ["--small"]))
