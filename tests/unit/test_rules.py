"""Rules name the code that their results depend on."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = WORKFLOW / "scripts"
LIBRARY = re.compile(r"library\(([^)]*)\)")
GROUP = re.compile(r"^([A-Z_]+) = \(([^)]*)\)", re.MULTILINE)
UNRELATED = {"tiers/__init__", "validation"}  # of no result here


def listed(text, groups):
    """Return the modules that a list names, those of the groups in it included."""
    names = re.findall(r'"([^"]+)"', text)
    for group in re.findall(r"\*([A-Z_]+)", text):
        names += listed(groups[group], groups)
    return names


def named_modules():
    """Yield (script, modules that its rule names) of every analysis rule."""
    groups = dict(GROUP.findall((WORKFLOW / "rules" / "common.smk").read_text()))
    for rules in sorted((WORKFLOW / "rules").glob("*.smk")):
        for arguments in LIBRARY.findall(rules.read_text()):
            names = listed(arguments, groups)
            if names:
                yield names[0], set(names[1:])


def member(package, name):
    """Return the module that a name comes from which is imported from a package."""
    is_module = (SCRIPTS / "tierscope" / package / f"{name}.py").is_file()
    return f"{package}/{name if is_module else '__init__'}"


@cache
def own_imports(path):
    """Return the modules of ours that a file imports itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        package = (node.module or "").split(".")
        if package[0] != "tierscope":
            continue
        names = ["/".join(package[1:])]
        if package == ["tierscope"]:  # from tierscope import MODULE
            names = [alias.name for alias in node.names]
        if names == ["trace"]:  # loads its names from their homes
            names = ["trace/file_records"]
        elif (SCRIPTS / "tierscope" / names[0]).is_dir():
            names = [member(names[0], alias.name) for alias in node.names]
        found |= set(names) - UNRELATED
    return found


def imported_modules(path):
    """Return the modules of ours that a file imports, with theirs."""
    found, new = set(), own_imports(path)
    while new:
        found |= new
        files = [SCRIPTS / "tierscope" / f"{name}.py" for name in new]
        new = set().union(*(own_imports(f) for f in files if f.is_file())) - found
    return found


@pytest.mark.parametrize(("script", "named"), list(named_modules()))
def test_rule_names_every_module_that_its_script_uses(script, named):
    used = imported_modules(SCRIPTS / f"{script}.py")
    assert used <= named


def test_every_analysis_rule_is_looked_at():
    assert len(list(named_modules())) == 40


def test_no_file_of_rules_gives_another_meaning_to_a_name():
    """All files of rules share one namespace."""
    homes = {}
    for rules in sorted((WORKFLOW / "rules").glob("*.smk")):
        for name in re.findall(r"^([A-Z_]+) = ", rules.read_text(), re.MULTILINE):
            homes.setdefault(name, set()).add(rules.name)
        for names in re.findall(r"^from \S+ import (.+)$", rules.read_text(), re.M):
            for name in re.findall(r"\b[A-Z_]{2,}\b", names):
                homes.setdefault(name, set()).add(rules.name)
    assert homes
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
