"""Which of our modules a script imports, so that rules need no lists of them."""

import ast
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

_FIRST_FUNCTION = "\n\n\n"  # our formatter leaves two empty lines before it


def imported_modules(script: Path, root: Path | None = None) -> list[Path]:
    """Return the project files that a script imports, directly or not.

    Imports inside functions count. A program that is run by ``python -m`` counts where
    its module is imported for its name.

    Parameters
    ----------
    script : Path
        A script, or a module of the package.
    root : Path, optional
        The folder of the package ``tierscope``; by default that of the script.

    Returns
    -------
    list of Path
        Sorted, without the script itself.

    Raises
    ------
    SyntaxError
        If a file is no Python; it names the file and the line.
    """
    first, root = str(script), str(root or script.parent)
    found: set[str] = set()
    new = {first}
    while new:
        found |= new
        new = {file for path in new for file in _imports_of(path, root)} - found
    return list(map(Path, sorted(found - {first})))


def digest_of_modules(script: Path, root: Path | None = None) -> str:
    """Return the SHA-256 of a script and the modules that it imports, as hexadecimal.

    It covers their names, in order and relative to the script's folder, and sources. So
    it is the same wherever a clone lies. `root` is that of `imported_modules`.
    """
    digest, root = hashlib.sha256(), root or script.parent
    for path in (script, *imported_modules(script, root)):
        source = path.read_bytes()
        name = path.relative_to(root).as_posix()
        digest.update(f"{name} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()


def imported_packages(paths: Iterable[Path], root: Path) -> list[str]:
    """Return what scripts, modules and what these import need of others, sorted.

    Modules, and names in modules: ``numpy``, ``scipy.optimize.linprog``. `root` is the
    folder of the scripts.
    """
    files = {
        file
        for one in paths
        for file in (str(one), *map(str, imported_modules(one, root)))
    }
    names = {name for file in files for name in _names_in(file)}
    beside = {path.stem for path in root.glob("*.py")}
    ours = {"tierscope", *beside, *sys.stdlib_module_names}
    return sorted(name for name in names if name.partition(".")[0] not in ours)


@cache
def _imports_of(path: str, root: str) -> frozenset[str]:
    """Return the files that a file imports directly."""
    return frozenset(file for name in _names_in(path) for file in _files_of(name, root))


@cache
def _names_in(path: str) -> frozenset[str]:
    """Return what a file imports: modules, and names that may be modules."""
    return frozenset(_imported_names(_parsed(path).body))


def _parsed(path: str) -> ast.Module:
    """Parse the head only if functions import nothing: a start asks for all files."""
    text = Path(path).read_text("utf-8")
    head, _, functions = text.partition(_FIRST_FUNCTION)
    if "import" not in functions:
        try:
            return ast.parse(head)
        except SyntaxError:  # two empty lines within a text
            pass
    return ast.parse(text, path)


def _imported_names(statements: Sequence[ast.AST]) -> Iterator[str]:
    """Yield what statements import: modules, and names that may be modules."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield from (f"{statement.module}.{one.name}" for one in statement.names)
        for block in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _imported_names(getattr(statement, block, ()))


@cache
def _files_of(name: str, root: str) -> tuple[str, ...]:
    """Return the file of a module, or of the module of a name, and of its packages."""
    if not name.startswith("tierscope"):
        return ()
    path, files = root, []
    for part in name.split("."):
        path = f"{path}/{part}"
        if os.path.isfile(f"{path}.py"):
            return (*files, f"{path}.py")
        if not os.path.isfile(f"{path}/__init__.py"):
            break
        files.append(f"{path}/__init__.py")
    return tuple(files)
