"""The law against cases: only registries ask what kind a run, source or loader is.

Elsewhere an object of that kind answers: by a method, by doing nothing, or by what it
declares. `LEFT` counts by file what is not yet so. It may only fall, as the tests fail
on fewer, too. What asks is taken from the code, so renaming does not help:

- a truth of an object: bool properties and fields of classes in `SAYING`, and truths
  that these keep (`self.has_ideal = ...`); also under a local name (`is_other = ...`);
- a comparison (or `case`, or `isinstance`) with the name of a source, loader, goal or
  kind of run, with a constant that holds one, or with one of several classes of
  `SAYING` (``Dataset | UserDataset``).

Asked where a value is chosen: if, while, filters, cases, `[x] * truth`, `[x, y][truth]`
and `truth and x or y`. Rules are counted as the Python that Snakemake makes of them.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.parser import parse
from tierscope.core.validation import read_schema
from tierscope.experiment.sources import SOURCES
from tierscope.policies import kinds
from tierscope.policies.kinds import RunKind

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = WORKFLOW / "scripts"
PACKAGE = SCRIPTS / "tierscope"
MOST_ARGUMENTS = 8
# They say what an experiment, a scenario, a system, a run and an origin are like.
SAYING = (
    "core",
    "experiment",
    "policies",
    "storage/clock.py",
    "pages/explorer/subjects.py",
)
# These say what has happened to something, or what it may do now, not what it is.
STATES = {"_ended", "all_run_here", "filled", "is_whole", "may_be_missing", "may_copy"}
ACTIONS = {"Copy", "Evict", "placed"}  # and events of policies
NO_KINDS = {*STATES, *ACTIONS, "IOClass", "NetClass", "is_read"}
# They choose, once: by a name, or from what a configuration or a file says.
REGISTRIES = {
    "tierscope/core/description.py": 8,
    "tierscope/experiment/system.py": 6,
    "tierscope/policies/__init__.py": 5,
}
LEFT = {
    "generate_database.py": 1,
    "generate_dataset.py": 2,
    "predict_io_time.py": 1,
    "tierscope/analysis/comparing/ideal.py": 1,
    "tierscope/analysis/comparing/policies.py": 1,
    "tierscope/analysis/intervals.py": 1,
    "tierscope/analysis/origin.py": 1,
    "tierscope/analysis/page_cache.py": 5,
    "tierscope/analysis/whatif.py": 2,
    "tierscope/audit/program.py": 1,
    "tierscope/audit/run.py": 1,
    "tierscope/benchmark/devices/emulated.py": 1,
    "tierscope/benchmark/devices/real.py": 1,
    "tierscope/benchmark/driver.py": 3,
    "tierscope/benchmark/probe_launch.py": 1,
    "tierscope/benchmark/probed_files.py": 1,
    "tierscope/benchmark/processes.py": 1,
    "tierscope/benchmark/programs/copier.py": 1,
    "tierscope/benchmark/programs/launch.py": 3,
    "tierscope/benchmark/programs/node.py": 3,
    "tierscope/benchmark/programs/staging.py": 2,
    "tierscope/benchmark/sources/files.py": 1,
    "tierscope/claims/paper.py": 4,
    "tierscope/core/lmdb_loaders.py": 1,
    "tierscope/core/machine.py": 1,
    "tierscope/core/provenance.py": 4,
    "tierscope/core/scenario.py": 1,
    "tierscope/core/words.py": 2,
    "tierscope/data/lmdb/settings.py": 1,
    "tierscope/data/steps.py": 1,
    "tierscope/experiment/designs/workloads.py": 1,
    "tierscope/experiment/checks.py": 22,
    "tierscope/experiment/config.py": 3,
    "tierscope/experiment/experiment.py": 21,
    "tierscope/experiment/job.py": 4,
    "tierscope/experiment/launches.py": 1,
    "tierscope/experiment/node_limits.py": 1,
    "tierscope/experiment/planned/comparisons.py": 5,
    "tierscope/experiment/planned/drawn.py": 2,
    "tierscope/experiment/planned/jobs.py": 6,
    "tierscope/experiment/planned/measurement.py": 8,
    "tierscope/experiment/planned/models.py": 9,
    "tierscope/experiment/planned/runs.py": 1,
    "tierscope/experiment/program_sweep.py": 5,
    "tierscope/experiment/start.py": 5,
    "tierscope/experiment/training_checks.py": 9,
    "tierscope/figures/comparing/policies.py": 2,
    "tierscope/figures/prediction.py": 1,
    "tierscope/figures/training/stalls.py": 1,
    "tierscope/figures/whatif_truth.py": 2,
    "tierscope/logs/chunks/gather.py": 1,
    "tierscope/logs/traced/call.py": 2,
    "tierscope/model/calibration/fit.py": 2,
    "tierscope/model/predict.py": 1,
    "tierscope/model/programs/description.py": 2,
    "tierscope/model/simulator/epoch.py": 1,
    "tierscope/model/simulator/placed_epoch.py": 1,
    "tierscope/model/simulator/reader_steps.py": 4,
    "tierscope/model/simulator/run.py": 1,
    "tierscope/model/stalls.py": 1,
    "tierscope/pages/explorer/page.py": 1,
    "tierscope/pages/explorer/subjects.py": 2,
    "tierscope/pages/report/page.py": 1,
    "tierscope/pages/report/program.py": 1,
    "tierscope/pages/report/runs.py": 1,
    "tierscope/pages/report/summary.py": 4,
    "tierscope/pages/scorecard.py": 1,
    "tierscope/storage/emulated/scale.py": 1,
    "tierscope/trace/tracer.py": 4,
}
LEFT_IN_RULES = 18
MANY_ARGUMENTS: dict[str, int] = {}


@cache
def classes_that_say() -> tuple[ast.ClassDef, ...]:
    """Return the classes of `SAYING`; keys of a mapping are no truths of an object."""
    paths = [path for name in SAYING for path in files_of(PACKAGE / name)]
    return tuple(
        node
        for path in paths
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if "TypedDict" not in map(ast.unparse, node.bases)
    )


def files_of(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def is_of_bool(node: ast.AST) -> bool:
    """Return whether a statement of a class is a property or a field of bool."""
    if isinstance(node, ast.AnnAssign):
        kind = ast.unparse(node.annotation)
        return kind == "bool" or kind.startswith("Annotated[bool,")
    return (
        isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) == "bool"
        and any("property" in ast.unparse(one) for one in node.decorator_list)
    )


@cache
def asking_words() -> frozenset[str]:
    """Return the names of truths that say what kind something is."""
    words = {"kind_of"}
    for one in classes_that_say():
        found = filter(is_of_bool, one.body)
        words |= {getattr(it, "name", "") or it.target.id for it in found}
        words |= {target.attr for target, value in kept(one) if is_truth(value, words)}
    return frozenset(words - NO_KINDS)


def kept(one: ast.ClassDef) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yield what the methods of a class keep: attribute and value."""
    for node in ast.walk(one):
        match node:
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                yield target, value


