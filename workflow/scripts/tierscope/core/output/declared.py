"""What a figure declares, of which its rule is made.

Rules are made while Snakemake parses, and a module that draws imports what this does
not need. So its constant `FIGURE` is read from its text, and holds literals only.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.core.io_class import IOClass

_NAME = "FIGURE"
_PAIR = "{pair}"
_SUBJECTS = ("experiment", "logs", "designs")
_REPORTS = ("always", "ideal", "policies", "loaders", "nodes", "on request")
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The constant `FIGURE` of a module that draws one.

    Parameters
    ----------
    file : str
        Name of its files; with ``{pair}`` there is one for each pair of classes.
    title : str
        What the reports call it; ``{pair}`` are the classes in words.
    folder : str, optional
        Folder of its tables in the results; by default that of the main sweep.
    tables : tuple of str, optional
        Tables of that folder that it is drawn from.
    inputs : tuple of str, optional
        Other files, which the rules know by these names; some experiments lack them.
    settings : tuple of str, optional
        What it depends on besides, which the rules know by these names.
    in_report : str, optional
        When all figures and the report have it: always, on request, or if there are
        ideal runs, or policies, loaders or nodes to compare.
    target : str, optional
        A short name by which users ask for it.
    has_text : bool, optional
        Whether a file has what its module says in words, by a function `describe`;
        otherwise its log only.
    caption_of_program : str, optional
        Its caption where it shows a program of the user; by default that of others.
    source : str, optional
        Source of its numbers; by default that of the experiment.
    of : str, optional
        What its numbers are about: an experiment, logs or designs.
    """

    file: str
    title: str
    folder: str = ""
    tables: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    in_report: str = "always"
    target: str = ""
    has_text: bool = False
    caption_of_program: str = ""
    source: str = ""
    of: str = "experiment"
    path: Path = Path()  # of the module

    def __post_init__(self) -> None:
        """Refuse words by which nobody would find the figure.

        Raises
        ------
        ValueError
            With the module, the word and those that are known.
        """
        self._refuse("of", [self.of], _SUBJECTS)
        self._refuse("in_report", [self.in_report], _REPORTS)

    def _refuse(self, key: str, got: Iterable[str], known: Iterable[str]) -> None:
        for word in sorted({*got} - {*known}):
            words = f"got {word!r}, expected one of {', '.join(known)}"
            raise ValueError(f"{self.path}: FIGURE: {key}: {words}")

    def named(self, key: str, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return of what is known what the figure names as its inputs or settings.

        Raises
        ------
        ValueError
            With the module, the name and those that are known.
        """
        self._refuse(key, getattr(self, key), known)
        return {name: known[name] for name in getattr(self, key)}

    @property
    def name(self) -> str:
        """Name of the module and of its caption."""
        return self.path.stem

    @property
    def module(self) -> str:
        """The module, as `import` names it."""
        parts = self.path.relative_to(_PACKAGE.parent).with_suffix("").parts
        return ".".join(parts)

    @property
    def rule(self) -> str:
        """Name of its rule."""
        return f"plot_{self.name}"

    @property
    def log(self) -> str:
        """Path of its log, without the suffix."""
        return f"{self.rule}/{_PAIR}" if _PAIR in self.file else self.rule

    def titles(self, pairs: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the title of each of its files, by the file's name.

        `pairs` are pairs of classes by their names.
        """
        if _PAIR not in self.file:
            return {self.file: self.title}
        labels = {
            name: " and ".join(IOClass(one).label for one in pair)
            for name, pair in pairs.items()
        }
        return {
            self.file.format(pair=name): self.title.format(pair=words)
            for name, words in labels.items()
        }


class PlainFigures:
    """Figures that are drawn from the same, whatever they declare besides tables.

    Parameters
    ----------
    table : callable of str
        Returns the file of a table, or the function that names it.
    inputs, settings : mapping
        Further inputs and parameters that they may declare, and `provenance`.
    """

    def __init__(
        self,
        table: Callable[[str], Any],
        settings: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        self._table, self._settings, self._inputs = table, settings, inputs or {}

    def inputs(self, one: Declared) -> dict[str, Any]:
        """Return the inputs of a figure, by their names."""
        tables = {name: self._table(name) for name in one.tables}
        return tables | one.named("inputs", self._inputs)

    def settings(self, one: Declared) -> dict[str, Any]:
        """Return the parameters of a figure, by their names."""
        provenance = {"provenance": self._settings["provenance"]}
        return provenance | one.named("settings", self._settings)

    def titles(self, one: Declared) -> dict[str, str]:
        """Return the titles of a figure's files."""
        return one.titles({})

    def caption(self, one: Declared) -> str:
        """Return the name of a figure's caption."""
        return one.name


def declared_figures(of: str, folder: Path = _PACKAGE / "figures") -> list[Declared]:
    """Return what modules in and below a folder declare of a subject, by file name."""
    found = [
        _declared(path, text)
        for path in folder.rglob("*.py")
        if f"\n{_NAME} = " in (text := path.read_text("utf-8"))
    ]
    return sorted((one for one in found if one.of == of), key=lambda one: one.file)


def _declared(path: Path, text: str) -> Declared:
    (call,) = (
        one.value
        for one in ast.parse(text).body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == _NAME
    )
    given = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    return Declared(**given, path=path)
