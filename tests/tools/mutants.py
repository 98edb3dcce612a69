"""Change the code in small ways, one at a time, and see whether a unit test fails.

    python tests/tools/mutants.py [--seed 14] [--sample 300] [--jobs 2] [--only N ...]

Neither mutmut nor cosmic-ray draws a seeded sample or picks tests for each module, and
both start Python anew for every mutant, which takes longer than most of these tests.
Here a process that has imported pandas forks for each mutant, and runs the tests that
ran the changed line. What survives is printed with its number; README.md explains
it.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = Path("workflow", "scripts", "tierscope")
COPIED = ("Snakefile", "workflow", "config", "resources", "tests", "pyproject.toml")
# The tests of each module, quick ones first.
TESTS = {
    "analysis/breakdown": ["analysis/breakdown"],
    "analysis/whatif": ["analysis/whatif", "analysis/search"],
    "analysis/search": ["analysis/search", "analysis/whatif"],
    "analysis/slowest/improved": ["analysis/whatif", "logs/whatif"],
    "analysis/slowest/search": ["analysis/search", "logs/whatif"],
    "analysis/slowest/times": ["analysis/slowest/times", "logs/whatif"],
    "trace/file_records": ["trace/log", "audit/run", "analysis/breakdown"],
    "audit/run": ["audit/run", "audit/decisions", "audit/peers"],
    "audit/peers": ["audit/peers"],
    "audit/decisions": ["audit/decisions", "benchmark/placement/placement"],
    "audit/database": ["benchmark/loaders/lmdb"],
    "policies/__init__": [
        "policies/policies",
        "benchmark/peers/peers",
        "audit/decisions",
        "benchmark/placement/placement",
    ],
    "policies/adhoc": ["policies/policies", "benchmark/peers/peers", "audit/peers"],
    "policies/clairvoyant": [
        "policies/policies",
        "audit/decisions",
        "model/simulator/placed_epoch",
    ],
    "policies/lru": [
        "policies/policies",
        "audit/decisions",
        "model/simulator/placed_epoch",
    ],
    "policies/monarch": [
        "policies/policies",
        "audit/decisions",
        "model/simulator/placed_epoch",
    ],
    "policies/node": [
        "policies/policies",
        "audit/decisions",
        "benchmark/placement/placement",
    ],
    "policies/pinning": ["policies/policies", "data/shuffle", "audit/run"],
    "policies/static": ["policies/policies", "data/shuffle", "audit/run"],
    "storage/clock": [
        "storage/clock",
        "storage/emulated/virtual_time",
        "storage/emulated/device",
        "benchmark/placement/placement",
    ],
}
MOST_S = 180  # of a mutant that goes on or waits for ever
UNTESTED = "not tested"
# Coverage knows tests of hypothesis by the name of a function of hypothesis only.
UNKNOWN_TESTS = {"", "test_function"}
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


class Change(NamedTuple):
    """A small change of a module's tree, applied in place."""

    line: int
    what: str
    apply: Callable[[], None]


class Mutant(NamedTuple):
    """The change of a module that a seed has drawn."""

    module: str
    index: int
    line: int
    what: str


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's nodes but annotations, texts and classes without behaviour."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.ClassDef) and "Protocol" in map(
                ast.unparse, node.bases
            ):
                continue
            yield node
            yield from nodes_that_run(node)


def changes(tree: ast.AST) -> Iterator[Change]:
    """Yield all changes of a tree, in the order of its nodes."""
    for node in nodes_that_run(tree):
        line = getattr(node, "lineno", 0)
        for what, field, value in replacements(node):
            before = ast.unparse(node).split("\n")[0]

            def apply(node=node, field=field, value=value):
                if field is None:
                    node.__class__, node.__dict__ = value.__class__, value.__dict__
                else:
                    setattr(node, field, value)

            yield Change(line, f"{what} in `{before}`", apply)


def replacements(node: ast.AST) -> Iterator[tuple[str, str | None, object]]:
    """Yield how a node may change: in words, the field (None: all), its new value."""
    match node:
        case ast.Compare(ops=[first, *others]) if type(first) in SWAPS:
            other = SWAPS[type(first)]
            yield f"{named(first)} to {named(other())}", "ops", [other(), *others]
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in SWAPS:
            other = SWAPS[type(node.op)]
            yield f"{named(node.op)} to {named(other())}", "op", other()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield f"without {named(node.op)}", None, node.operand
        case ast.Constant(value=bool() as value):
            yield f"{value} to {not value}", "value", not value
        case ast.Constant(value=int() | float() as value):
            yield f"{value} to {value + 1}", "value", value + 1
        case ast.If() | ast.While() | ast.IfExp():
            negated = ast.UnaryOp(ast.Not(), copy.copy(node.test))
            yield "condition negated", "test", negated
        case ast.Return(value=value) if value and ast.unparse(value) != "None":
            yield "None returned", "value", ast.Constant(None)
        case ast.Expr(value=ast.Call()):
            yield "left out", None, ast.Pass()
        case ast.Break():
            yield "break to continue", None, ast.Continue()
        case ast.Continue():
            yield "continue to break", None, ast.Break()


def named(operator: ast.AST) -> str:
    """Return the name of an operator."""
    return type(operator).__name__


def source(module: str) -> str:
    """Return the code of a module."""
    return (ROOT / PACKAGE / f"{module}.py").read_text()


def mutated(mutant: Mutant) -> str:
    """Return the code of a mutant."""
    tree = ast.parse(source(mutant.module))
    list(changes(tree))[mutant.index].apply()
    return ast.unparse(ast.fix_missing_locations(tree))


