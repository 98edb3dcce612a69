"""Kinds of runs: the source of the samples determines the tables of a run.

Benchmark, audit and simulator each have a registry by these kinds
(`tierscope.benchmark.sources.SOURCES`, `tierscope.audit.run.CHECKS`,
`tierscope.model.simulator.runs.SIMULATIONS`).
"""

from dataclasses import dataclass, replace

from tierscope.core.io_class import ALL_CLASSES, IOClass, NetClass


@dataclass(frozen=True)
class RunKind:
    """A kind of run.

    Parameters
    ----------
    name : str
        Name of the kind.
    tables : tuple of str
        Tables in a run's folder, in addition to those of every run.
    sums : tuple of str
        Tables of their sums, for all runs of a sweep.
    classes : tuple of IOClass or NetClass
        I/O classes of the processes.
    moves_files : bool
        Whether files are copied from the GFS to an LFS during a launch, so that the log
        has records of copies.
    why_no_simulated_log : str, optional
        Why the log of a simulated run cannot be written, with the scenario's keys in
        braces.
    log : str
        The log in the run's folder, or the folder of its logs.
    audited : tuple of str
        Sums that the audit makes itself, as the logs of a run are many.
    observed : tuple of str
        Tables of a sweep that say what was seen of its runs, besides their times.
    manifest : str
        Suffix of the manifest of what is read, which is made for this kind.
    """

    name: str
    tables: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    classes: tuple[IOClass | NetClass, ...] = tuple(IOClass)
    moves_files: bool = False
    why_no_simulated_log: str | None = None
    log: str = "log.darshan"
    audited: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    manifest: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files that a launch leaves of a run, in their order."""
        tables = (f"{name}.parquet" for name in ("epochs", *self.tables))
        return (self.log, *tables, "run.json")


_NO_LOG = "simulated runs have no log, and so no audit, if"
_FILES_MOVE = (
    f"policy {{policy}}: {_NO_LOG} files move while they run or are read from other "
    "nodes"
)
_OF_PROGRAMS = ("other_io", "other_time", "statements")

# Each file is on its tier before the first epoch, the same for every node.
FILES = RunKind("files")
# A policy decides each read; each node fills its own LFS.
PLACED = RunKind(
    "placed",
    tables=("decisions",),
    sums=("background",),
    moves_files=True,
    why_no_simulated_log=_FILES_MOVE,
)
# Files are staged in before the first epoch; nodes read from each other.
PEERS = RunKind(
    "peers",
    tables=("peer_reads",),
    sums=("stage_in", "peers"),
    classes=ALL_CLASSES,
    moves_files=True,
    why_no_simulated_log=_FILES_MOVE,
)
# The samples are records of one LMDB file.
DATABASE = RunKind(
    "database",
    tables=("read_calls", "record_reads", "faults"),
    why_no_simulated_log=(
        f"loader {{loader}}: {_NO_LOG} samples are records of a database"
    ),
    manifest="-lmdb",
)
# A program of the user reads files that lie on their tiers before it starts. Each of
# its processes has a log.
PROGRAM = RunKind(
    "program",
    tables=("opens", "marks", "program_processes"),
    sums=_OF_PROGRAMS,
    log="logs",
    audited=_OF_PROGRAMS,
    observed=("statements",),
    manifest="-files",
)
# The same, but a policy decides each read and fills the LFS of each node.
PLACED_PROGRAM = replace(
    PROGRAM,
    name="placed program",
    tables=(*PROGRAM.tables, "decisions"),
    sums=(*_OF_PROGRAMS, "background"),
    audited=(*_OF_PROGRAMS, "background"),
    moves_files=True,
)
KINDS = (FILES, PLACED, PEERS, DATABASE, PROGRAM, PLACED_PROGRAM)
