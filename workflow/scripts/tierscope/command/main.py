"""The command ``tierscope``: it sweeps and traces programs, and lists the tables."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tierscope.command.options import OptionParser
from tierscope.core.columns import COLUMNS, TABLES, allowed_values
from tierscope.core.output.streams import answer, hold_closed_streams, say
from tierscope.core.output.version import VERSION
from tierscope.core.processes.calls import watch_calls
from tierscope.core.validation import ConfigError
from tierscope.core.words import error_words
from tierscope.experiment.program_sweep import (
    CACHE_RATES_PERCENT,
    PROGRAM_POLICIES,
    REPETITIONS,
    SweepRequest,
    sweep,
)
from tierscope.logs.traced.command import FAILED, recover, trace

_ABOUT = """\
tierscope measures how a hierarchical storage system serves distributed training, breaks
the I/O time of the slowest process down, and says which improvements meet a goal.

The experiments are a Snakemake workflow: clone the project and type `make run`, or
import workflow/Snakefile as a module of your own Snakefile. This is its library:

    >>> import tierscope
    >>> tables = tierscope.analyse("/darshan-logs/2026/11")
"""


_SWEEP = """\
Run COMMAND with 0 to 100 % of a dataset on a fast local file system (LFS), and the rest
on the file system where the dataset is. The program is not changed. Figures, report and
tables are in results/NAME; a second start measures only what is missing.

    tierscope sweep --dataset /lustre/me/imagenet --lfs /local/me -- \\
        /home/me/env/bin/python train.py --data {dataset}
"""
_TRACE = """\
Run COMMAND, and write a Darshan log of each of its processes that opens, reads, writes
or looks up files. The exit status is that of COMMAND.

    tierscope trace --paths /data -- torchrun --nproc-per-node 2 train.py

