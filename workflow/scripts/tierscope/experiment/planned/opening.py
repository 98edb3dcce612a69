"""What each start of Snakemake does before it reads rules."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tierscope.core.given.command_line import with_kinds
from tierscope.core.imports import imported_modules
from tierscope.core.scenario import MAIN_SWEEP
from tierscope.core.validation import read_yaml
from tierscope.experiment.snakemake_internals import (
    SnakemakeInternals,
    place_results,
    refuse_clone,
    refuse_prefix,
    refuse_prepared,
    try_to,
)
from tierscope.storage.own_folder import close_umask

_OF_PAGES = (
    "page.html.j2",
    "parts.html.j2",
    "page.css",
    "scorecard.css",
    "search.js",
    "svg.js",
)


class Opening:
    """A start of Snakemake, what it was given, and the folders of the workflow.

    Parameters
    ----------
    snakemake : SnakemakeInternals
        The Snakemake that starts.
    workflow : Path
        The folder of the workflow.
    warn : callable of str
        Receives lines for the user.

    Raises
    ------
    ConfigError
        If the clone, or what others may have prepared here, is refused, or a file of
        the configuration is wrong.
    """

    def __init__(
        self,
        snakemake: SnakemakeInternals,
        workflow: Path,
        warn: Callable[[str], Any],
    ) -> None:
        self._snakemake, self._warn = snakemake, warn
        self._workflow, self._here = workflow, f"{Path.cwd()}/"  # at the start
        self.scripts = workflow / "scripts"
        # Systems and datasets of the current folder take precedence.
        self.resources = [Path("resources"), workflow.parent / "resources"]
        close_umask()
        refuse_clone(workflow.parent)
        refuse_prepared(Path.cwd())
        self.is_remote_job, self.is_job = snakemake.is_remote_job(), snakemake.is_job()
        # Snakemake has read them as well, but takes the last of two equal keys.
        found = try_to(snakemake.configuration_files, warn, [])
        self.contents = [read_yaml(path) for path in found if path.is_file()]
        self.given = try_to(snakemake.command_line, warn, ([], {}))
        self.name = self.source = self.results = ""  # until `begin`

    def defaults(self) -> dict[str, Any]:
        """Return the default configuration."""
        return read_yaml(self._workflow.parent / "config" / "config.yaml")

    def as_schema_says(self, config: Mapping[str, Any], schema: str) -> dict[str, Any]:
        """Return a configuration, with what the command line gives as a schema says."""
        return with_kinds(config, *self.given, schema)

    def begin(self, name: str, source: str) -> str:
        """Return the folder of the results of a name, whose numbers have a source."""

        def place() -> str:
            return place_results(self._snakemake, name)

        self.name, self.source = name, source
        self.results = try_to(place, self._warn, f"results/{name}")
        if not self.is_job:
            try_to(lambda: refuse_prefix(self._snakemake, self.results), self._warn)
        return self.results

    @property
    def pathvars(self) -> dict[str, str]:
        """Folders of the results: `<tables>/breakdown.parquet`, `<logs>/x.log`."""
        tables, logs = f"{self.results}/{MAIN_SWEEP}", f"{self.results}/logs"
        return {"experiment": self.results, "tables": tables, "logs": logs}

    def placed(self, names: str | Sequence[str]) -> str | list[str]:
        """Return names of files with folders of the results in them.

        A rule of a workflow that imports this one may ask what ours does, and knows no
        pathvar of ours.
        """
        if not isinstance(names, str):
            return list(map(self.placed, names))
        for name, path in self.pathvars.items():
            names = names.replace(f"<{name}>", path)
        return names

    def from_here(self, path: Path | str) -> str:
        """Return a path relative to the current folder, absolute if it is outside."""
        return str(path).removeprefix(self._here)

    def library(self, script: str) -> list[str]:
        """Return a rule's script and its modules: editing one reruns the rule."""
        return self.code(self.scripts / f"{script}.py")

    def code(self, path: Path) -> list[str]:
        """Return a script or a module of ours with all modules that it imports."""
        files = (path, *imported_modules(path, self.scripts))
        return [self.from_here(file) for file in files]

    def of_workflow(self, path: str) -> str:
        """Return a file of the workflow."""
        return self.from_here(self._workflow / path)

    def of_clone(self, path: str) -> str:
        """Return a file of the clone, outside the workflow."""
        return self.from_here(self._workflow.parent / path)

    def templates(self, name: str) -> list[str]:
        """Return what a page is rendered from: editing one reruns its rule."""
        found = sorted((self._workflow / "templates").glob(f"{name}[._]*"))
        names = dict.fromkeys([*(path.name for path in found), *_OF_PAGES])
        return [self.of_workflow(f"templates/{one}") for one in names]