def draw(seed: int, n: int) -> list[Mutant]:
    """Return the mutants that a seed draws from all modules."""
    everything = [
        Mutant(module, index, change.line, change.what)
        for module in TESTS
        for index, change in enumerate(changes(ast.parse(source(module))))
    ]
    print(f"{len(everything)} mutants in {len(TESTS)} modules", flush=True)
    return random.Random(seed).sample(everything, min(n, len(everything)))


def in_fork(folder: Path, work: Callable[[], int], limit_s: int = 0) -> int:
    """Return what a function returns in a forked process, whose output is in a file.

    If it takes longer than `limit_s` seconds (0: any), the code is that of a signal.
    """
    if pid := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has started
        return code
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit_s)
        os.chdir(folder)
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os._exit(work())
    finally:
        os._exit(99)


def files_of(module: str, folder: Path) -> list[Path]:
    """Return the files in a folder of tests that hold a module's tests."""
    found = []
    for one in TESTS[module]:
        room, _, name = one.rpartition("/")
        files = list(folder.glob(f"*/{room}/test_{name}.py"))
        if not files:
            raise FileNotFoundError(f"{module}: got no tests {one}, expected some.")
        found += files
    return found


def run_tests(folder: Path, module: str, names: set[str] | None) -> int:
    """Return what pytest says of a module's tests, some or all; 0: all passed."""
    import pytest

    files = [str(path) for path in files_of(module, Path("tests"))]
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}"]
    options += ["--hypothesis-seed=0", "--hypothesis-profile=mutants"]
    if names:
        options += ["-k", " or ".join(sorted(names))]
    return int(pytest.main([*options, *files]))


def trace_tests(folder: Path, module: str) -> int:
    """Run the tests of a module as it is, and write down which runs which line."""
    import coverage

    code = folder / PACKAGE / f"{module}.py"
    data = str(folder / data_name(module))
    traced = coverage.Coverage(data, include=[str(code)], config_file=False)
    traced.set_option("run:dynamic_context", "test_function")
    sys.dont_write_bytecode = False
    with traced.collect():
        result = run_tests(folder, module, None)
    traced.save()
    return result


def data_name(module: str) -> str:
    """Return the name of the file that says which test runs which line."""
    return f"lines-{module.replace('/', '-')}"


def tests_by_line(folder: Path, module: str) -> dict[int, set[str]]:
    """Return the names of the tests that run each line; empty: on import."""
    from coverage import CoverageData

    if in_fork(folder, lambda: trace_tests(folder, module)):
        sys.exit(f"{module}: tests fail: {(folder / 'output.txt').read_text()}")
    data = CoverageData(str(folder / data_name(module)))
    data.read()
    (file,) = data.measured_files()
    found = data.contexts_by_lineno(file).items()
    return {line: {name.split(".")[-1] for name in names} for line, names in found}


def judge(
    mutant: Mutant, folder: Path, by_line: dict[int, set[str]]
) -> tuple[str, float]:
    """Return how a mutant fared, and the seconds that took.

    All tests run for a line that runs on import, in a process of its own or in tests of
    hypothesis.
    """
    path = folder / PACKAGE / f"{mutant.module}.py"
    path.write_text(mutated(mutant))
    names = by_line.get(mutant.line, set())
    chosen = None if UNKNOWN_TESTS & names else names
    start = time.monotonic()
    try:
        code = in_fork(folder, lambda: run_tests(folder, mutant.module, chosen), MOST_S)
    finally:
        path.write_text(source(mutant.module))
    return fate_of(code), time.monotonic() - start


def fate_of(code: int) -> str:
    """Return how a mutant fared, by what pytest or a signal ended with.

    It is killed by a test that fails, by an error in collection, or by a signal. Other
    codes say that no test ran.
    """
    if code == 0:
        return "survived"
    if code == -signal.SIGALRM:
        return "killed by time"
    return "killed" if code in (1, 2) or code < 0 else UNTESTED


def prepare(parent: Path, i: int) -> Path:
    """Return a copy of the project for one mutant at a time."""
    folder = parent / f"copy-{i}"
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for part in COPIED:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=ignore)
        else:
            shutil.copy(ROOT / part, folder)
    return folder


def import_what_tests_import() -> None:
    """Import once what every fork would import: nothing of our own."""
    sys.dont_write_bytecode = True  # of mutants
    import hypothesis
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401

    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # no shrinking
    hypothesis.settings.register_profile(
        "mutants", phases=phases, max_examples=30, deadline=None, database=None
    )


def main() -> None:
    """Print how each mutant fared, and how many survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants")
    arguments = parser.parse_args()
    drawn = list(enumerate(draw(arguments.seed, arguments.sample)))
    if arguments.only:
        drawn = [drawn[number] for number in arguments.only]
    import_what_tests_import()
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as parent:
        folders: Queue[Path] = Queue()
        copies = [prepare(Path(parent), i) for i in range(arguments.jobs)]
        modules = sorted({mutant.module for _, mutant in drawn})
        lines = {module: tests_by_line(copies[0], module) for module in modules}
        for folder in copies:
            folders.put(folder)

        def work(numbered: tuple[int, Mutant]) -> None:
            number, mutant = numbered
            folder = folders.get()
            fate, took_s = judge(mutant, folder, lines[mutant.module])
            folders.put(folder)
            counted[fate] += 1
            place = f"{mutant.module}.py:{mutant.line}"
            print(number, fate, f"{took_s:.0f} s", place, mutant.what, flush=True)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(work, drawn))
    print(", ".join(f"{n} {fate}" for fate, n in sorted(counted.items())))
    sys.exit(1 if counted[UNTESTED] else 0)


if __name__ == "__main__":
    main()
