"""Files that somebody made to break our readers: each has the structure of its kind.

A `Random` draws what is odd of it, so hypothesis and long runs by hand share these.
"""

import json
import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
from darshan_containers import MODULES, build_log
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.posix_records import POSIX_RECORD

ODD_NUMBERS = [
    0,
    1,
    2,
    7,
    8,
    255,
    4096,
    65535,
    1 << 20,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    (1 << 64) - 2,
]
ODD_TIMES = [0.0, -0.0, -1.0, 1e-300, 1e15, 1e300, -1e300]
ODD_TIMES += [float("inf"), float("-inf"), float("nan")]
ODD_PATHS = [
    b"",
    b"/",
    b"//",
    b"/a",
    b"a",
    b"a/",
    b"../../etc",
    b"/gfs/d/0001",
    b"<STDIN>",
    b"/\xff\xfe",
    b"/" + b"d/" * 300,
    b"/\n\t",
    b"x" * 5000,
    b"/gfs.ep7/d/1",
    b"0/main/read/nfs:/m",
    b"-1/beside/other/ext4:/",
]
ODD_TEXTS = [
    b"",
    b"\0",
    b"x\nlustre\t/scratch\0",
    b"x" * 2000 + b"\0",
    b"\n\n\t\n",
    b"\xff\xfe\n\xff\t/\xff",
    b"x\n" + b"nfs\t/m\n" * 300,
    b"a=b\nc\t/d e\\040f",
]
_VERSIONS = ["3.00", "3.10", "3.20", "3.21", "3.41"]


def damaged(content: bytes, rng: Random, most: int = 4) -> bytes:
    """Return bytes of which some are replaced, inserted, left out or repeated."""
    data = bytearray(content)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(data) + 1)
        n_bytes = rng.choice([1, 2, 4, 8, 8, 64, 700])
        some = struct.pack("<Q", rng.choice(ODD_NUMBERS))[: max(1, n_bytes % 9)]
        how = rng.randrange(5)
        if how == 0:
            data[at : at + len(some)] = some
        elif how == 1:
            data[at:at] = some
        elif how == 2:
            del data[at : at + n_bytes]
        elif how == 3:
            data[at:at] = data[at : at + n_bytes]
        elif data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
    return bytes(data)


def hostile_records(dtype: np.dtype, rng: Random) -> np.ndarray:
    """Return some records, or bytes that are not whole ones, with odd values."""
    records = np.zeros(rng.choice([0, 1, 2, 5]), dtype)
    for row in range(len(records)):
        records["id"][row] = rng.choice([1, 2, 3, 1 << 63])
        records["rank"][row] = rng.choice([-1, 0, 0, 1])
        for _ in range(rng.randint(0, 12)):
            name = rng.choice(dtype.names)
            is_time = dtype[name].kind == "f"
            value = rng.choice(ODD_TIMES if is_time else ODD_NUMBERS)
            unsigned = np.uint64(value) if not is_time else value
            records[name][row] = unsigned.view(dtype[name]) if not is_time else value
    if rng.random() < 0.1:
        return np.frombuffer(damaged(records.tobytes(), rng), "u1")
    return records


def hostile_log(path: Path, rng: Random) -> Path:
    """Write a log of odd records, names, texts, regions or streams."""
    version = rng.choice(_VERSIONS)
    modules = {}
    for name in rng.sample(sorted({*MODULES[version]} & {*RECORD_TYPES}), k=2):
        number = rng.choice([*RECORD_TYPES[name]])
        modules[name] = number, hostile_records(RECORD_TYPES[name][number], rng)
    ids = [1, 2, 3, 1 << 63, 0, 0x2F2F2F2F2F2F2F2F]
    names = [
        (rng.choice(ids), rng.choice(ODD_PATHS)) for _ in range(rng.choice([0, 3, 6]))
    ]
    build_log(
        path,
        modules,
        [*dict(names).items()] if rng.random() < 0.8 else names,
        version=version,
        order=rng.choice("<<>"),
        compression=rng.choice([0, 0, 1, 2]),
        partial=[one for one in modules if rng.random() < 0.1],
        n_processes=rng.choice([1, 2, 2, 4, 1 << 24, rng.choice(ODD_NUMBERS[:16])]),
        text=rng.choice(ODD_TEXTS),
        n_streams=rng.choice([1, 1, 3]),
        whole_s=(rng.choice([0, 100, 1 << 31]), rng.choice([160, 0, 1 << 33])),
    )
    if rng.random() < 0.3:
        content = path.read_bytes()
        n_head = rng.choice([0, 40, 1100, len(content)])
        path.write_bytes(damaged(content[:n_head], rng) + content[n_head:])
    return path


