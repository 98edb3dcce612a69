"""Requests to PJM: typed resources, the pjsub command line, the job script.

All options go on pjsub's command line, as a list that no shell reads; the script holds
no ``#PJM`` lines, because how pjsub splits and quotes those is not documented. Within
an option, pjsub itself splits at commas, so values are checked, never escaped.

Sources: Fugaku user guide "Use and job execution" (pjsub options, layered storage),
Fugaku programming guide "I/O" (capacity settings).
"""

import math
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MIB_PER_GIB = 1024
MAX_CN_CACHE_MIB = 32768
MAX_NAME_BYTES = 63

# A leading dash would be an option, a comma the next value of -L, --mpi or -x.
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
NODE = re.compile(r"([0-9]+(?:x[0-9]+){0,2})((?::[a-z]+(?:-[a-z]+)*)*)")
VOLUME = re.compile(r"(?:/[A-Za-z0-9_.+-]+)+")


class RefusedError(ValueError):
    """A job that is not submitted because something about it is wrong."""


@dataclass(frozen=True)
class JobFiles:
    """The files of a submitted job; their names begin with the same path."""

    stem: Path

    @property
    def script(self) -> Path:
        """The job script."""
        return self._file("sh")

    @property
    def log(self) -> Path:
        """Standard output and error of the job script."""
        return self._file("log")

    @property
    def statistics(self) -> Path:
        """PJM's job statistics."""
        return self._file("stats")

    @property
    def exit_status(self) -> Path:
        """The exit status of the job's command, written by the script."""
        return self._file("exit")

    def _file(self, suffix: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{suffix}")


@dataclass(frozen=True)
class Request:
    """The checked request of a job to PJM.

    ``node`` is PJM's text, such as ``8x6x16:torus``; ``None`` leaves a value to PJM.
    """

    group: str
    node: str
    resource_group: str | None
    elapse_min: int | None
    n_processes: int | None
    processes_per_node: int | None
    localtmp_mib: int | None
    sharedtmp_mib: int | None
    cn_cache_mib: int | None
    gfscache: tuple[str, ...]
    transfer: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True)
