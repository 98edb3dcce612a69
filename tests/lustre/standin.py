"""Settings of the stand-in for Lustre's `lfs` in tests/lustre/bin."""

import errno
import json
import os
import sys
from pathlib import Path

import pytest

BIN = Path(__file__).parent / "bin"


def lustre_environment(folder: Path, **settings) -> dict[str, str]:
    """Return the variables with which `lfs` takes a folder for a Lustre file system.

    Four OSTs and the pool `pair` of OSTs 1 and 3, unless the settings (see the
    stand-in) say otherwise.
    """
    try:
        os.getxattr(folder, "system.posix_acl_default")
    except OSError as error:
        if error.errno != errno.ENODATA:
            pytest.skip(f"needs access control lists in {folder}")
    defaults = {"mount": str(folder), "n_osts": 4, "pools": {"pair": [1, 3]}}
    python = str(Path(sys.executable).parent)
    path = folder / ".lfs-standin.json"
    path.write_text(json.dumps(defaults | settings))
    return {
        "PATH": os.pathsep.join([str(BIN), python, os.environ["PATH"]]),
        "LFS_STANDIN": str(path),
    }
