"""Which of our modules a script imports, so that rules need no lists of them."""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# It begins with a literal, which is found fast; the text before it is checked later.
_IMPORT = re.compile(
    r"(?P<module>tierscope[\w.]*)(?: import (?P<names>\([^)]*\)|[^(\n]+))?"
)
_COMMENT = re.compile(r"#.*")
_ALIAS = re.compile(r"\s+as\s+\w+")


def imported_modules(script: Path, root: Path | None = None) -> list[Path]:
    """Return the project files that a script imports, directly or not.

    Imports inside functions count, and so do modules that are run by ``python -m``.
    Files are read as text, not as Python, because Snakemake asks for all of them at
    each start.

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


@cache
def _imports_of(path: str, root: str) -> frozenset[str]:
    """Return the files that a file imports directly."""
    return frozenset(
        file
        for name in _imported_names(Path(path).read_text("utf-8"))
        for file in _files_of(name, root)
    )


def _imported_names(text: str) -> Iterator[str]:
    """Yield the imports of a file: modules, and names that may be modules."""
    for match in _IMPORT.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()].strip()
        if before == "import" or before.endswith('"-m", "'):
            yield match["module"]
        elif before == "from" and match["names"]:
            names = _COMMENT.sub("", match["names"].strip("()"))
            for name in filter(str.strip, names.split(",")):
                yield f"{match['module']}.{_ALIAS.sub('', name).strip()}"


@cache
def _files_of(name: str, root: str) -> tuple[str, ...]:
    """Return the file of a module, or of the module of a name, and of its packages."""
    path, files = root, []
    for part in name.split("."):
        path = f"{path}/{part}"
        if os.path.isfile(f"{path}.py"):
            return (*files, f"{path}.py")
        if not os.path.isfile(f"{path}/__init__.py"):
            break
        files.append(f"{path}/__init__.py")
    return tuple(files)
