"""A dataset, and programs that read it under redirection. They need PyTorch."""

import os
import random
import shlex
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from redirected import VIRTUAL, run_redirected

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-programs" / "bin" / "python"


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    """Return a folder of 48 training files, 16 held out and 8 shards of 6 samples."""
    root, content = tmp_path_factory.mktemp("data"), random.Random(1)
    for part, n_files in (("train", 48), ("val", 16), ("samples", 48)):
        for i in range(n_files):
            path = root / part / f"class{i % 4}" / f"{i:03}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.randbytes(1500 + i))
    samples = sorted((root / "samples").rglob("*.bin"))
    (root / "shards").mkdir()
    for i in range(8):
        with tarfile.open(root / "shards" / f"{i}.tar", "w") as tar:
            for path in samples[i::8]:
                tar.add(path, path.name)
                path.unlink()
    return root


@pytest.fixture
def redirect(dataset, tmp_path, redirect_library):
    """Return a function that runs a command and has checked each open's tier."""

    def run(*command, **environ):
        found = run_redirected(command, dataset, tmp_path, redirect_library, environ)
        assert found.status == 0, found.output
        assert found.logged == found.decided
        assert not found.counts["fallbacks"]
        assert not [one for one in found.notes if one["kind"] == "error"]
        assert not [one for one in found.notes if one.get("missing")]
        return found

    return run


@pytest.fixture(scope="session")
def python():
    """Return the Python that has PyTorch."""
    if not PYTHON.exists():
        pytest.skip("needs PyTorch: make programs-env")
    return PYTHON


@pytest.fixture
def pytorch(redirect, python, tmp_path):
    """Return a function that runs the PyTorch client and has checked each epoch.

    It may run more clients one after the other, with the options of `then`.
    """
    truth = tmp_path / "truth"
    truth.mkdir()

    client = Path(__file__).with_name("clients") / "pytorch_client.py"

    def command(*options, launcher=()):
        folders = [f"--data={VIRTUAL}", f"--truth={truth}"]
        return [str(python), *launcher, str(client), *folders, *options]

    def run(*options, launcher=(), then=()):
        commands = command(*options, launcher=launcher), *(command(*o) for o in then)
        found = redirect("sh", "-c", " && ".join(map(shlex.join, commands)))
        true = Counter()
        for path in truth.iterdir():
            for line in path.read_text().splitlines():
                epoch, read = line.split(" ", 1)
                true[int(path.name), os.path.relpath(read, VIRTUAL), int(epoch)] += 1
        assert found.opens == true
        return found

    return run


@pytest.fixture(scope="session")
def has_dlio(python):
    """Return whether there is what DLIO needs."""
    looks = [python, "-c", "import dftracer.logger, dlio_benchmark"]
    return not subprocess.run(looks, check=False).returncode
