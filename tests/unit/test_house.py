"""The laws of the package: rooms of few modules, imports that go down, no circles.

And what is said is said by one function, which no broken stream disturbs. No text is in
the encoding of the locale, and no sum of floats depends on the version of Python.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tierscope.core.validation import read_yaml

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workflow" / "scripts" / "tierscope"
SCHEMAS = ROOT / "workflow" / "schemas"
# The one arrow that goes up: `core.validation` looks up classes that schemas name, once
# a schema is read. No rank reads one.
KEYS_OF = {"claims", "core", "experiment", "logs", "storage"}
MOST_MODULES = 15  # of one room, its sub-rooms apart
_GROUND = {"core", "data"}
_STORAGE = {*_GROUND, "policies", "storage"}
# Which rooms a room may import from, besides itself.
FLOORS = {
    "core": set(),
    "data": {"core"},
    "policies": _GROUND,
    "storage": _GROUND,
    "trace": _STORAGE,
    "experiment": _STORAGE,
    "benchmark": {*_STORAGE, "trace", "logs"},
    "analysis": {*_GROUND, "policies"},
    "logs": {"core", "storage", "trace", "analysis"},
    "command": {"core", "experiment", "logs"},
    "audit": {*_STORAGE, "trace", "analysis", "logs"},
    "model": {*_STORAGE, "trace", "analysis", "audit"},
    "claims": {"core", "analysis"},
    "figures": {"core", "analysis", "claims"},
    "pages": {"core", "analysis", "claims", "figures"},
}


def module_name(path):
    """Return the dotted name of a module or package, without the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE
}


def imports(name):
    """Return the modules that a module imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            if not node.module.startswith("tierscope"):
                continue
            of = node.module.removeprefix("tierscope").lstrip(".")
            inner = {f"{of}.{alias.name}".lstrip(".") for alias in node.names}
            found |= (inner & MODULES.keys()) or {of}
        elif isinstance(node, ast.Import):
            names = (alias.name.removeprefix("tierscope.") for alias in node.names)
            found |= set(names) & MODULES.keys()
    return found - {name}


def test_every_module_is_in_a_room_that_the_floors_know():
    assert sorted(path.name for path in PACKAGE.glob("*.py")) == [
        "__init__.py",
        "__main__.py",
    ]
    assert {name.partition(".")[0] for name in MODULES} == FLOORS.keys()


def test_imports_go_down_the_floors_only():
    against = [
        f"{name} imports {other}"
        for name in MODULES
        for other in imports(name)
        if (room := name.partition(".")[0]) != (below := other.partition(".")[0])
        and below not in FLOORS[room]
    ]
    assert against == []


def named_by_schemas():
    """Return the classes of which schemas take the keys."""
    parts, named = [read_yaml(path) for path in SCHEMAS.glob("*.yaml")], []
    for part in parts:  # grows
        if isinstance(part, dict):
            named += part.get("keys_of", [])
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return named


def test_schemas_name_classes_of_few_rooms():
    modules = [
        one.rpartition(".")[0].removeprefix("tierscope.") for one in named_by_schemas()
    ]
    assert set(modules) <= MODULES.keys()
    assert {name.partition(".")[0] for name in modules} == KEYS_OF


def test_no_modules_import_each_other_in_a_circle():
    left = {name: imports(name) for name in MODULES}
    while ends := {name for name in left if not left[name] & left.keys()}:
        for name in ends:
            del left[name]
    assert sorted(left) == []  # those of a circle, and what rests on them


def test_no_room_is_crowded():
    rooms = Counter(
        path.parent for path in MODULES.values() if path.name != "__init__.py"
    )
    crowded = {room.name: n for room, n in rooms.items() if n > MOST_MODULES}
    assert crowded == {}


def packages_imported():
    """Return the packages of others that modules import, and where."""
    found = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found[node.module.partition(".")[0]] = name
            elif isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0]: name for one in node.names}
    ours = {"tierscope", "epoch_hook", *sys.stdlib_module_names}
    return {package: found[package] for package in found.keys() - ours}


def test_package_imports_what_it_depends_on():
    """Not what only tests depend on; torch is the user's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {one.partition("==")[0] for one in project["project"]["dependencies"]}
    wanted |= {"torch"}
    made_by = {
        package: {one.lower().replace("_", "-") for one in distributions}
        for package, distributions in packages_distributions().items()
    }
    others = [
        f"{where} imports {package}"
        for package, where in packages_imported().items()
        if not wanted & made_by.get(package, {package})
    ]
    assert others == []


