"""Names of our code in docs and docstrings exist; words have one meaning."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
PACKAGE = SCRIPTS / "tierscope"
DOTTED = re.compile(r"(?<![\w./-])tierscope(?:\.\w+)+")
MODULE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")
PLACES = ("", "workflow", "workflow/scripts", "workflow/scripts/tierscope", "tests")
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "config/*.md", "profiles/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
SOURCES = sorted(
    path
    for pattern in ("workflow/**/*.py", "workflow/native/*.[ch]", "workflow/**/*.smk")
    for path in ROOT.glob(pattern)
)
# Of the package when asked for, and of the workflow that another one imports.
OTHER_NAMES = {"analyse", "onerror", "onstart", "onsuccess"}
# A word, and the module that defines what it means in code.
WORDS = {
    "Run": "core/description.py",
    "Tier": "core/machine.py",
    "Call": "logs/traced/call.py",
}


@cache
def defined(path):
    """Return the names that a module defines, and those in its classes."""
    names = set(OTHER_NAMES if path == PACKAGE / "__init__.py" else ())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def exists(dotted):
    """Return whether a dotted name is a module, or something in one."""
    place = SCRIPTS
    parts = dotted.split(".")
    for position, part in enumerate(parts):
        if (place / part).is_dir():
            place = place / part
            continue
        module = place / f"{part}.py"
        rest = parts[position + 1 :]
        if not module.is_file():
            module, rest = place / "__init__.py", parts[position:]
        return module.is_file() and set(rest) <= defined(module)
    return True


@pytest.mark.parametrize("path", [*DOCUMENTS, *SOURCES], ids=lambda path: path.name)
def test_dotted_names_exist(path):
    found = {name for name in DOTTED.findall(path.read_text()) if "__" not in name}
    assert sorted(name for name in found if not exists(name)) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_modules_that_documents_name_exist(path):
    named = set(MODULE.findall(path.read_text()))
    missing = {
        one for one in named if not any((ROOT / p / one).is_file() for p in PLACES)
    }
    assert sorted(missing) == []


@pytest.mark.parametrize("word", WORDS)
def test_word_has_one_definition(word):
    found = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_") == word
    ]
    assert found == [WORDS[word]]


def test_words_for_one_thing_are_found_in_one_way():
    """Functions for words that others call have names of their own."""
    found = [
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_words")
        and not node.name.startswith(("_", "check_"))
    ]
    assert sorted(found) == sorted(set(found))


def test_job_is_a_word_of_schedulers():
    """Tables of logs keep the word: a row there is a scheduler's job."""
    found = [
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_") == "Job"
    ]
    assert found == []
    assert not list((PACKAGE / "jobs").rglob("*.py"))