@cache
def asked_texts() -> frozenset[str]:
    """Return the names of sources, kinds of runs, loaders and goals."""
    keys = read_schema("config")["properties"]
    goal = keys["whatif"]["properties"]["goal"]["properties"]["of"]
    loaders = keys["sweep"]["properties"]["loaders"]["items"]
    runs = [one.name for one in kinds.KINDS]
    return frozenset({*SOURCES, *runs, *loaders["enum"], *goal["enum"]} - NO_KINDS)


@cache
def asked_names() -> frozenset[str]:
    """Return the names of kinds of runs, of classes that are one of several, and of
    constants that hold asked texts.
    """
    names = {name for name, one in vars(kinds).items() if isinstance(one, RunKind)}
    names |= {type(one).__name__ for one in SOURCES.values()}
    for path in files_of(PACKAGE):
        tree = ast.parse(path.read_text("utf-8"))
        names |= {one for node in ast.walk(tree) for one in alternatives(node)}
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if set() < texts_of(value) <= asked_texts():
                        names.add(name)
    return frozenset(names - NO_KINDS)


def alternatives(node: ast.AST) -> set[str]:
    """Return the classes of `SAYING` of which something is one (``A | B``)."""
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            said = {one.name for one in classes_that_say()}
            found = {name_of(left), name_of(right)}
            return found if found <= said else set()
    return set()


