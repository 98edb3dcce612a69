"""The command ``tierscope`` of the installed package: it lists the tables."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from tierscope.core.columns import TABLES, allowed_values

_ABOUT = """\
tierscope measures how a hierarchical storage system serves distributed training, breaks
the I/O time of the slowest process down, and says which improvements meet a goal.

The experiments are a Snakemake workflow: clone the project and type `make run`, or
import workflow/Snakefile as a module of your own Snakefile. This is its library:

    from tierscope.core.tables import read_table
    from tierscope.analysis.breakdown import break_down

    breakdown = break_down(read_table("io_time.parquet", "io_time"))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="tierscope",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("tables", help="list the tables and how many columns each has")
    one = commands.add_parser("table", help="list the columns of a table")
    one.add_argument("name", choices=TABLES, metavar="NAME")
    asked = parser.parse_args(arguments)
    if asked.command == "tables":
        print("\n".join(f"{name:22} {len(TABLES[name]):3}" for name in TABLES))
    elif asked.command == "table":
        print("\n".join(map("  ".join, column_rows(asked.name))))
    else:
        parser.print_help(sys.stdout)
    return 0


def column_rows(table: str) -> list[tuple[str, str, str]]:
    """Return name, type and allowed values of the columns of a table."""
    width = max(map(len, TABLES[table]))
    return [
        (f"{column:{width}}", f"{kind:7}", ", ".join(allowed_values(table, column)))
        for column, kind in TABLES[table].items()
    ]


def _version() -> str:
    """Return the version of the installed package, if it is installed."""
    try:
        return f"tierscope {version('tierscope')}"
    except PackageNotFoundError:
        return "tierscope, not installed"


if __name__ == "__main__":
    sys.exit(main())
