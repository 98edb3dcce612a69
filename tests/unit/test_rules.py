"""Rules name the code that their results depend on."""

import ast
import re
from pathlib import Path

import pytest

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = WORKFLOW / "scripts"
LIBRARY = re.compile(r"library\(([^)]*)\)")
MODELS = re.compile(r"^MODELS = \(([^)]*)\)", re.MULTILINE)
UNRELATED = {"config", "tiers", "tiers/device", "tiers/scale"}  # of no result here


def named_modules():
    """Yield (script, modules that its rule names) of every analysis rule."""
    common = (WORKFLOW / "rules" / "common.smk").read_text()
    models = re.findall(r'"([^"]+)"', MODELS.search(common)[1])
    for rules in sorted((WORKFLOW / "rules").glob("*.smk")):
        for arguments in LIBRARY.findall(rules.read_text()):
            names = re.findall(r'"([^"]+)"', arguments)
            if names:
                yield (
                    names[0],
                    {*names[1:], *(models if "*MODELS" in arguments else ())},
                )


def imported_modules(path):
    """Return the modules of ours that a file imports, with theirs."""
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
        if names == ["policies"]:
            names = ["policies/pinning"]
        for name in set(names) - UNRELATED:
            found.add(name)
            target = SCRIPTS / "tierscope" / f"{name}.py"
            if target.is_file() and name not in UNRELATED:
                found |= imported_modules(target)
    return found


@pytest.mark.parametrize(("script", "named"), list(named_modules()))
def test_rule_names_every_module_that_its_script_uses(script, named):
    used = imported_modules(SCRIPTS / f"{script}.py")
    assert used <= named


def test_every_analysis_rule_is_looked_at():
    assert len(list(named_modules())) == 28