class _Resources:
    """Typed access to the resources of a job; wrong values are refused."""

    job: str
    values: Mapping[str, object]

    def refuse(self, name: str, expected: str) -> RefusedError:
        value = self.values.get(name)
        return RefusedError(f"{self.job}: resource {name}={value!r}: {expected}.")

    def integer(self, name: str, least: int, most: float = math.inf) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value, re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(name, "expected a whole number")
        if not least <= value <= most:
            limit = "" if most == math.inf else f" and at most {most}"
            raise self.refuse(name, f"expected a number of at least {least}{limit}")
        return value

    def word(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not WORD.fullmatch(str(value)):
            raise self.refuse(name, "expected a name of letters, digits and _ . + -")
        return str(value)

    def paths(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if value is None:
            return ()
        paths = value.split(":") if isinstance(value, str) else [*map(str, value)]
        if not all(paths) or any(has_control_characters(path) for path in paths):
            expected = "expected paths, separated by colons, without control characters"
            raise self.refuse(name, expected)
        return tuple(paths)

    def volumes(self, name: str) -> tuple[str, ...]:
        volumes = self.paths(name)
        if not all(VOLUME.fullmatch(volume) for volume in volumes):
            expected = "expected absolute paths, separated by colons (not commas)"
            raise self.refuse(name, f"{expected}, such as /vol0004:/vol0006")
        return volumes

    def options(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if value is None:
            return ()
        try:
            words = shlex.split(value) if isinstance(value, str) else [*map(str, value)]
        except ValueError as error:
            raise self.refuse(name, f"expected pjsub options ({error})") from error
        if any(has_control_characters(text) for text in (*words, str(value))):
            raise self.refuse(name, "expected pjsub options without control characters")
        if words and not words[0].startswith("-"):
            raise self.refuse(name, "expected pjsub options, which begin with a dash")
        return tuple(words)


def has_control_characters(text: str) -> bool:
    """Return whether a text holds a line break or another control character."""
    return any(ord(letter) < 32 or ord(letter) == 127 for letter in text)


def read_request(
    job: str, resources: Mapping[str, object], llio_gib_per_node: float
) -> Request:
    """Read a job's request to PJM from its resources.

    Parameters
    ----------
    job : str
        Name of the job in errors, such as ``rule run_benchmark``.
    resources : mapping of str to object
        Resources of the job by name, including those of other executors.
    llio_gib_per_node : float
        First-layer storage that a node can give to temporary areas, in GiB.

    Raises
    ------
    RefusedError
        If a resource is missing, of the wrong type, out of range, or contradicts
        another; names the job, the resource, its value and what was expected.
    """
    given = _Resources(job, resources)
    if (group := given.word("pjm_group")) is None:
        expected = "expected the project that pays, which PJM needs (pjsub -g)"
        raise given.refuse("pjm_group", expected)
    node, n_nodes = _node(given)
    n_processes = given.integer("tasks", 1)
    per_node = given.integer("tasks_per_node", 1)
    if n_processes is not None:
        if per_node is None:
            per_node = math.ceil(n_processes / n_nodes)
        elif n_processes > n_nodes * per_node:
            expected = f"expected at most {n_nodes} nodes x {per_node} tasks_per_node"
            raise given.refuse("tasks", expected)
    localtmp_mib = given.integer("pjm_localtmp_mib", 0)
    sharedtmp_mib = given.integer("pjm_sharedtmp_mib", 0)
    if (localtmp_mib or 0) + (sharedtmp_mib or 0) > llio_gib_per_node * MIB_PER_GIB:
        name = "pjm_localtmp_mib" if localtmp_mib else "pjm_sharedtmp_mib"
        also = f" with pjm_sharedtmp_mib={sharedtmp_mib}" if localtmp_mib else ""
        limit = f"{llio_gib_per_node * MIB_PER_GIB:g} MiB"
        raise given.refuse(name, f"expected{also} at most {limit} per node together")
    return Request(
        group=group,
        node=node,
        resource_group=given.word("pjm_rscgrp"),
        elapse_min=given.integer("runtime", 1),
        n_processes=n_processes,
        processes_per_node=per_node,
        localtmp_mib=localtmp_mib,
        sharedtmp_mib=sharedtmp_mib,
        cn_cache_mib=given.integer("pjm_cn_cache_mib", 0, MAX_CN_CACHE_MIB),
        gfscache=given.volumes("pjm_gfscache"),
        transfer=given.paths("pjm_transfer"),
        extra=given.options("pjm_extra"),
    )


def _node(given: _Resources) -> tuple[str, int]:
    """Return PJM's node text and its number of nodes."""
    n_nodes = given.integer("nodes", 1)
    if given.values.get("pjm_node") is None:
        return str(n_nodes or 1), n_nodes or 1
    node = str(given.values["pjm_node"])
    if not (match := NODE.fullmatch(node)):
        expected = "expected a number or shape of nodes, such as 8x6x16:torus:strict-io"
        raise given.refuse("pjm_node", expected)
    product = math.prod(int(length) for length in match[1].split("x"))
    if product < 1:
        raise given.refuse("pjm_node", "expected at least one node")
    if n_nodes not in (None, product):
        expected = f"expected the {product} nodes of pjm_node={node!r}"
        raise given.refuse("nodes", expected)
    return node, product


def job_name(text: str) -> str:
    """Return a name that PJM accepts: at most 63 bytes, the first one a letter."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", text)
    return (name if name[:1].isalpha() else f"j{name}")[:MAX_NAME_BYTES]


def elapse(minutes: int) -> str:
    """Return a time limit as PJM writes it, HH:MM:SS."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def pjsub_command(request: Request, name: str, files: JobFiles) -> list[str]:
    """Return the pjsub command line of a job as a list of arguments.

    Parameters
    ----------
    request : Request
        What the job asks for.
    name : str
        Name of the job in PJM.
    files : JobFiles
        Absolute paths of script, log and statistics.

    Raises
    ------
    RefusedError
        If PJM would read the files' path differently.
    """
    if "%" in str(files.stem) or has_control_characters(str(files.stem)):
        raise RefusedError(
            f"{files.stem}: cannot be the path of a PJM log; expected a log folder "
            "(--pjm-logdir) without % (which PJM replaces) or control characters."
        )
    limits = [f"node={request.node}"]
    if request.resource_group:
        limits.append(f"rscgrp={request.resource_group}")
    if request.elapse_min:
        limits.append(f"elapse={elapse(request.elapse_min)}")
    command = ["pjsub", "-L", ",".join(limits)]
    processes = []
    if request.n_processes:
        processes.append(f"proc={request.n_processes}")
    if request.processes_per_node:
        processes.append(f"max-proc-per-node={request.processes_per_node}")
    if processes:
        command += ["--mpi", ",".join(processes)]
    command += ["-g", request.group, "-N", name]
    if request.gfscache:
        command += ["-x", f"PJM_LLIO_GFSCACHE={':'.join(request.gfscache)}"]
    # Only processes that print leave a file: there may be thousands of processes.
    command += ["-x", "PLE_MPI_STD_EMPTYFILE=off"]
    for area, size_mib, unit in (
        ("localtmp", request.localtmp_mib, "Mi"),
        ("sharedtmp", request.sharedtmp_mib, "Mi"),
        ("cn-cache", request.cn_cache_mib, "MiB"),
    ):
        if size_mib is not None:
            command += ["--llio", f"{area}-size={size_mib}{unit}"]
    command += ["-j", "-o", str(files.log), "-S", "--spath", str(files.statistics)]
    command += ["--no-check-directory", *request.extra]
    return [*command, str(files.script)]


TRANSFER = """\
# Copy files that all nodes read to first-layer storage; otherwise reads are slower.
transfer() {
    if [ -d "$1" ]; then
        find "$1" -type f -print0 | xargs -0 -r -n 200 llio_transfer
    else
        llio_transfer "$1"
    fi || echo "warning: llio_transfer of $1 failed; the job continues without it" >&2
}
"""

SCRIPT = """\
#!/bin/bash
# {title}
# {submission}

status_file={status_file}
child=

# Exit status of the command, in case PJM has forgotten the job: complete or missing.
record() {{
    trap - EXIT
    echo "$1" > "$status_file.new" && mv -f "$status_file.new" "$status_file"
}}

# PJM sends XCPU at the elapse limit and kills some seconds later, so record first.
stop() {{
    trap '' HUP INT TERM XCPU
    record $((128 + $1))
    [ -z "$child" ] || {{ kill -s TERM "$child"; wait "$child"; }}
    exit $((128 + $1))
}}

rm -f "$status_file"
trap 'record "$?"' EXIT
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM
trap 'stop 24' XCPU

cd {workdir} || exit 1
{preamble}
# The command runs in the background because only "wait" can be interrupted by a signal.
{command} &
child=$!
wait "$child"
exit "$?"
"""


def job_script(
    title: str,
    submission: list[str],
    command: str,
    files: JobFiles,
    workdir: Path,
    python: str,
    environment: Mapping[str, str],
    preamble: str = "",
    transfer: Iterable[str] = (),
) -> str:
    """Return the script of a job.

    Parameters
    ----------
    title : str
        Description of the job, for readers.
    submission : list of str
        The pjsub command line, for readers.
    command : str
        One simple command in shell syntax, checked with `refuse_active_shell_syntax`.
    files : JobFiles
        Files of the job, one of them for the exit status.
    workdir : Path
        Folder in which the command runs.
    python : str
        Python interpreter; its folder, if given, goes first on PATH.
    environment : mapping of str to str
        Variables to set.
    preamble : str
        Shell commands that run first.
    transfer : iterable of str
        Files, and folders of files, to copy with llio_transfer.
    """
    lines = [preamble.rstrip()]
    lines += [f"export {name}={shlex.quote(environment[name])}" for name in environment]
    if folder := str(Path(python).parent) if "/" in python else "":
        lines.append(f'export PATH={shlex.quote(folder)}:"$PATH"')
    if paths := [*transfer]:
        lines.append(TRANSFER.rstrip())
        lines += [f"transfer {shlex.quote(str(workdir / path))}" for path in paths]
    return SCRIPT.format(
        title=" ".join(title.split()),
        submission=" ".join(shlex.join(submission).splitlines()),
        status_file=shlex.quote(str(files.exit_status)),
        workdir=shlex.quote(str(workdir)),
        preamble="".join(f"{line}\n" for line in lines if line),
        command=command,
    )


# A word of plain letters and of quoted parts that a shell does not change.
_INERT_WORD = re.compile(
    r"""(?:[\w@%+=:,./^-]|'[^'\\\x00-\x1f]*'|"[^"$`\\!\x00-\x1f]*")+(?:[ ]+|$)"""
)


def refuse_active_shell_syntax(job: str, command: str) -> None:
    """Refuse a command unless it consists of plain and quoted words with blanks.

    Snakemake quotes values for the shell the way Python does. That is safe for most
    values, but a path with both a quote and ``$(...)`` would run as a command.

    Raises
    ------
    RefusedError
        Names the word that a shell would change.
    """
    text = command.strip(" ")
    while text:
        if not (match := _INERT_WORD.match(text)):
            raise RefusedError(
                f"{job}: the shell would change the letters of {text[:80]!r} in the "
                "job's command; expected wildcards, file names and settings without "
                "such quotes, backslashes or line breaks."
            )
        text = text[match.end() :]
