"""What a script imports is what Python would import."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tierscope.core.imports import (
    digest_of_modules,
    imported_modules,
    imported_packages,
)

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"


@pytest.fixture
def package(tmp_path):
    """Return a function: it writes a small package and says what a script imports."""

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for folder in tmp_path.rglob("*/"):
            (folder / "__init__.py").touch()
        found = imported_modules(tmp_path / "script.py")
        return [str(path.relative_to(tmp_path)) for path in found]

    return write


def test_modules_of_modules_are_found_with_their_packages(package):
    found = package(
        script="from tierscope.room.one import something\n",
        tierscope__room__one="def f():\n    from tierscope import two\n",
        tierscope__two="import tierscope.room.three\n",
        tierscope__room__three="",
        tierscope__other="",
    )
    assert found == [
        "tierscope/__init__.py",
        "tierscope/room/__init__.py",
        "tierscope/room/one.py",
        "tierscope/room/three.py",
        "tierscope/two.py",
    ]


def test_names_in_parentheses_with_comments_and_aliases(package):
    found = package(
        script="from tierscope.room import (\n one,  # said\n two as second,\n)\n",
        tierscope__room__one="",
        tierscope__room__two="",
    )
    assert found[-2:] == ["tierscope/room/one.py", "tierscope/room/two.py"]


def test_several_modules_in_one_statement_and_statements_in_one_line(package):
    found = package(
        script="x = 1; import tierscope.one as one, tierscope.two\n"
        "from tierscope import \\\n    three\n",
        tierscope__one="",
        tierscope__two="",
        tierscope__three="",
    )
    assert [path[10:] for path in found[1:]] == ["one.py", "three.py", "two.py"]


@pytest.mark.parametrize(
    "prose",
    [
        '"""See `tierscope.one`; tierscope.one import it."""\n',
        '"""Type this:\n\nfrom tierscope import one\n"""\n',
        'EXAMPLE = """\n\n\nimport tierscope.one\n"""\n',
        "x = 1  # import tierscope.one\n",
    ],
)
def test_prose_imports_nothing(package, prose):
    assert package(script=prose, tierscope__one="") == []


@pytest.mark.parametrize(
    "place",
    [
        "def f():\n    import tierscope.one\n",
        "class C:\n    def f(self):\n        from tierscope import one\n",
        "try:\n    import x\nexcept ImportError:\n    import tierscope.one\n",
        "if x:\n    pass\nelse:\n    import tierscope.one\n",
        "match x:\n    case 1:\n        import tierscope.one\n",
        'TEXT = """\n\n\n"""\nfrom tierscope import one\n',
    ],
)
def test_imports_count_wherever_they_stand(package, place):
    found = package(script=f"x = 1\n\n\n{place}", tierscope__one="")
    assert found[1:] == ["tierscope/one.py"]


def test_two_empty_lines_within_a_text_hide_no_import(package):
    found = package(
        script='import tierscope.one\nTEXT = """\n\n\n"""\n', tierscope__one=""
    )
    assert found[1:] == ["tierscope/one.py"]


def test_file_that_is_no_python_is_named_with_its_line(package):
    with pytest.raises(SyntaxError, match=r"script\.py, line 2"):
        package(script="x = 1\nimport = 2\n")


def test_circles_end(package):
    found = package(
        script="import tierscope.one\n",
        tierscope__one="import tierscope.two\n",
        tierscope__two="import tierscope.one\n",
    )
    assert found[1:] == ["tierscope/one.py", "tierscope/two.py"]


@cache
def parsed_imports(path):
    """Return the files of ours that a file imports, by all nodes of its syntax."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import, which is not found"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] != "tierscope":
                continue
            for end in range(1, len(parts) + 1):
                path = SCRIPTS.joinpath(*parts[:end])
                for file in (path.with_suffix(".py"), path / "__init__.py"):
                    if file.is_file():
                        found.append(file)
    return found


@pytest.mark.parametrize(
    "script", sorted(SCRIPTS.glob("*.py")), ids=lambda one: one.stem
)
def test_no_import_of_a_script_is_missed(script):
    found, new = set(), {script}
    while new:
        found |= new
        new = {file for path in new for file in parsed_imports(path)} - found
    assert imported_modules(script) == sorted(found - {script})


def test_programs_are_named_by_the_modules_that_are_imported():
    """A module's name in a text would not be found."""
    texts = {path: path.read_text() for path in SCRIPTS.rglob("*.py")}
    assert [path for path, text in texts.items() if '"-m", "tierscope' in text] == []


def test_no_module_of_the_benchmark_is_missing_from_its_digest():
    found = {*imported_modules(SCRIPTS / "run_benchmark.py")}
    package = SCRIPTS / "tierscope" / "benchmark"
    of_other_scripts = {
        package / name
        for name in ("probe_launch.py", "probed_files.py", "accuracy_study.py")
    }
    of_other_scripts |= {*(package / "programs").rglob("*.py")}
    assert {*package.rglob("*.py")} - found == of_other_scripts


def clone(folder, used="x = 1\n", unused="y = 1\n"):
    """Write a script that uses one of two modules; return the script."""
    package = folder / "tierscope"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "used.py").write_text(used)
    (package / "unused.py").write_text(unused)
    (folder / "script.py").write_text("import tierscope.used\n")
    return folder / "script.py"


def test_digest_is_that_of_the_used_sources_wherever_they_lie(tmp_path):
    digest = digest_of_modules(clone(tmp_path / "one"))
    assert len(digest) == 64
    assert digest_of_modules(clone(tmp_path / "two", unused="y = 2\n")) == digest
    assert digest_of_modules(clone(tmp_path / "three", used="x = 2\n")) != digest


def test_packages_of_others_are_those_of_all_modules_that_scripts_import(
    package, tmp_path
):
    package(
        script="import os\nfrom beside import x\nfrom tierscope.one import two\n",
        beside="import never\n",
        second="import numpy as np\n",
        tierscope__one="def f():\n    from scipy.optimize import linprog\n",
        tierscope__other="import unused\n",
    )
    scripts = [tmp_path / "script.py", tmp_path / "second.py"]
    assert imported_packages(scripts, tmp_path) == ["numpy", "scipy.optimize.linprog"]


def test_packages_of_audits_are_found():
    found = imported_packages([SCRIPTS / "audit_run.py"], SCRIPTS)
    tops = {name.partition(".")[0] for name in found}
    assert {"pandas", "pyarrow", "scipy"} <= tops
    assert not tops & {"tierscope", "tensorflow", "mpi4py", "json"}
