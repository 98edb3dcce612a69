"""What all rules need: the checked configuration, code, folders, kinds of outputs."""

import inspect
import mimetypes
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import update_config

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
os.environ.pop("PYTHONOPTIMIZE", None)  # altair needs docstrings

import tierscope

if Path(tierscope.__path__[0]).resolve() != SCRIPTS / "tierscope":
    raise WorkflowError(
        f"{tierscope.__path__[0]}: this package was imported before "
        f"{WORKFLOW / 'Snakefile'}, expected {SCRIPTS / 'tierscope'}; remove its import."
    )

from tierscope.core.given.command_line import with_kinds
from tierscope.core.imports import imported_modules
from tierscope.core.scenario import MAIN_SWEEP
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.accelerators.settings import is_of_accelerators, read_study
from tierscope.experiment.config import (
    changes,
    defaults_of_programs,
    read_experiment,
    with_own_datasets,
)
from tierscope.experiment.snakemake_internals import (
    InterfaceError,
    ScriptInterpreter,
    SnakemakeInternals,
    place_results,
    refuse_clone,
    refuse_prepared,
    refuse_prefix,
    try_to,
)
from tierscope.experiment.start import StartError
from tierscope.figures.declared import Declared, declared_figures
from tierscope.logs.settings import is_of_logs, read_settings
from tierscope.storage.own_folder import close_umask

# Snakemake asks for this type when it puts a table into its report.
mimetypes.add_type("application/vnd.apache.parquet", ".parquet")

# Systems and datasets of the current folder take precedence over the workflow's.
RESOURCES = [Path("resources"), WORKFLOW.parent / "resources"]

sys.executable = ScriptInterpreter(sys.executable)

OF_LOGS = is_of_logs(config)
OF_ACCELERATORS = not OF_LOGS and is_of_accelerators(config)
ANALYSIS = STUDY = EXPERIMENT = None

SNAKEMAKE = SnakemakeInternals(workflow)
close_umask()
try:
    refuse_clone(WORKFLOW.parent)
    refuse_prepared(Path.cwd())
    IS_REMOTE_JOB = SNAKEMAKE.is_remote_job()
    IS_JOB = SNAKEMAKE.is_job()
    # Snakemake has read them as well, but takes the last of two equal keys.
    found = try_to(SNAKEMAKE.configuration_files, logger.warning, [])
    contents = [read_yaml(path) for path in found if path.is_file()]
    defaults = read_yaml(WORKFLOW.parent / "config" / "config.yaml")
    given = try_to(SNAKEMAKE.command_line, logger.warning, ([], {}))
    if OF_LOGS:
        config.update(with_kinds(config, *given, "logs"))
        ANALYSIS, DECLARED = read_settings(config, defaults), declared_figures("logs")
    elif OF_ACCELERATORS:
        config.update(with_kinds(config, *given, "accelerators"))
        STUDY = read_study(config, defaults, *RESOURCES)
        DECLARED = declared_figures("accelerators")
    else:
        # A workflow that imports this one gives only changes to the default configuration.
        own = [*changes(contents, defaults, config), given[1]]
        update_config(defaults, config)
        for further in (defaults_of_programs(own), *own):
            update_config(defaults, further)
        defaults = with_own_datasets(defaults, own)
        config.update(with_kinds(defaults, *given, "config"))
        EXPERIMENT = read_experiment(config, *RESOURCES)
        DECLARED = declared_figures("experiment")
    NAME = config["experiment"]
    RESULTS = try_to(
        lambda: place_results(SNAKEMAKE, NAME), logger.warning, f"results/{NAME}"
    )
    if not IS_JOB:
        try_to(lambda: refuse_prefix(SNAKEMAKE, RESULTS), logger.warning)
except (ConfigError, InterfaceError) as error:
    raise WorkflowError(str(error))

HERE = f"{Path.cwd()}/"  # at the start
LOGS = f"{RESULTS}/logs"
TABLES = f"{RESULTS}/{MAIN_SWEEP}"
SOURCE = "measured" if OF_LOGS else "simulated"
KINDS = ("svg", "png", "pdf")  # of files of figures
PAIRS = {}  # of classes, by their names
CAPTIONS = {}  # other ones than of the name of a figure or a page
if EXPERIMENT:
    SOURCE = EXPERIMENT.source
    PAIRS = {"_".join(pair): pair for pair in config["figures"]["pairs"]}
    if EXPERIMENT.runs_program:
        CAPTIONS["policies"] = "policies_of_program"


def refuse_or(step, *arguments):
    """Do a step of the start, or refuse to start with its line."""
    try:
        step(*arguments)
    except StartError as error:
        raise WorkflowError(str(error))


def from_here(path):
    """Return a path relative to the current folder, absolute if it is outside."""
    return str(path).removeprefix(HERE)


def library(script):
    """Return a rule's script and its modules: editing one reruns the rule."""
    return code(SCRIPTS / f"{script}.py")


def code(path):
    """Return a script or a module of ours with all modules that it imports."""
    return [from_here(file) for file in (path, *imported_modules(path, SCRIPTS))]


def templates(name):
    """Return what a page is rendered from: editing one reruns its rule."""
    files = ("page.html.j2", "parts.html.j2", "page.css", "scorecard.css", "search.js")
    return [from_here(WORKFLOW / "templates" / f) for f in (f"{name}.html.j2", *files)]


def figure_files(*names):
    """Return the files of figures: SVG, PNG and PDF."""
    return [f"{RESULTS}/figures/{name}.{kind}" for name in names for kind in KINDS]


def figure_text(one):
    """Return the file that says in words what a declared figure shows, if there is one."""
    path = Path(RESULTS, one.folder, "summary.txt")
    return {"text": str(path)} if one.has_text else {}


def figure(one):
    """Return the files of a declared figure; its SVG is marked for Snakemake's report."""
    files = dict(zip(KINDS, figure_files(one.file)))
    files["svg"] = report(
        files["svg"],
        caption=f"../report/{CAPTIONS.get(one.name, one.name)}.rst",
        category="Figures",
        labels=lambda wildcards: {
            "figure": one.titles(PAIRS)[one.file.format(**wildcards)],
            "source of the numbers": one.source or SOURCE,
        },
    )
    return files


def page(name, title):
    """Return a page for readers, marked for Snakemake's report."""
    return report(
        f"{RESULTS}/{name}.html",
        caption=f"../report/{name}.rst",
        category="Pages",
        labels={"page": title, "source of the numbers": SOURCE},
    )


def table(path, title):
    """Return a table that sums up results, marked for Snakemake's report."""
    return report(
        path,
        caption="../report/table.rst",
        category="Tables",
        labels={"table": title, "source of the numbers": SOURCE},
    )


def caption(name):
    """Return the caption of a page or a figure in both reports."""
    return from_here(WORKFLOW / "report" / f"{CAPTIONS.get(name, name)}.rst")


def refuse_target(wildcards):
    """Refuse a name that is not a target, and list the targets."""
    if wildcards.target == "analyse":
        raise WorkflowError(
            "analyse: got no logs, expected a configuration that names them: "
            "--configfile config/logs.yaml."
        )
    if wildcards.target == "accelerators":
        raise WorkflowError(
            "accelerators: got no workloads, expected a configuration that names them: "
            "--configfile config/accelerators.yaml."
        )
    known = try_to(SNAKEMAKE.target_rules, logger.warning, ["(not known)"])
    raise WorkflowError(
        f"{wildcards.target}: is not a target; expected one of {', '.join(known)}, "
        f"or a file in {RESULTS}."
    )