# ---- Words

SCRIPTS = PACKAGE.parent
SPEAKERS = {
    "tierscope/core/output/streams.py",  # the functions that say all
    # A user's Python has no tierscope. What it cannot write is lost, too.
    "tierscope/benchmark/programs/hook/sitecustomize.py",
    "tierscope/trace/darshan_probe.py",  # neither has that of a probe, which we read
    "launch.py",  # ends with the status of a signal; it has a log
}
# Their standard output is a pipe to a process of ours.
ANSWERERS = {
    "tierscope/logs/worker.py",
    "tierscope/benchmark/programs/copier.py",
    "tierscope/storage/packages.py",
}
_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
_SPOKEN = {"traceback": {"print_exc", "print_exception", "print_stack", "print_tb"}}
_SPOKEN |= {"warnings": {"warn"}, "faulthandler": {"enable", "dump_traceback"}}
_SPOKEN |= {"logging": {"warning", "error", "exception", "basicConfig"}}


def speeches(tree, prints):
    """Yield the lines at which a module speaks by itself; `prints`: it may print.

    What sends a stream elsewhere, as to the log of a rule, does not speak.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_used = isinstance(node.ctx, ast.Load)
            if node.value.id == "sys" and node.attr in _STREAMS and is_used:
                yield node.lineno
            if node.attr in _SPOKEN.get(node.value.id, ()):
                yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        is_text = isinstance(first, ast.JoinedStr) or (
            isinstance(first, ast.Constant) and isinstance(first.value, str)
        )
        is_text |= isinstance(first, ast.Call) and ast.unparse(first.func) == "str"
        if name in ("sys.exit", "SystemExit") and is_text:
            yield node.lineno
        has_stream = any(one.arg == "file" for one in node.keywords)
        if name == "print" and (has_stream or not prints):
            yield node.lineno
        if name == "os.write" and isinstance(first, ast.Constant):
            yield node.lineno


@pytest.mark.parametrize(
    ("code", "is_speech"),
    [
        ("print('x', file=sys.stderr)", True),
        ("sys.stderr.write('x')", True),
        ("traceback.print_exc()", True),
        ("sys.exit(f'{error}')", True),
        ("raise SystemExit('x')", True),
        ("os.write(2, b'x')", True),
        ("warnings.warn('x')", True),
        ("sys.exit(1)", False),
        ("sys.stdout = sys.stderr = open(path, 'w')", False),
        ("sys.stdout = sys.stderr", True),
        ("print('of a log')", False),
        ("say('x')", False),
    ],
)
def test_what_speaks_past_the_one_function_is_found(code, is_speech):
    assert bool(list(speeches(ast.parse(code), prints=True))) == is_speech


def test_words_are_said_by_one_function():
    """A script prints to the log of its rule; the package prints nothing."""
    found = []
    for path in sorted(SCRIPTS.rglob("*.py")):
        name = path.relative_to(SCRIPTS).as_posix()
        prints = not name.startswith("tierscope/")
        if name in SPEAKERS | ANSWERERS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{name}:{line}" for line in speeches(tree, prints)]
    assert found == []


# ---- Encodings


def texts_of_the_locale(tree):
    """Yield the lines at which a module reads or writes text in the locale's encoding.

    JSON of ours is ASCII.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    json = {id(one) for node in calls for one in node.args if _name(node) == "loads"}
    for node in calls:
        words = {one.arg: one.value for one in node.keywords}
        if "encoding" in words or id(node) in json:
            continue
        is_text = isinstance(words.get("text"), ast.Constant)
        is_text |= "universal_newlines" in words
        is_text |= _name(node) == "read_text" and not node.args
        is_text |= _name(node) == "write_text" and _is_of_path(node)
        is_text |= _name(node) == "open" and _opens_text(node, words)
        if is_text:
            yield node.lineno


