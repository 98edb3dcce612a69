"""The law against cases: only registries ask what kind a run, source or loader is.

Elsewhere an object of that kind answers: by a method, by doing nothing, or by what it
declares. `LEFT` counts by file what is not yet so. It may only fall, as the test fails
on fewer, too. The words that ask are taken from the code, so renaming one does not help.
"""

import ast
import re
from functools import cache
from pathlib import Path

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
    "tierscope/benchmark/loaders/__init__.py",
    "tierscope/core/description.py",
    "tierscope/experiment/system.py",
    "tierscope/policies/__init__.py",
    "tierscope/policies/kinds.py",
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


if __name__ == "__main__":
    counts = {
        path.relative_to(SCRIPTS).as_posix(): n_asking(path)
        for path in sorted(SCRIPTS.rglob("*.py"))
    }
    print({name: n for name, n in counts.items() if n and name not in REGISTRIES})
    print({name: n for name, n in counts.items() if n and name in REGISTRIES})
    print(sum(counts.values()), in_rules(), sorted(with_many_arguments()))
    print(sorted(asking_words()), sorted(asked_names()))
