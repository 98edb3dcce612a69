"""Rules name the code that their results depend on."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.linting.snakefiles import SnakefileLinter
from tierscope.core.columns import TABLES
from tierscope.core.output.declared import declared_figures
from tierscope.experiment.launches import MARKER
from tierscope.experiment.planned.runs import FOLDER
from tierscope.logs.settings import CHUNKS, LISTING

WORKFLOW = Path(__file__).parents[2] / "workflow"
PACKAGE = WORKFLOW / "scripts" / "tierscope"
# The subjects of a configuration, with a module or room that others do not need.
SUBJECT_ROOMS = {
    "experiment": "experiment.planned.runs",
    "logs": "logs",
    "designs": "experiment.designs",
}
SUBJECTS = tuple(SUBJECT_ROOMS)
RULE = re.compile(
    r"^ *(?:use rule \w+ as |(?:rule|checkpoint) ?)(\w*)(.*?)"
    r"(?=^ *(?:use )?(?:rule|checkpoint)[ :]|\Z)",
    re.M | re.S,
)
IMPORT = re.compile(r"^from tierscope\S* import (?:\([^)]*\)|.+)", re.M)
# What is measured, generated or only written down is not made again for new code.
WITHOUT_LIBRARY = {
    "describe_dataset",
    "describe_probes",
    "describe_scenario",
    "generate_database",
    "generate_dataset",
    "list_dataset",
    "probe_storage",
    "run_benchmark",
}


def rules():
    """Yield the name and the text of every rule."""
    for path in sorted((WORKFLOW / "rules").glob("*.smk")):
        yield from RULE.findall(path.read_text())


def test_each_rule_depends_on_its_script_and_what_this_imports():
    without = set()
    for name, text in rules():
        scripts = re.findall(r"scripts(?::q})?/(\w+)\.py", text)
        for script in [*scripts, *(["launch"] if "JOBS.launch}" in text else [])]:
            if f'OPENING.library("{script}")' not in text:
                without.add(name)
    assert without == WITHOUT_LIBRARY


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("benchmark", f"<experiment>/{MARKER}"),
        ("audit", f"<experiment>/{FOLDER}"),
        ("logs", f"<experiment>/{LISTING}/chunks.json"),
        ("logs", f"<experiment>/{LISTING}/{{chunk}}.list"),
        ("logs", f"<experiment>/{CHUNKS}/{{chunk}}"),
        ("estimate", "<tables>/estimates_model.parquet"),
        ("estimate", "<tables>/class_stalls.parquet"),
        ("model", "<experiment>/model/{calibration}/devices.yaml"),
    ],
)
def test_rules_say_where_their_files_lie(file, path):
    """As the package says, where it knows the path as well."""
    assert f'"{path}"' in (WORKFLOW / "rules" / f"{file}.smk").read_text()


def test_measurements_depend_on_no_code():
    measuring = {name: text for name, text in rules() if "{JOBS.launch}" in text}
    assert "run_benchmark" in measuring
    assert [name for name, text in measuring.items() if "library(" in text] == []


def pieces(path):
    """Yield the text of the rules in the order in which Snakemake reads it."""
    text, *rest = re.split(r'^ *include: "(.+)"$', path.read_text(), flags=re.MULTILINE)
    yield path.name, text
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        yield from pieces(path.parent / name)
        yield path.name, text


def read_for(subject):
    """Return the texts that Snakemake reads for a subject, in order."""
    rules = WORKFLOW / "rules"
    return [*pieces(rules / "base.smk"), *pieces(rules / f"{subject}.smk")]


def test_the_snakefile_only_chooses_the_subject():
    text = (WORKFLOW / "Snakefile").read_text()
    included = re.findall(r'include: "rules/(\w+)\.smk"', text)
    assert included == ["base", "logs", "designs", "experiment"]
    assert "rule " not in text


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_file_of_rules_gives_another_meaning_to_a_name(subject):
    """All files of a subject share one namespace."""
    homes = {}
    for file, text in read_for(subject):
        for name in re.findall(r"^([A-Z_]+) = ", text, re.MULTILINE):
            homes.setdefault(name, set()).add(file)
        for names in re.findall(r"^from \S+ import (.+)$", text, re.MULTILINE):
            for name in re.findall(r"\b[A-Z_]{2,}\b", names):
                homes.setdefault(name, set()).add(file)
    assert homes
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_name_is_used_before_the_file_that_defines_it(subject):
    """Not even in a function that is called later."""
    defined = re.compile(r"^(?:def |    (?=[A-Z]))?(\w+)(?= = |\()", re.MULTILINE)
    read, homes = read_for(subject), {}
    for position, (file, text) in enumerate(read):
        for name in defined.findall(text):
            homes.setdefault(name, (position, file))
    assert homes["OPENING"][1] == "base.smk"
    early = set()
    for position, (file, text) in enumerate(read):
        # Not those of rules, as `rule calibrate` is no function.
        names = re.findall(r"(?<=\{)\w+(?=\()|(?<![\w.\"'{/])\w+\b(?!=[^=])", text)
        for name in names:
            later, home = homes.get(name, (position, file))
            if later > position and home != file:
                early.add(f"{file}: {name} of {home}")
    assert sorted(early) == []


def test_snakemake_finds_no_fault_in_a_file_of_rules():
    """`snakemake --lint` reads those only that a configuration includes."""
    texts = [path.read_text() for path in sorted((WORKFLOW / "rules").glob("*.smk"))]
    lints = list(SnakefileLinter(None, texts).lints())
    faults = [str(fault) for text in texts for lint in lints for fault in lint(text)]
    assert faults == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_parsing_loads_nothing_that_draws_or_computes_or_is_of_another_subject(subject):
    lines = [line for _, text in read_for(subject) for line in IMPORT.findall(text)]
    assert lines
    code = (
        f"import sys; sys.path.append({str(WORKFLOW / 'scripts')!r})\n"
        + "\n".join(lines)
        + "\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    heavy = {"pandas", "pyarrow", "matplotlib", "scipy", "numba", "tensorflow"}
    assert heavy & loaded == set()
    homes = {f"tierscope.{room}" for room in SUBJECT_ROOMS.values()}
    assert homes & loaded == {f"tierscope.{SUBJECT_ROOMS[subject]}"}


@pytest.mark.parametrize(
    ("module", "also"),
    [("benchmark.launch", {"tierscope.core.columns"}), ("logs.worker", set())],
)
def test_what_many_processes_import_is_small(module, also):
    """Each rank of a launch imports the first, each reader of logs the second."""
    code = (
        "import sys; before = set(sys.modules)\n"  # coverage imports some
        f"import tierscope.{module}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(WORKFLOW / "scripts")},
        capture_output=True,
        text=True,
        check=True,
    )
    large = {"pandas", "scipy", "matplotlib", "jsonschema", "yaml", "multiprocessing"}
    assert (large | also) & set(done.stdout.split()) == set()


def test_code_needs_neither_docstrings_nor_assertions():
    """Python drops them with PYTHONOPTIMIZE=2."""
    needed = re.compile(r"__doc__|^\s*assert\b", re.MULTILINE)
    sources = [
        *WORKFLOW.glob("scripts/**/*.py"),
        *WORKFLOW.glob("plugins/*/src/**/*.py"),
    ]
    assert [file for file in sources if needed.search(file.read_text())] == []


def test_no_tuple_is_unpacked_only_to_be_formatted_otherwise():
    """The formatter decides on lines: `*("a", "b")` is no more than its two words."""
    unpacked = re.compile(r"\*\(\s*\S")
    found = [
        f"{path}:{node.lineno}"
        for folder in (WORKFLOW, WORKFLOW.parent / "tests")
        for path in folder.rglob("*.py")
        if unpacked.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple)
    ]
    assert found == []


def test_code_hides_no_module_from_others():
    hidden = re.compile(r"sys\.modules\[.*\] = ")
    sources = {*WORKFLOW.glob("scripts/**/*.py")}
    # A program's own module of this name runs in its place.
    sources -= {*WORKFLOW.glob("scripts/**/hook/sitecustomize.py")}
    assert [file for file in sources if hidden.search(file.read_text())] == []


FIGURES = [one for subject in SUBJECTS for one in declared_figures(subject)]


@pytest.mark.parametrize("one", FIGURES, ids=[one.name for one in FIGURES])
def test_a_figure_has_one_name_and_what_it_declares(one):
    """Rule and function plot_X, module X, caption X."""
    functions = set(re.findall(r"^def (\w+)\(", one.path.read_text(), re.MULTILINE))
    assert {"draw", f"plot_{one.name}"} <= functions
    assert "describe" in functions or not one.has_text
    assert (WORKFLOW / "report" / f"{one.name}.rst").is_file()
    assert set(one.tables) <= TABLES.keys()


def test_all_figures_are_declared():
    assert len({one.file for one in FIGURES}) == len(FIGURES) >= 15
    assert len({one.name for one in FIGURES}) == len(FIGURES)
    drawing = {
        path
        for path in (PACKAGE / "figures").rglob("*.py")
        if "\ndef draw(" in path.read_text()
    }
    assert {one.path for one in FIGURES} == drawing
    targets = [one.target for one in FIGURES if one.target]
    assert len(set(targets)) == len(targets)


def test_who_imports_the_workflow_can_call_each_handler():
    for name in SUBJECTS:
        lines = (WORKFLOW / "rules" / f"{name}.smk").read_text().splitlines()
        handlers = [line for line in lines if re.fullmatch(r"on\w+:", line)]
        assert sorted(handlers) == ["onerror:", "onstart:", "onsuccess:"]