def texts_of(value: ast.expr) -> set[str]:
    """Return the texts of a constant, or of a tuple, list, set or keys of some."""
    match value:
        case ast.Constant(value=str() as text):
            return {text}
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return set().union(*map(texts_of, parts))
        case ast.Dict(keys=keys):
            return set().union(*(texts_of(one) for one in keys if one))
    return set()


def is_truth(node: ast.expr, words: Iterable[str]) -> bool:
    """Return whether a value is true or false, as far as one can see."""
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.Compare():
            return True
        case ast.BoolOp(values=parts):
            return any(is_truth(one, words) for one in parts)
        case ast.Call(func=ast.Name(id="bool" | "any" | "all" | "isinstance")):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in words
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in words
    return False


def compares(node: ast.AST) -> bool:
    """Return whether something is compared with the name or class of a kind."""
    match node:
        case ast.Compare() | ast.pattern():
            parts = ast.walk(node)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            parts = [one for one in ast.walk(kinds) if isinstance(one, ast.Name)]
        case _:
            return False
    return any(
        name_of(one) in asked_names() or getattr(one, "value", None) in asked_texts()
        for one in parts
        if isinstance(one, ast.Name | ast.Attribute | ast.Constant)
    )


def name_of(node: ast.AST) -> str | None:
    return getattr(node, "attr", getattr(node, "id", None))


def asks(test: ast.AST, aliases: set[str] = frozenset()) -> bool:
    """Return whether a condition asks what kind something is."""
    return any(
        name_of(node) in asking_words()
        or getattr(node, "id", None) in aliases
        or compares(node)
        for node in ast.walk(test)
    )


def conditions(nodes: Iterable[ast.AST], aliases: set[str]) -> Iterator[ast.AST]:
    """Yield what is asked where a value or a way is chosen."""
    words = asking_words() | aliases
    for node in nodes:
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield test
            case ast.comprehension(ifs=tests):
                yield from tests
            case ast.Call(func=ast.Name(id="filter"), args=[ast.Lambda(body=test), _]):
                yield test
            case ast.match_case(pattern=pattern, guard=guard):
                yield from filter(None, (pattern, guard))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                yield from (one for one in (left, right) if is_truth(one, words))
            case ast.Subscript(value=ast.List() | ast.Tuple() | ast.Dict(), slice=test):
                yield from [test] * is_truth(test, words)
            case ast.BoolOp(op=ast.And(), values=[*_, last]):
                yield from [node] * isinstance(last, _LITERAL)


_LITERAL = ast.Constant | ast.JoinedStr | ast.List | ast.Tuple | ast.Dict


def n_asking(scope: ast.AST, aliases: set[str] = frozenset()) -> int:
    """Return how many conditions of a module or a function ask for a kind."""
    nodes = sorted(own_nodes(scope), key=lambda one: getattr(one, "lineno", 0))
    aliases = set(aliases)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                words = asking_words() | aliases
                if is_truth(value, words) and asks(value, aliases):
                    aliases.add(name)
    n = sum(asks(one, aliases) for one in conditions(nodes, aliases))
    functions = [one for one in nodes if isinstance(one, _FUNCTION)]
    return n + sum(n_asking(one, aliases) for one in functions)


