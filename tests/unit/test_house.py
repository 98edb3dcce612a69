"""The laws of the package: rooms of few modules, imports that go down, no circles."""

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "workflow" / "scripts" / "tierscope"
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
    "logs": {"core", "storage", "trace", "analysis", "experiment"},
    "audit": {*_STORAGE, "trace", "analysis", "logs"},
    "model": {*_STORAGE, "trace", "analysis", "audit"},
    "claims": {"core", "analysis"},
    "figures": {"core", "analysis"},
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
    assert [path.name for path in PACKAGE.glob("*.py")] == ["__init__.py"]
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