def _name(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _is_of_path(call):
    """Return whether it is the method of a path, and not our function."""
    return isinstance(call.func, ast.Attribute) and len(call.args) == 1


def _opens_text(call, words):
    """Return whether `open` or a path's method opens a file for text."""
    is_method = isinstance(call.func, ast.Attribute)
    if is_method and ast.unparse(call.func.value) in ("os", "lmdb", "files", "self"):
        return False
    place = 0 if is_method else 1
    mode = words.get("mode", call.args[place] if len(call.args) > place else None)
    return mode is None or (isinstance(mode, ast.Constant) and "b" not in mode.value)


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("path.read_text()", True),
        ("path.write_text(text)", True),
        ("open(path)", True),
        ("open(path, 'a')", True),
        ("path.open()", True),
        ("subprocess.run(command, text=True)", True),
        ("path.read_text('utf-8')", False),
        ("open(path, 'rb')", False),
        ("os.open(path, 0)", False),
        ("json.loads(path.read_text())", False),
        ("write_text(path, text)", False),
    ],
)
def test_text_in_the_encoding_of_the_locale_is_found(code, is_found):
    assert bool(list(texts_of_the_locale(ast.parse(code)))) == is_found


def test_no_text_is_in_the_encoding_of_the_locale():
    workflow = SCRIPTS.parent
    paths = [*SCRIPTS.rglob("*.py"), *workflow.glob("plugins/*/src/**/*.py")]
    found = [
        f"{path.relative_to(workflow)}:{line}"
        for path in sorted(paths)
        for line in texts_of_the_locale(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


# ---- Sums

_WHOLE = re.compile(
    r"_?(n_\w+(?<!_s)|is_\w+|(\w+_)?(bytes|sizes?|ns)|len|int|bool|count)"
)


def sums_of_floats(tree):
    """Yield the lines at which `sum` may add floats, unless it plainly does not.

    From Python 3.12 on it compensates, so they are for `math.fsum` and numpy.
    """
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    given = {id(one.func): [*one.args, *one.keywords] for one in calls}
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id != "sum":
            continue
        if not all(map(is_whole, given.get(id(node), [node]))):
            yield node.lineno


def is_whole(node):
    """Return whether form and names of an expression say whole numbers, or a bool."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.BinOp(op=ast.LShift()):
            return True
        case ast.BinOp(op=ast.Div() | ast.Pow()):
            return False
        case ast.BinOp(left=one, right=other) | ast.BoolOp(values=[one, other]):
            return is_whole(one) and is_whole(other)
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return is_whole(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist")):
            return is_whole(inner)
        case ast.Call(func=ast.Name("map") | ast.Attribute(attr="map"), args=args):
            return is_whole(args[0])
        case ast.Call(func=inner):
            return is_whole(inner)
        case ast.Subscript(value=holder, slice=key):
            return is_whole(key if isinstance(key, ast.Constant) else holder)
        case ast.Name(name) | ast.Attribute(attr=name) | ast.Constant(str(name)):
            return _WHOLE.fullmatch(name) is not None
        case ast.Constant(value):
            return isinstance(value, int)
    return False


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("sum(times_s)", True),
        ("sum(numbers)", True),
        ("sum(one for one in rows)", True),
        ("sum(n / 2 for n in rows)", True),
        ("sum(n_files * time_s for time_s in rows)", True),
        ("sum(n_bytes_per_s)", True),
        ("sum(row['time_s'] for row in sizes)", True),
        ("sum(n_files, 0.0)", True),
        ("sum((one.n_bytes for one in rows), start=0.5)", True),
        ("sorted(rows, key=sum)", True),
        ("add_up = sum", True),
        ("math.fsum(times_s)", False),
        ("times_s.sum()", False),
        ("sum(one.n_bytes for one in rows)", False),
        ("sum(row['size_bytes'] or 0 for row in rows)", False),
        ("sum(n_files * file_size_bytes + 1 for n_files in rows)", False),
        ("sum(map(len, rows))", False),
        ("sum(one is None for one in rows)", False),
        ("sum(int(one) for one in rows)", False),
    ],
)
def test_sum_of_what_is_not_plainly_whole_is_found(code, is_found):
    assert bool(list(sums_of_floats(ast.parse(code)))) == is_found


def test_no_sum_of_floats_depends_on_the_version_of_python():
    """Rules add up nothing: they are no Python that can be parsed."""
    workflow = SCRIPTS.parent
    found = [
        f"{path.relative_to(workflow)}:{line}"
        for path in [*SCRIPTS.rglob("*.py"), *workflow.glob("plugins/*/src/**/*.py")]
        for line in sums_of_floats(ast.parse(path.read_text(encoding="utf-8")))
    ]
    rules = [workflow / "Snakefile", *workflow.glob("rules/*.smk")]
    found += [
        one.name
        for one in rules
        if re.search(r"(?<!\.)\bsum[(,)]", one.read_text("utf-8"))
    ]
    assert found == []