_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what a module or function holds, without what its functions hold."""
    todo = [*ast.iter_child_nodes(scope)]
    for node in todo:
        yield node
        if not isinstance(node, _FUNCTION):
            todo += ast.iter_child_nodes(node)


def python_of(path: Path) -> str:
    """Return the Python that Snakemake makes of rules."""
    source = SimpleNamespace(get_path_or_uri=lambda secret_free: str(path))
    cache = SimpleNamespace(open=lambda source: path.open())
    return parse(source, SimpleNamespace(sourcecache=cache), linemap={})[0]


def in_rules() -> int:
    """Return how many conditions of rules ask for a kind; they share their names."""
    paths = [WORKFLOW / "Snakefile", *sorted((WORKFLOW / "rules").glob("*.smk"))]
    return n_asking(ast.parse("\n".join(map(python_of, paths))))


def with_many_arguments() -> dict[str, int]:
    """Return the functions that take more than is easy to read, and how many."""
    many = {}
    for path in SCRIPTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, _FUNCTION):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                n_own = sum(one.arg not in ("self", "cls") for one in given)
                if n_own > MOST_ARGUMENTS:
                    many[f"{path.relative_to(SCRIPTS).as_posix()}:{node.name}"] = n_own
    return many


@cache
def counted() -> dict[str, int]:
    """Return how many conditions of each file ask for a kind, those that have some."""
    counts = {
        path.relative_to(SCRIPTS).as_posix(): n_asking(
            ast.parse(path.read_text("utf-8"))
        )
        for path in sorted(SCRIPTS.rglob("*.py"))
    }
    return {name: n for name, n in counts.items() if n}


def test_fewer_conditions_ask_for_a_kind_and_never_more():
    assert {name: n for name, n in counted().items() if name not in REGISTRIES} == LEFT


def test_registries_do_not_grow():
    assert {name: counted().get(name, 0) for name in REGISTRIES} == REGISTRIES


def test_rules_do_not_ask_for_kinds():
    assert in_rules() == LEFT_IN_RULES


def test_fewer_functions_take_many_arguments_and_never_more():
    assert with_many_arguments() == MANY_ARGUMENTS


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ("if kind_of(run) is FILES: pass", 1),
        ("x = 1 if experiment.is_program else 2", 1),
        ("x = [one for one in runs if not one.moves_files]", 1),
        ("x = [*filter(lambda one: one.moves_files, runs)]", 1),
        ("while loader == 'lmdb': pass", 1),
        ("match x:\n case y if y in ('posix', 'pytorch'): pass", 1),
        ("match source:\n case 'simulated' | 'emulated': pass", 1),
        ("if a: pass\nelif kind.is_program: pass", 1),
        ("if training.cold: pass", 1),  # a field that is annotated with its words
        ("if runs.has_ideal: pass", 1),  # kept by a method
        ("if kind is PLACED_PROGRAM: pass", 1),
        ("if kind.name == 'placed program': pass", 1),
        ("if scenario.loader == PYTORCH: pass", 1),
        ("if isinstance(dataset, UserDataset): pass", 1),
        ("if type(clock) is VirtualClock: pass", 1),
        ("x = [1] * scenario.computes", 1),
        ("x = ' --submitted' * job.simulated + 1000 * (not job.simulated)", 2),
        ("x = experiment.simulated and 3 or 4", 1),
        ("x = [1, 2][simulated]", 1),
        ("is_other = one.runs_program\nif is_other: pass", 1),
        ("def f(a):\n b = not a.simulated\n c = b or d\n return 1 if c else 2", 1),
        ("def f(a):\n b = a.simulated\n\ndef g(b):\n return 1 if b else 2", 0),
        ("x = [experiment.is_program]", 0),  # a value, which asks nothing
        ("x = n_bytes * n_files", 0),
        ("if x == 'reading': pass", 0),
        ("if isinstance(error, ConfigError): pass", 0),
        ("lmdb = {'lmdb': open_database}[loader]", 0),  # a table
    ],
)
def test_what_asks_for_a_kind_is_counted(code, n):
    assert n_asking(ast.parse(code)) == n


@pytest.mark.parametrize(
    ("rules", "n"),
    [
        ("if a:\n    x = 1\nelif EXPERIMENT.simulated:\n    x = 2\n", 1),
        ("X = [\n    1,\n] * (\n    EXPERIMENT.simulated\n)\n", 1),
        ("IS_OURS = not EXPERIMENT.simulated\n\nif IS_OURS:\n    x = 1\n", 1),
        ("rule a:\n    params:\n        b=1 if X.simulated else 2,\n", 1),
        ("rule a:\n    output:\n        'if simulated',  # if simulated\n", 0),
    ],
)
def test_rules_are_counted_by_the_same_law(tmp_path, rules, n):
    (tmp_path / "a.smk").write_text(rules)
    assert n_asking(ast.parse(python_of(tmp_path / "a.smk"))) == n
