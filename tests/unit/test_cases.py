"""The law against cases: only registries ask what kind a run, source or loader is.

Elsewhere an object of that kind answers: by a method, by doing nothing, or by what it
declares. `LEFT` counts by file what is not yet so. It may only fall, as the tests fail
on fewer, too. The words that ask are taken from the code: renaming one does not help.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = WORKFLOW / "scripts"
PACKAGE = SCRIPTS / "tierscope"
MOST_ARGUMENTS = 8
# They say what an experiment, a scenario, a system, a run and an origin are like.
SAYING = (
    "core/description.py",
    "core/machine.py",
    "core/provenance.py",
    "core/scenario.py",
    "experiment/experiment.py",
    "experiment/sources.py",
    "experiment/system.py",
    "pages/explorer/data.py",
    "policies/kinds.py",
)
# They choose, once: by a name, or from what a configuration or a file says.
REGISTRIES = {
    "tierscope/core/description.py": 5,
    "tierscope/experiment/system.py": 6,
    "tierscope/policies/__init__.py": 3,
}
LEFT = {
    "generate_database.py": 1,
    "generate_dataset.py": 2,
    "predict_io_time.py": 1,
    "tierscope/analysis/comparing/ideal.py": 1,
    "tierscope/analysis/intervals.py": 1,
    "tierscope/analysis/origin.py": 1,
    "tierscope/analysis/whatif.py": 2,
    "tierscope/benchmark/devices/emulated.py": 1,
    "tierscope/benchmark/driver.py": 3,
    "tierscope/benchmark/processes.py": 1,
    "tierscope/benchmark/programs/launch.py": 2,
    "tierscope/benchmark/programs/node.py": 1,
    "tierscope/claims/paper.py": 3,
    "tierscope/core/machine.py": 1,
    "tierscope/core/provenance.py": 4,
    "tierscope/core/words.py": 4,
    "tierscope/data/lmdb/settings.py": 1,
    "tierscope/data/steps.py": 1,
    "tierscope/experiment/accelerators/workloads.py": 1,
    "tierscope/experiment/checks.py": 16,
    "tierscope/experiment/config.py": 2,
    "tierscope/experiment/experiment.py": 17,
    "tierscope/experiment/job.py": 2,
    "tierscope/experiment/launches.py": 1,
    "tierscope/experiment/node_limits.py": 1,
    "tierscope/experiment/planned/comparisons.py": 1,
    "tierscope/experiment/planned/jobs.py": 2,
    "tierscope/experiment/planned/measurement.py": 6,
    "tierscope/experiment/planned/models.py": 7,
    "tierscope/experiment/planned/opening.py": 1,
    "tierscope/experiment/planned/runs.py": 1,
    "tierscope/experiment/start.py": 6,
    "tierscope/experiment/training_checks.py": 8,
    "tierscope/figures/cheapest_combination.py": 1,
    "tierscope/figures/prediction.py": 1,
    "tierscope/figures/sufficient_combinations.py": 2,
    "tierscope/figures/training/stalls.py": 1,
    "tierscope/figures/whatif_truth.py": 2,
    "tierscope/logs/chunks/gather.py": 1,
    "tierscope/logs/traced/call.py": 2,
    "tierscope/model/calibration/fit.py": 2,
    "tierscope/model/predict.py": 1,
    "tierscope/model/programs/description.py": 1,
    "tierscope/model/simulator/run.py": 1,
    "tierscope/model/simulator/step_events.py": 1,
    "tierscope/model/stalls.py": 1,
    "tierscope/pages/explorer/page.py": 18,
    "tierscope/pages/explorer/spec.py": 9,
    "tierscope/pages/explorer/views.py": 12,
    "tierscope/pages/report/summary.py": 3,
    "tierscope/pages/scorecard.py": 1,
    "tierscope/storage/emulated/scale.py": 1,
    "tierscope/trace/tracer.py": 4,
}
LEFT_IN_RULES = 14
MANY_ARGUMENTS = {
    "tierscope/benchmark/peers/client.py:__init__",
    "tierscope/benchmark/peers/server.py:__init__",
    "tierscope/benchmark/placement/server.py:__init__",
    "tierscope/benchmark/programs/table.py:create",
    "tierscope/claims/paper.py:score_claims",
    "tierscope/logs/analyse.py:analyse",
    "tierscope/model/analytic/fixed_point.py:_iterate",
    "tierscope/model/goal_search.py:search_by_model",
    "tierscope/model/simulator/epoch.py:simulate_epoch",
    "tierscope/pages/explorer/page.py:build_explorer",
    "tierscope/pages/report/page.py:report_context",
    "tierscope/pages/report/summary.py:summary_table",
    "tierscope/trace/log_writer.py:write_log",
}


def is_of_bool(node: ast.AST) -> bool:
    """Return whether a statement of a class is a property or a field of bool."""
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation) == "bool"
    return (
        isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) == "bool"
        and any("property" in ast.unparse(one) for one in node.decorator_list)
    )


@cache
def asking_words() -> frozenset[str]:
    """Return the names that say what kind something is."""
    words = {"kind_of"}
    for name in SAYING:
        tree = ast.parse((PACKAGE / name).read_text("utf-8"))
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef):
                found = filter(is_of_bool, one.body)
                words |= {getattr(it, "name", "") or it.target.id for it in found}
            elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
                words |= kinds_in(one)
    return frozenset(words)


def kinds_in(assignment: ast.Assign) -> set[str]:
    """Return the names of kinds of runs that a statement makes."""
    if "RunKind" not in ast.unparse(assignment.value.func):
        return set()
    return {ast.unparse(one) for one in assignment.targets}


@cache
def asked_names() -> frozenset[str]:
    """Return the names of sources, loaders and goals, as configurations have them."""
    schema = yaml.safe_load((WORKFLOW / "schemas" / "config.schema.yaml").read_text())
    goal = schema["properties"]["whatif"]["properties"]["goal"]["properties"]["of"]
    loaders = schema["$defs"]["loader"]["enum"]
    return frozenset({"measured", "emulated", "simulated", *loaders, *goal["enum"]})


def asks(test: ast.expr) -> bool:
    """Return whether a condition asks what kind something is."""
    for node in ast.walk(test):
        if getattr(node, "attr", getattr(node, "id", None)) in asking_words():
            return True
        if isinstance(node, ast.Compare):
            constants = {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant)
            }
            if any(one in asked_names() for one in constants if isinstance(one, str)):
                return True
    return False


def conditions(tree: ast.AST):
    """Yield what is asked by if, else, while, filters, cases, repeated lists."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield test
            case ast.comprehension(ifs=tests):
                yield from tests
            case ast.match_case(guard=ast.expr() as test):
                yield test
            case ast.BinOp(left=ast.List(), op=ast.Mult(), right=test):
                yield test