def hostile_spool(content: bytes, rng: Random) -> bytes:
    """Return a spool of odd entries below the header of a genuine one."""
    rank = rng.choice([0, 0, 0, 1, -1, (1 << 31) - 1])
    entries = []
    for _ in range(rng.choice([0, 1, 2, 5])):
        path = rng.choice([one for one in ODD_PATHS if one])
        record = hostile_records(POSIX_RECORD, rng)[:1].tobytes()
        record = record.ljust(POSIX_RECORD.itemsize, b"\0")[: POSIX_RECORD.itemsize]
        record = record[:8] + struct.pack("<q", rank) + record[16:]
        n_bytes = 8 + len(record) + len(path)
        n_given = rng.choice([n_bytes, n_bytes, n_bytes + 8, rng.choice(ODD_NUMBERS)])
        head = struct.pack("<II", n_given & 0xFFFFFFFF, len(path))
        filling = bytes(max(0, min(n_given - n_bytes, 8)))
        entries.append(head + record + path + filling)
    body = b"".join(entries)
    used = rng.choice([4096 + len(body), 4096 + len(body), rng.choice(ODD_NUMBERS)])
    header = bytearray(content[:4096])
    struct.pack_into("<i", header, 24, rank)
    struct.pack_into("<Q", header, 40, used)
    if rng.random() < 0.3:
        header = bytearray(damaged(bytes(header[:96]), rng) + bytes(header[96:]))
    data = bytes(header) + body
    return damaged(data, rng) if rng.random() < 0.2 else data


def hostile_yaml(text: str, rng: Random) -> str:
    """Return a file of DLIO with odd values, aliases, keys or characters."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        key, colon, value = lines[at].partition(":")
        odd = rng.choice(_ODD_VALUES)
        how = rng.randrange(5)
        if how == 0 and colon:
            lines[at] = f"{key}: {odd}"
        elif how == 1:
            lines.insert(at, f"{odd}: {value.strip() or odd}")
        elif how == 2:
            del lines[at]
        elif how == 3:
            lines.append(f"{key or 'x'}: {odd}")
        else:
            lines[at] = lines[at].replace(rng.choice("0123456789ae{:"), odd, 1)
        lines = lines or [""]
    return "\n".join(lines) + "\n"


_ODD_VALUES = [
    "-1",
    "0",
    "1e400",
    "1e-400",
    ".nan",
    ".inf",
    "0x7fffffffffffffff",
    "9" * 5000,
    "null",
    "true",
    "[]",
    "{}",
    "''",
    "[[[[1]]]]",
    "{a: {b: [1]}}",
    "*a",
    "&a [1]",
    "${dataset.format}",
    "${.}",
    "${...a.b}",
    "${train}",
    "!!int x",
    "!!set {a}",
    "<<",
    "1:30:00",
    "2001-01-01",
    "\t",
    "|",
    "'",
    "\\",
    "\ud7ff",
    "- 1",
    "? a",
    "${reader.batch_size}",
    "9223372036854775808",
    "168",
    "1.5",
    "npz",
    "workload",
]


def hostile_rows(rng: Random, n_rows: int) -> dict[str, list]:
    """Return columns of table `user_manifest` with odd values."""
    odd = [*ODD_NUMBERS[:16], -1, -(1 << 63)]
    paths = ["/etc/passwd", "../x", "a/../../x", "", "a", "a", "a\0b", "\ud7ff", "."]

    def some(usual: object, others: list) -> object:
        return rng.choice(others) if rng.random() < 0.1 else usual

    return {
        "file_id": [some(row, odd) for row in range(n_rows)],
        "path": [some(f"d/{row}", paths) for row in range(n_rows)],
        "size_bytes": [some(4096, odd) for _ in range(n_rows)],
        "ost": [some(-1, odd) for _ in range(n_rows)],
        "mtime_ns": [some(1 << 60, odd) for _ in range(n_rows)],
        "is_link": [some(False, [True]) for _ in range(n_rows)],
        "same_as": [some(-1, odd) for _ in range(n_rows)],
    }


def hostile_notes(content: bytes, rng: Random) -> bytes:
    """Return notes of a listing with odd lines."""
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    values = json.loads(lines[at])
    key = rng.choice(sorted(values))
    odd = [None, [], {}, "", "../..", [1 << 70], [-1], [[[]]], 1.5, True, ["a", "a"]]
    values[key] = rng.choice(odd)
    lines[at] = json.dumps(values).encode() + b"\n"
    content = b"".join(lines)
    return damaged(content, rng) if rng.random() < 0.5 else content


def zeros_deflated(n_mib: int) -> bytes:
    """Return a stream of zlib that holds zeros."""
    packer = zlib.compressobj(9)
    block = bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(n_mib)]
    return b"".join([*parts, packer.flush()])