If tierscope itself was killed, write the logs of what it has counted until then:

    tierscope trace --recover darshan-logs
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    if arguments is None:
        _take_paths_as_bytes()
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    hold_closed_streams(for_children=given[:1] != ["trace"])
    try:
        asked, unknown = _parser().parse_known_args(given[:end])
        if unknown:
            hint = "" if "--" in given else " (a command stands behind --)"
            asked.refuse(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    except SystemExit as refusal:
        if refusal.code and given[0] == "trace":
            return FAILED  # 2 may be a status of the traced command
        raise
    watch_calls()
    if asked.command == "tables":
        answer("\n".join(f"{name:22} {len(TABLES[name]):3}" for name in TABLES))
    elif asked.command == "table":
        answer("\n".join(column_lines(asked.name)))
    elif asked.command == "trace":
        return _trace(asked, given[end + 1 :])
    elif asked.command == "sweep":
        return _sweep(asked, given[end + 1 :])
    else:
        _parser().print_help()
    return 0


def _take_paths_as_bytes() -> None:
    """Begin anew in UTF-8 mode: in some locales Python loses the bytes of a path."""
    if sys.getfilesystemencoding() == "utf-8":
        return
    words = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
    os.execv(sys.executable, [sys.executable, b"-X", b"utf8", *words])


def _parser() -> argparse.ArgumentParser:
    """Return what reads the arguments up to ``--``."""
    parser = OptionParser(
        prog="tierscope",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tierscope {VERSION}")
    parser.set_defaults(refuse=parser.error)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("tables", help="list the tables and how many columns each has")
    one = commands.add_parser("table", help="list the columns of a table")
    one.add_argument("name", choices=TABLES, metavar="NAME")
    _add_sweep(commands)
    tracing = commands.add_parser(
        "trace",
        help="run any command and leave a Darshan log of each of its processes",
        usage="tierscope trace [--logs DIR] [--paths PATH ...] -- COMMAND ...\n"
        "       tierscope trace --recover DIR",
        description=_TRACE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tracing.set_defaults(refuse=tracing.error)
    tracing.add_argument(
        "--logs",
        "-l",
        metavar="DIR",
        type=Path,
        default=Path("darshan-logs"),
        help="folder of the logs (default: %(default)s)",
    )
    tracing.add_argument(
        "--paths",
        "-p",
        metavar="PATH",
        nargs="+",
        default=[],
        help="trace these files, folders and devices only, also such as do not exist "
        "yet (default: all but the system's)",
    )
    tracing.add_argument(
        "--recover",
        metavar="DIR",
        type=Path,
        help="folder of logs in which a killed call has left its counts",
    )
    return parser


def _add_sweep(commands: argparse._SubParsersAction) -> None:
    """Add the options of ``tierscope sweep``."""
    sweeping = commands.add_parser(
        "sweep",
        help="run a program with parts of its dataset on a local file system",
        usage="tierscope sweep --dataset DIR (--lfs DIR | --system NAME) [OPTIONS] "
        "-- COMMAND ...",
        description=_SWEEP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sweeping.set_defaults(refuse=sweeping.error)
    add = sweeping.add_argument
    add("--dataset", metavar="DIR", type=Path, required=True, help="the dataset")
    add("--lfs", metavar="DIR", type=Path, help="directory of the LFS, on this machine")
    add("--system", metavar="NAME", help="a file of resources/systems, for a cluster")
    add("--profile", metavar="NAME", default="local", help="of Snakemake (local)")
    add("--name", metavar="NAME", help="of the experiment (that of the dataset)")
    add(
        "--rates",
        metavar="PERCENT",
        type=int,
        nargs="+",
        default=list(CACHE_RATES_PERCENT),
        help="percent of the bytes on the LFS (0 25 50 75 100)",
    )
    add("--repetitions", metavar="N", type=int, default=REPETITIONS, help="of each (2)")
    add(
        "--policies",
        metavar="NAME",
        nargs="+",
        default=["pinning"],
        help=f"to compare, of {', '.join(PROGRAM_POLICIES)} (pinning)",
    )
    add(
        "--ideal",
        metavar="DIR",
        type=Path,
        help="a directory in memory, such as /dev/shm: tell what storage costs",
    )
    add(
        "--predict",
        action="store_true",
        help="fit models of the storage to some rates, and predict the others",
    )
    add("--minutes", metavar="N", type=int, default=60, help="most of a run (60)")
    add(
        "--in-place",
        action="store_true",
        help="give the program the real path; then nothing tells of opens that escape",
    )
    add("-n", "--dry-run", action="store_true", help="say what would be measured")


def _sweep(asked: argparse.Namespace, command: Sequence[str]) -> int:
    """Run ``tierscope sweep`` and return the exit status of Snakemake."""
    request = SweepRequest(
        command,
        asked.dataset,
        asked.lfs,
        asked.system,
        asked.name,
        asked.rates,
        asked.repetitions,
        asked.in_place,
        asked.minutes,
        asked.policies,
        asked.ideal,
        asked.predict,
    )
    try:
        return sweep(request, asked.profile, ["-n"] if asked.dry_run else [])
    except (ConfigError, OSError) as error:
        _fail(f"sweep: {error_words(error)}")
        return 1


def _trace(asked: argparse.Namespace, command: Sequence[str]) -> int:
    """Run ``tierscope trace`` and return the exit status of its command."""
    others = [f"--{name}" for name in vars(asked).get("given", {}) if name != "recover"]
    if asked.recover and (others := [*others, *["a command"] * bool(command)]):
        _fail(f"trace: got --recover and {others[0]}, expected one of them.")
        return FAILED
    if not asked.recover and not command:
        _fail("trace: got no command; write it behind --.")
        return FAILED
    try:
        if asked.recover:
            return recover(asked.recover)
        return trace(command, asked.logs, asked.paths)
    except (ConfigError, OSError) as error:
        _fail(f"trace: {error_words(error)}")
        return FAILED


def _fail(reason: str) -> None:
    """Say in one line why the command cannot do what was asked."""
    say(f"tierscope {reason}")


def column_lines(table: str) -> Iterator[str]:
    """Yield two lines for each column: name, type, unit and values; its meaning."""
    width = max(map(len, TABLES[table]))
    for name, column in COLUMNS[table].items():
        values = ", ".join(allowed_values(table, name))
        yield f"{name:{width}}  {column.kind:7}  {column.unit:6}  {values}".rstrip()
        yield f"    {column.meaning}"
