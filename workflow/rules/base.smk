"""What all rules need: the package, the start, kinds of outputs."""

import inspect
import mimetypes
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# The module that queries Snakemake is found from here, so Python gives the path.
WORKFLOW = Path(inspect.currentframe().f_code.co_filename).resolve().parents[1]
SCRIPTS = WORKFLOW / "scripts"
if not (SCRIPTS / "tierscope").is_dir():
    raise WorkflowError(
        f"{SCRIPTS}: got no folder with the modules of tierscope, expected a clone of "
        "tierscope on this machine; give its workflow/Snakefile."
    )
sys.path.insert(0, str(SCRIPTS))
# For jobs, too: Snakemake puts the folder of a script behind all others.
MODULES = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ.setdefault("TIERSCOPE_PYTHONUTF8", os.environ.get("PYTHONUTF8", ""))
os.environ.update(PYTHONPATH=os.pathsep.join(MODULES), PYTHONUTF8="1")
os.environ.pop("PYTHONOPTIMIZE", None)  # libraries may need docstrings

import tierscope

if Path(tierscope.__path__[0]).resolve() != SCRIPTS / "tierscope":
    raise WorkflowError(
        f"{tierscope.__path__[0]}: this package was imported before "
        f"{WORKFLOW / 'Snakefile'}, expected {SCRIPTS / 'tierscope'}; remove its import."
    )

from tierscope.core.output.declared import declared_figures
from tierscope.core.processes.calls import watch_calls
from tierscope.core.scenario import MAIN_SWEEP
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.opening import Opening
from tierscope.experiment.snakemake_internals import (
    InterfaceError,
    ScriptInterpreter,
    SnakemakeInternals,
    try_to,
)
from tierscope.experiment.start import StartError, make_torn_again

# Snakemake asks for this type when it puts a table into its report.
mimetypes.add_type("application/vnd.apache.parquet", ".parquet")
sys.executable = ScriptInterpreter(sys.executable)
WATCH = watch_calls()  # names a file system that does not answer
SNAKEMAKE = SnakemakeInternals(workflow)
KINDS = ("svg", "png", "pdf")  # of files of figures


@contextmanager
def one_line():
    """Refuse to start with the line of an error of ours."""
    try:
        yield
    except (ConfigError, InterfaceError, StartError) as error:
        raise WorkflowError(str(error))


def refusing(names, refuse=lambda: None):
    """Return the function of wildcards that names files, or refuses with one line."""

    def asked(wildcards):
        with one_line():
            refuse()
            return names(wildcards) if callable(names) else OPENING.placed(names)

    return asked


with one_line():
    OPENING = Opening(SNAKEMAKE, WORKFLOW, logger.warning)


def figure_files(*names):
    """Return the files of figures: SVG, PNG and PDF."""
    return [f"<experiment>/figures/{name}.{kind}" for name in names for kind in KINDS]


def title_of(file, titles):
    """Return the function of wildcards that titles a figure, by the names of files."""
    return lambda wildcards: titles[file.format(**wildcards)]


def figure(file, titles, caption, source=""):
    """Return the files of a figure; its SVG is marked for Snakemake's report.

    `titles` are those of its files by their names, `caption` is a name in `report`.
    """
    title, source = title_of(file, titles), source or OPENING.source
    svg, *others = figure_files(file)
    svg = report(
        svg,
        caption=f"../report/{caption}.rst",
        category="Figures",
        labels=lambda wildcards: {
            "figure": title(wildcards),
            "source of the numbers": source,
        },
    )
    return dict(zip(KINDS, (svg, *others)))


def figure_text(one):
    """Return the file that says in words what a declared figure shows, if there is one."""
    folder = f"<experiment>/{one.folder}".rstrip("/")
    return {"text": f"{folder}/summary.txt"} if one.has_text else {}


def page(name, title):
    """Return a page for readers, marked for Snakemake's report."""
    return report(
        f"<experiment>/{name}.html",
        caption=f"../report/{name}.rst",
        category="Pages",
        labels={"page": title, "source of the numbers": OPENING.source},
    )


def table(path, title):
    """Return a table that sums up results, marked for Snakemake's report."""
    return report(
        path,
        caption="../report/table.rst",
        category="Tables",
        labels={"table": title, "source of the numbers": OPENING.source},
    )


def caption(name):
    """Return the caption of a page or a figure in both reports."""
    return OPENING.of_workflow(f"report/{name}.rst")


def refuse_target(wildcards):
    """Refuse a name that is not a target, and list the targets."""
    needs = {"analyse": ("logs", "logs"), "designs": ("designs", "designs")}
    if wildcards.target in needs:
        what, file = needs[wildcards.target]
        raise WorkflowError(
            f"{wildcards.target}: got no {what}, expected a configuration that names "
            f"them: --configfile config/{file}.yaml."
        )
    known = try_to(SNAKEMAKE.target_rules, logger.warning, ["(not known)"])
    raise WorkflowError(
        f"{wildcards.target}: is not a target; expected one of {', '.join(known)}, "
        f"or a file in {OPENING.results}."
    )