def n_asking(path: Path) -> int:
    return sum(map(asks, conditions(ast.parse(path.read_text("utf-8")))))


def in_rules() -> int:
    """Return how many lines of rules do, which are no Python that can be parsed."""
    words = "|".join(sorted(asking_words()))
    asking = re.compile(rf"\bif\b.*\b({words})\b|\] \* .*\b({words})\b")
    texts = [path.read_text() for path in (WORKFLOW / "rules").glob("*.smk")]
    texts.append((WORKFLOW / "Snakefile").read_text())
    return sum(bool(asking.search(line)) for text in texts for line in text.split("\n"))


def with_many_arguments() -> set[str]:
    """Return the functions that take more than is easy to read."""
    many = set()
    for path in SCRIPTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                own = [one for one in given if one.arg not in ("self", "cls")]
                if len(own) > MOST_ARGUMENTS:
                    many.add(f"{path.relative_to(SCRIPTS).as_posix()}:{node.name}")
    return many


@cache
def counted() -> dict[str, int]:
    """Return how many conditions of each file ask for a kind, those that have some."""
    paths = sorted(SCRIPTS.rglob("*.py"))
    counts = {path.relative_to(SCRIPTS).as_posix(): n_asking(path) for path in paths}
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
        ("x = [1] * scenario.computes", 1),
        ("x = [one for one in runs if not one.moves_files]", 1),
        ("while loader == 'lmdb': pass", 1),
        ("match x:\n case y if y in ('posix', 'pytorch'): pass", 1),
        ("if a: pass\nelif kind.is_job: pass", 1),
        ("x = [experiment.is_program]", 0),  # a value, which asks nothing
        ("if x == 'reading': pass", 0),
        ("lmdb = {'lmdb': open_database}[loader]", 0),  # a table
    ],
)
def test_what_asks_for_a_kind_is_counted(code, n):
    assert sum(map(asks, conditions(ast.parse(code)))) == n
