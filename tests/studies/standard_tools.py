"""Compare what `tierscope trace` counts with what strace sees, for standard tools.

Each tool runs twice on files of its own: once traced, once under strace. Of all paths
below the files' folder, opens, bytes read and bytes written must agree; paths are
compared without the random part of a temporary name.

    python tests/studies/standard_tools.py        # needs strace

It prints the table of README.md beside it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import darshan

ROOT = Path(__file__).parents[2]
TRACE = [sys.executable, ROOT / "workflow/scripts/tierscope_command.py", "trace"]
STRACE = ["strace", "-f", "-y", "-s0"]
TOOLS = {
    "cat": "cat d/a d/b",
    "tac": "tac d/a",
    "head": "head -c 70000 d/a",
    "tail": "tail -n 3 d/a",
    "wc": "wc d/a",
    "nl": "nl d/a",
    "od": "od d/a",
    "base64": "base64 d/a",
    "md5sum": "md5sum d/a",
    "sha256sum": "sha256sum d/a",
    "cksum": "cksum d/a",
    "sort": "sort -o d/out d/a",
    "uniq": "uniq d/a d/out",
    "cut": "cut -c 1-5 d/a > d/out",
    "paste": "paste d/a d/b > d/out",
    "join": "join d/sorted d/sorted > d/out",
    "comm": "comm d/sorted d/b",
    "tr": "tr a b < d/a > d/out",
    "expand": "expand d/a > d/out",
    "fold": "fold -w 20 d/a > d/out",
    "fmt": "fmt d/a > d/out",
    "split": "split -b 50000 d/a d/part.",
    "csplit": "csplit -s -f d/part. d/a 100 200",
    "shuf": "shuf -o d/out d/a",
    "tee": "tee d/out d/more < d/a > /dev/null",
    "dd": "dd if=d/a of=d/out bs=4k status=none",
    "cp": "cp d/a d/out",
    "mv": "mv d/a d/moved",
    "install": "install d/a d/out",
    "cmp": "cmp d/a d/same",
    "diff": "diff d/a d/b > d/out",
    "grep": "grep -c ab d/a d/b > d/out",
    "sed -i": "sed -i s/a/b/ d/a",
    "awk": "awk '{ print $1 > \"d/out\" }' d/a",
    "find": "find d -name 'x*'",
    "ls -l": "ls -lR d",
    "du": "du -a d",
    "tar": "tar cf d/out.tar d/a d/b && tar xf d/out.tar -C d/folder",
    "gzip": "gzip -k d/a && gzip -dc d/a.gz > d/out",
}
READING = {"read", "pread64", "readv", "preadv", "preadv2"}
WRITING = {"write", "pwrite64", "writev", "pwritev", "pwritev2"}
COPYING = {"sendfile": (1, 0), "copy_file_range": (0, 2), "splice": (0, 2)}
CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (\d+)(?:<(.*)>)?")
BYTES = ("BYTES_READ", "BYTES_WRITTEN")
DESCRIPTOR = re.compile(r"\d+<([^<>]*)>")
RANDOM = re.compile(r"/sed\w{6}$")


def make_files(folder: Path) -> Path:
    """Make the files that the tools read, and return their folder."""
    data = folder / "d"
    (data / "folder").mkdir(parents=True)
    lines = [f"{i * 7919 % 5000:05d} ab cd\n" for i in range(20_000)]
    (data / "a").write_text("".join(lines))
    (data / "same").write_text("".join(lines))
    (data / "b").write_text("".join(lines[:500]))
    (data / "sorted").write_text("".join(sorted({line[:5] + "\n" for line in lines})))
    return data


def by_strace(command: str, data: Path) -> dict[str, tuple[int, int, int]]:
    """Return opens, bytes read and bytes written by path, as the kernel sees them."""
    output = data.parent / "strace.txt"
    calls = ",".join(
        ["open", "openat", "creat", "openat2", *READING, *WRITING, *COPYING]
    )
    subprocess.run(
        [*STRACE, "-e", f"trace={calls}", "-o", output, "sh", "-c", command],
        cwd=data.parent,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sums: Counter[tuple[str, int]] = Counter()
    for line in joined_lines(output.read_text()):
        if not (found := CALL.match(line)):
            continue
        name, arguments, result, opened = found.groups()
        paths = DESCRIPTOR.findall(arguments)
        if opened:
            sums[opened, 0] += 1
        elif name in READING:
            sums[paths[0], 1] += int(result)
        elif name in WRITING:
            sums[paths[0], 2] += int(result)
        elif name in COPYING:
            source, target = COPYING[name] if name == "sendfile" else (0, 1)
            sums[paths[source], 1] += int(result)
            sums[paths[target], 2] += int(result)
    return below(data, sums)


def joined_lines(text: str) -> list[str]:
    """Return the lines of strace, with calls that others have interrupted joined."""
    lines, begun = [], {}
    for line in text.splitlines():
        process = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>").rstrip()
        elif found := re.search(r"<\.\.\. \w+ resumed>(.*)", line):
            lines.append(begun.pop(process, "") + found[1])
        else:
            lines.append(line)
    return lines


def by_tracer(command: str, data: Path) -> dict[str, tuple[int, int, int]]:
    """Return the same from the logs of `tierscope trace`."""
    logs = data.parent / "logs"
    subprocess.run(
        [*TRACE, "--logs", logs, "--paths", data, "--", "sh", "-c", command],
        cwd=data.parent,
        check=False,
        stdout=subprocess.DEVNULL,  # as above: grep reads less if nobody sees it
        stderr=subprocess.DEVNULL,
    )
    sums: Counter[tuple[str, int]] = Counter()
    for log in logs.glob("*.darshan"):
        for interface, twice in (("POSIX", "DUPS"), ("STDIO", "FDOPENS")):
            for path, counts in counters(log, interface, twice):
                for i, value in enumerate(counts):
                    sums[path, i] += value
    return below(data, sums)


def counters(log: Path, interface: str, twice: str) -> list[tuple[str, list[int]]]:
    """Return path, opens, bytes read and bytes written of each record of a log."""
    report = darshan.DarshanReport(str(log), read_all=True)
    if interface not in report.modules:
        return []
    frame = report.records[interface].to_df()["counters"]
    columns = [f"{interface}_{name}" for name in ("OPENS", twice, *BYTES)]
    opens, duplicates, *n_bytes = (frame[name].tolist() for name in columns)
    return [
        (report.name_records[one], [opens[i] - duplicates[i], *(n[i] for n in n_bytes)])
        for i, one in enumerate(frame["id"].tolist())
    ]


def below(
    data: Path, sums: Counter[tuple[str, int]]
) -> dict[str, tuple[int, int, int]]:
    """Return the sums of paths below a folder, without paths that have none."""
    found: dict[str, list[int]] = {}
    for (path, column), value in sums.items():
        path = RANDOM.sub("/sed", path.removesuffix(" (deleted)"))
        if path == str(data) or path.startswith(f"{data}/"):
            row = found.setdefault(path.removeprefix(f"{data.parent}/"), [0, 0, 0])
            row[column] += value
    return {path: tuple(row) for path, row in sorted(found.items()) if any(row)}


def main() -> int:
    """Print the table; the exit status is the number of tools that differ."""
    if not shutil.which("strace"):
        sys.exit("standard_tools: strace is not installed; apt-get install strace")
    rows, n_different = [], 0
    for command in TOOLS.values():
        found = []
        for count in (by_strace, by_tracer):
            with tempfile.TemporaryDirectory() as folder:
                found.append(count(command, make_files(Path(folder).resolve())))
        seen, counted = found
        opens, read, written = (sum(row[i] for row in seen.values()) for i in range(3))
        different = [
            path for path in {*seen, *counted} if seen.get(path) != counted.get(path)
        ]
        verdict = (
            "yes"
            if not different
            else "; ".join(
                f"{path}: strace {seen.get(path)}, tierscope {counted.get(path)}"
                for path in sorted(different)
            )
        )
        n_different += bool(different)
        rows.append(f"| `{command}` | {opens} | {read:,} | {written:,} | {verdict} |")
        print(rows[-1], file=sys.stderr, flush=True)
    n_equal = len(TOOLS) - n_different
    print(f"{datetime.now(UTC):%Y-%m-%d}: {n_equal} of {len(TOOLS)} agree")
    print("\n| command | opens | bytes read | bytes written | agrees |")
    print("|---|---|---|---|---|")
    print("\n".join(rows))
    return n_different


if __name__ == "__main__":
    sys.exit(main())
