"""The loaders of LMDB files: LMDBIO's optimisations and their named variants.

Loader `lmdb` is what LMDBIO starts from: every process maps the file and walks a cursor
from the first record. Loader `lmdbio` has the optimisations that the configuration
switches on; the variants that its authors name are loaders of their own.
"""

from collections.abc import Mapping

OPTIMISATIONS = {
    "lmm": "localised mmap: one process of a node reads for all of them",
    "dm": "the first reader walks the tree once and tells the others where to read",
    "dio": "explicit reads in place of page faults",
    "prov": "where to read follows by arithmetic from how the file was written",
    "coal": "several batches are read at once",
    "stag": "readers take turns",
}
VARIANTS = {
    "lmdb": (),
    "lmdbio-lmm": ("lmm",),
    "lmdbio-lmm-dm": ("lmm", "dm"),
    "lmdbio-lmm-dio": ("lmm", "dio"),
    "lmdbio-lmm-dio-prov": ("lmm", "dio", "prov"),
    "lmdbio-lmm-dio-prov-coal": ("lmm", "dio", "prov", "coal"),
    "lmdbio-lmm-dio-prov-coal-stag": ("lmm", "dio", "prov", "coal", "stag"),
}
LOADERS = ("lmdb", "lmdbio", *list(VARIANTS)[1:])


def optimisations_of(loader: str, switches: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the optimisations of a loader; `switches` are those of `lmdbio`."""
    if loader in VARIANTS:
        return VARIANTS[loader]
    return tuple(name for name in OPTIMISATIONS if switches[name])
