"""A stand-in for the Darshan runtime of a site: ours, for tests only, not Darshan."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native import FLAGS, sources_of

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """Compile `libdarshan.so` for the MPI library of this Python; return its folder."""
    mpi = Path(sys.prefix, "lib", "libmpi.so.12")
    if not (compiler := shutil.which("cc")) or not mpi.is_file():
        pytest.skip("needs a C compiler and the MPICH of PyPI")
    folder = tmp_path_factory.mktemp("standin")
    places = [f'-DPYTHON="{sys.executable}"', f'-DWRITER="{HERE / "write_log.py"}"']
    sources = [HERE / "runtime_standin.c", *sources_of("trace"), mpi]
    command = [compiler, *FLAGS, *places, "-o", folder / "libdarshan.so", *sources]
    command += ["-ldl", f"-Wl,-rpath,{mpi.parent}"]
    subprocess.run(command, check=True, timeout=60)
    return folder
