"""Programs that do not load the library, and processes that must not go on."""

import os
import shutil
import subprocess
import sys

import pytest
from tierscope.trace.spool import open_spool

STATIC = """
#include <fcntl.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDONLY);
  if (fd < 0)
    perror("open");
  return fd < 0;
}
"""
FATAL = 121


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    """Return a program that is linked statically: it opens a file."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("static") / "static"
    program.with_suffix(".c").write_text(STATIC)
    command = [compiler, "-static", "-o", program, program.with_suffix(".c")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a static libc")
    return program


EXECS = {
    "execv": "os.execv(program, [program, path])",
    "execve": "os.execve(program, [program, path], os.environ)",
    "execvp": "os.environ['PATH'] = os.path.dirname(program)\n"
    "os.execvp(os.path.basename(program), ['x', path])",
    "fexecve": "fd = os.open(program, 0)\nos.execve(fd, [program, path], os.environ)",
    "execl": "libc.execl(program.encode(), b'x', path.encode(), None)",
    "execlp": "libc.execlp(program.encode(), b'x', path.encode(), None)",
    "posix_spawn": "os.waitpid(os.posix_spawn(program, ['x', path], os.environ), 0)",
    "posix_spawnp": "os.waitpid(os.posix_spawnp(program, ['x', path], os.environ), 0)",
    "subprocess": "import subprocess; subprocess.run([program, path])",
    "system": "os.system(f'{program} {path}')",
    "popen": "command = f'{program} {path}'.encode()\n"
    "libc.pclose(ctypes.c_void_p(libc.popen(command, b'r')))",
    "shell": "os.execv('/bin/sh', ['sh', '-c', f'exec {program} {path}'])",
    "script": "os.execv(script, [script, path])",
}


@pytest.mark.parametrize("call", EXECS)
def test_static_program_finds_nothing_and_is_named(node, static, call):
    script = node.folder / "script"
    script.write_text(f"#! {static}\n")
    script.chmod(0o755)
    code = f"libc.popen.restype = ctypes.c_void_p\nprogram = {str(static)!r}\n"
    code += f"script = {str(script)!r}\npath = data + '/train/2.png'\n"
    done = node.execute(node.command(code + EXECS[call]), check=False)
    assert done.stderr == "open: No such file or directory\n"
    name = script if call == "script" else static
    assert node.table.escaped() == [f"{name} (is linked statically)"]
    assert node.table.counts()["escapes"] == 1


@pytest.mark.parametrize(
    "code",
    [
        "os.execve('/bin/cat', ['cat', path], {})",
        "os.system(f'env -i cat {path}')",
        "del os.environ['LD_PRELOAD']\nos.execvp('cat', ['cat', path])",
        "del os.environ['LD_PRELOAD']\nos.system(f'cat {path}')",
        "del os.environ['TIERSCOPE_REDIRECT']\nos.execvp('cat', ['cat', path])",
    ],
)
def test_program_without_our_environment_finds_nothing_and_is_named(node, code):
    done = node.execute(
        node.command(f"path = data + '/train/2.png'\n{code}"), check=False
    )
    assert "No such file or directory" in done.stderr
    (escaped,) = node.table.escaped()
    assert escaped.endswith("(starts without our environment)")


def test_program_that_runs_as_another_user_is_named_but_not_for_its_owner(node):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a program to another user")
    programs = [node.folder / "others", node.folder / "own"]
    for program, user in zip(programs, (12345, 0), strict=True):
        shutil.copy("/bin/true", program)
        os.chown(program, user, -1)
        program.chmod(0o4755)
        node.run(f"import subprocess\nsubprocess.run([{str(program)!r}])")
    assert node.table.escaped() == [f"{programs[0]} (runs as another user)"]


def test_what_cannot_be_executed_or_loads_the_library_is_not_named(node):
    node.run(
        """
import subprocess
subprocess.run(['true'], check=True)
subprocess.run(['sh', '-c', 'true | cat; exec true'], check=True)
loader = open('/proc/self/maps').read().split('/ld-')[1].split()[0]
for code in ('os.execv("/none", ["x"])', 'os.execv("/etc/passwd", ["x"])'):
    try:
        exec(code)
    except OSError:
        pass
"""
    )
    assert node.table.escaped() == []


def test_same_escape_is_named_once_and_many_are_counted(node, static):
    links = [node.folder / f"static-{i}" for i in range(70)]
    for link in links:
        link.symlink_to(static)
    code = f"import subprocess\nfor one in {[*map(str, links)] * 2}:\n"
    node.run(f"{code}    subprocess.run([one, 'x'], stderr=-3)")
    assert len(node.table.escaped()) == 64
    assert node.table.counts()["escapes"] == 140


# Processes that must not go on


def test_process_without_a_table_is_left_alone(node):
    os.environ.pop("TIERSCOPE_REDIRECT", None)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "print(open('/tierscope/set/train/2.png'))"],
        env=os.environ | {"LD_PRELOAD": str(node.library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FileNotFoundError" in done.stderr
    assert len(node.table.processes()) == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"", "is no table of redirections."),
        (b"x" * 100_000, "is no table of redirections."),
        ("version", "is a table of redirections of another version."),
        ("cut", "is a table of redirections of another version."),
    ],
)
def test_table_that_cannot_be_used_ends_the_process_with_one_line(
    node, content, reason
):
    path = node.folder / "bad"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        shutil.copy(node.table.path, path)
        with path.open("r+b") as file:
            if content == "cut":
                file.truncate(path.stat().st_size - 4096)
            else:
                file.seek(16)
                file.write(b"\xff")
    done = node.execute(["true"], check=False, TIERSCOPE_REDIRECT=str(path))
    assert done.stderr == f"tierscope: {path}: {reason}\n"
    assert done.returncode == FATAL


def test_tracer_before_the_library_ends_the_process_with_one_line(node, trace_library):
    both = [str(node.library), str(trace_library)]
    done = node.execute(["true"], check=False, LD_PRELOAD=":".join(both))
    assert [done.returncode, done.stderr] == [0, ""]
    done = node.execute(["true"], check=False, LD_PRELOAD=":".join(both[::-1]))
    assert done.returncode == FATAL
    assert done.stderr == (
        "tierscope: libtierscope_trace.so: stands before libtierscope_redirect.so in "
        "LD_PRELOAD, expected behind it.\n"
    )


def test_tracer_behind_the_library_logs_tier_and_epoch(node, trace_library, tmp_path):
    spools = tmp_path / "spools"
    spools.mkdir()
    node.run(
        "libc.tierscope_epoch(3)\nopen(data + '/train/2.png').read()\n"
        "open(data + '/train/1.png').read()",
        LD_PRELOAD=f"{node.library}:{trace_library}",
        TIERSCOPE_TRACE_SPOOL=str(spools),
        TIERSCOPE_TRACE_RANK="0",
        TIERSCOPE_TRACE_PREFIXES=f"{node.folder}/\n{node.data}/",
    )
    (spool,) = spools.glob("*.spool")
    one = open_spool(spool, must_be_whole=True)
    records, paths = one.records, one.names
    links = node.folder / "links"
    assert [*map(os.fsdecode, paths)] == [
        f"{links}/lfs.ep3/train/2.png",
        f"{links}/gfs.ep3/train/1.png",
    ]
    assert records["POSIX_BYTES_READ"].tolist() == [15, 15]
