"""Write Darshan logs byte by byte: other formats, byte orders and compressions.

Independent of the package's reader, so that each checks the other. `write_log` of the
package writes the current format only.
"""

import bz2
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

COMPRESS = [zlib.compress, bz2.compress, bytes]  # by compression type
MODULES = {
    "3.00": {"POSIX": 1, "MPI-IO": 2, "LUSTRE": 6},
    "3.10": {"POSIX": 1, "MPI-IO": 2, "LUSTRE": 6, "STDIO": 7},
    "3.20": {"POSIX": 1, "MPI-IO": 2, "LUSTRE": 7, "STDIO": 8},
    "3.21": {"POSIX": 1, "MPI-IO": 2, "LUSTRE": 7, "STDIO": 8},
    "3.41": {"POSIX": 1, "MPI-IO": 2, "LUSTRE": 8, "STDIO": 9},
}


def build_log(
    path: Path,
    modules: Mapping[str, tuple[int, np.ndarray]],
    names: Sequence[tuple[int, bytes]],
    *,
    version: str = "3.41",
    order: str = "<",
    compression: int = 0,
    partial: Sequence[str] = (),
    n_processes: int = 2,
    text: bytes = b"./simulate in.nml\nlustre\t/scratch\0",
    n_streams: int = 1,
    whole_s: tuple[int, int] = (100, 160),
    ended_ns: int = 500_000_000,
) -> Path:
    """Write a log; `modules` are version and records by name.

    The job is of user 1001, has the id 4242 and ran from 100 s to 160.5 s.
    """
    is_new = version == "3.41"
    positions, n_modules = MODULES[version], 64 if is_new else 16
    started_s, ended_s = whole_s
    times = (started_s, 0, ended_s, ended_ns) if is_new else whole_s
    job = struct.pack(f"{order}{len(times) + 3}q", 1001, *times, n_processes, 4242)
    job += b"lib_ver=3.5.0\n".ljust(1024, b"\0") + text
    parts = [_packed(job, compression, 1)]
    name_bytes = b"".join(_name(*pair, version, order) for pair in names)
    parts.append(_packed(name_bytes, compression, n_streams) if names else b"")
    regions = {positions[name]: name for name in modules}
    for number in sorted(regions):
        records = modules[regions[number]][1]
        data = records.astype(records.dtype.newbyteorder(order)).tobytes()
        parts.append(_packed(data, compression, n_streams))
    layout = f"{order}8sqB7xQ" if is_new else f"{order}8sqB3xI"
    header_bytes = struct.calcsize(layout) + 16 + 20 * n_modules
    table, versions = [(0, 0)] * n_modules, [0] * n_modules
    offset = header_bytes + len(parts[0])
    name_region = (offset, len(parts[1])) if names else (0, 0)
    offset += len(parts[1])
    for number, part in zip(sorted(regions), parts[2:], strict=True):
        table[number] = (offset, len(part))
        versions[number] = modules[regions[number]][0]
        offset += len(part)
    flags = sum(1 << positions[name] for name in partial)
    header = struct.pack(layout, version.encode(), 6567223, compression, flags)
    header += struct.pack(
        f"{order}{2 + 2 * n_modules}Q{n_modules}I",
        *name_region,
        *(number for region in table for number in region),
        *versions,
    )
    path.write_bytes(b"".join([header, *parts]))
    return path


def _packed(data: bytes, compression: int, n_streams: int) -> bytes:
    """Return a region of some streams."""
    step = -(-len(data) // n_streams) or 1
    pieces = [data[i : i + step] for i in range(0, len(data), step)] or [b""]
    return b"".join(COMPRESS[compression](piece) for piece in pieces)


def _name(id_: int, path: bytes, version: str, order: str) -> bytes:
    """Return a name as the log has it."""
    if version == "3.00":
        return struct.pack(f"{order}QI", id_, len(path)) + path
    return struct.pack(f"{order}Q", id_) + path + b"\0"
