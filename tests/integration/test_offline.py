"""Nothing that runs needs a network: an experiment in a name space without any."""

import shutil
import subprocess
import sys

import pytest
from integration.conftest import Project

# A new name space has its own loopback interface, which MPI uses and which is down.
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
request = struct.pack("16sh22x", b"lo", IFF_UP)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), SIOCSIFFLAGS, request)
os.execvp(sys.argv[1], sys.argv[1:])
"""
ONLY_LOOPBACK = """
import socket, sys
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    sys.exit(error.strerror != "Network is unreachable")
"""


def cut_off():
    """Return what a command begins with that is to run without a network."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare")
    for options in (["--net"], ["--user", "--map-root-user", "--net"]):
        words = ["unshare", *options, sys.executable, "-c", LOOPBACK_UP]
        trial = [*words, sys.executable, "-c", ONLY_LOOPBACK]
        if not subprocess.run(trial, capture_output=True, check=False).returncode:
            return words
    pytest.skip("needs the right to make a network name space")


class OfflineProject(Project):
    """A project whose commands have no network."""

    def command(self, *arguments):
        return [*cut_off(), *super().command(*arguments)]


def test_experiment_needs_no_network(tmp_path):
    (tmp_path / "project").mkdir()
    project = OfflineProject(tmp_path / "project")
    sweep = {"datasets": ["tiny"], "loaders": ["posix"], "n_osts": [60]}
    project.change(
        "config/tiny.yaml", {"sweep": sweep | {"cache_rates_percent": [0, 100]}}
    )
    project.snakemake("fig2", "explorer")
    for name in ("figures/fig2_breakdown.png", "explorer.html"):
        assert project.path(name).stat().st_size > 1000
