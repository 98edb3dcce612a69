"""The same program where the kernel gives the files: an overlay of LFS and GFS.

Files of the tiers differ in their content, so what a program has read says from which
tier. The overlay shows the copies of the LFS over the dataset, and intercepts nothing.
"""

import subprocess
import sys

import pytest
import sessions

PROGRAM = """
import mmap, os, subprocess, sys, threading
from pathlib import Path
data = sys.argv[1]
names = sorted(
    os.path.relpath(os.path.join(folder, name), data)
    for folder, _, names in os.walk(data, followlinks=True) for name in names
)
def read(path, **how):
    fd = os.open(path, os.O_RDONLY, **how)
    try:
        return os.read(fd, 100).decode()
    finally:
        os.close(fd)
def say(way, *found):
    print(way, *found, flush=True)
say('names', *names)
for name in names:
    path = os.path.join(data, name)
    folder, last = os.path.split(path)
    say('open', name, open(path).read(), os.stat(path).st_size)
    with open(path, 'rb') as file:
        say('fstat', name, os.fstat(file.fileno()).st_size)
        say('mmap', name, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])
    at = os.open(folder, os.O_RDONLY)
    say('openat', name, read(last, dir_fd=at))
    os.fchdir(at)
    say('relative', name, read(last))
    os.close(at)
    say('dots', name, read(f'{folder}/.././{os.path.basename(folder)}//{last}'))
    say('cat', name, subprocess.check_output(['cat', path]))
    say('shell', name, subprocess.check_output(f"cat < '{path}'", shell=True))
    say('path', name, Path(data).joinpath(name).read_text())
    thread = threading.Thread(target=lambda: say('thread', name, read(path)))
    thread.start(); thread.join()
    if os.fork() == 0:
        say('fork', name, read(path))
        os._exit(0)
    os.wait()
for pattern in ('*.png', '*'):
    command = f"cd '{data}' && for one in train/{pattern}; do cat $one; echo; done"
    say('pattern', subprocess.check_output(command, shell=True))
say('tar', subprocess.check_output(f"tar -ch -C '{data}' train --sort=name --mtime=@0 "
                                   "--mode=644 | sha256sum", shell=True))
"""
MOUNT = 'mount -t overlay overlay -o "ro,lowerdir=$1:$2" "$3" && shift 3 && exec "$@"'


def test_program_reads_what_an_overlay_of_the_tiers_gives(any_node):
    folder = any_node.folder
    mounted = folder / "overlay" / "set"  # a name as that of the dataset
    mounted.mkdir(parents=True)
    program = [sys.executable, "-I", "-S", "-c", PROGRAM]
    tiers = [str(folder / tier) for tier in ("lfs", "set")]
    alone = ["unshare", "-Urm", "sh", "-c", MOUNT, "mount", *tiers, str(mounted)]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs user namespaces with overlays: {error}")
    expected = subprocess.run(
        [*alone, *program, str(mounted)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=sessions.HANG_S,
    ).stdout.splitlines()
    found = any_node.execute([*program, any_node.data]).stdout.splitlines()
    assert len(expected) > 100
    assert sum("lfs " in line for line in expected) > 40
    assert found == expected
    assert any_node.table.counts()["fallbacks"] == 0
