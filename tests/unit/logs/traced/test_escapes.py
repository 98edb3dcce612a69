"""Programs that are executed without the tracer: none goes unseen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import HANG_S
from shared import made_once
from tierscope.logs.traced.call import this_call
from tierscope.logs.traced.command import make_spools, traced_environment
from tierscope.logs.traced.escapes import (
    REASONS,
    Escape,
    escape_words,
    reason_of,
)
from tierscope.logs.traced.processes import read_processes

STATIC, USER, ENVIRONMENT, FOREIGN, UNREACHABLE, MUSL, SANITIZER, GO, ROOT = REASONS
# What a compiler of Go writes into its programs.
GO_NOTE = r"""
__asm__(".pushsection .note.go.buildid, \"a\", @note\n"
        ".balign 4\n.long 4, 4, 4\n"
        ".ascii \"Go\\0\\0\"\n.ascii \"id00\"\n.popsection");
"""


def compile_programs(folder: Path) -> None:
    """Compile programs of each kind; none needs musl, Go or a sanitizer."""
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "go.c").write_text(f"{GO_NOTE}\nint main(void) {{ return 0; }}\n")
    (folder / "none.c").write_text("")
    fake = folder / "libasan.so.8"
    for name, source, *flags in (
        (fake.name, "none.c", "-shared", "-fPIC", f"-Wl,-soname,{fake.name}"),
        ("plain", "main.c"),
        ("static", "main.c", "-static"),
        ("asan", "main.c", "-Wl,--no-as-needed", fake),
        ("go", "go.c"),
    ):
        command = ["cc", "-o", folder / name, folder / source, *flags]
        if subprocess.run(command, check=False, timeout=HANG_S).returncode:
            pytest.skip("needs a C compiler and a static libc")
    plain = (folder / "plain").read_bytes()
    start = plain.index(b"/ld-linux")
    begin, end = plain.rindex(b"\0", 0, start) + 1, plain.index(b"\0", start)
    loader = b"/lib/ld-musl-x.so.1".ljust(end - begin, b"\0")
    (folder / "musl").write_bytes(plain[:begin] + loader + plain[end:])
    (folder / "musl").chmod(0o755)
    (folder / "foreign").write_bytes(plain[:18] + b"\xff\xff" + plain[20:])
    (folder / "foreign").chmod(0o755)


@pytest.fixture
def programs():
    """Return the folder of the programs."""
    return made_once("escaping-programs", compile_programs)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plain", None),
        ("static", STATIC),
        ("musl", MUSL),
        ("asan", SANITIZER),
        ("go", GO),
        ("foreign", FOREIGN),
        ("main.c", None),
        ("missing", None),
    ],
)
def test_reason_is_what_the_file_says(programs, trace_library, name, reason):
    (programs / "main.c").chmod(0o755)
    found = reason_of(str(programs / name), trace_library)
    assert found == REASONS.get(reason, "")


def test_script_escapes_as_its_interpreter_does(programs, trace_library, tmp_path):
    (script := tmp_path / "script").write_text(f"#! {programs / 'static'}\n")
    script.chmod(0o755)
    assert reason_of(str(script), trace_library) == REASONS[STATIC]


@pytest.fixture
def escapes(programs, trace_library, tmp_path):
    """Return a function that traces a command, and returns what escaped."""

    def run(*command):
        spools = make_spools(tmp_path / "logs", this_call())
        environment = traced_environment(trace_library, spools, [str(tmp_path)])
        subprocess.run(command, env=environment, cwd=programs, timeout=HANG_S)
        return [one for process in read_processes(spools) for one in process.escapes]

    return run


@pytest.mark.parametrize(
    "code",
    [
        "os.execve('./plain', ['x'], {})",
        "os.posix_spawn('./plain', ['x'], {})",
        "os.posix_spawnp('./plain', ['x'], {})",
        "del os.environ['LD_PRELOAD']; os.execvp('./plain', ['x'])",
        "del os.environ['TIERSCOPE_TRACE_SPOOL']; os.execv('./plain', ['x'])",
        "subprocess.run(['./plain'], env={'LD_PRELOAD': 'libjemalloc.so.2'})",
        "os.execve(os.open('./plain', 0), ['x'], {})",
        "os.fork() or os.execve('./plain', ['x'], {}); os.wait()",
        "libc.execle(b'./plain', b'x', None, (ctypes.c_char_p * 1)(None))",
    ],
)
def test_program_without_our_environment_is_told(escapes, code):
    head = "import ctypes, os, subprocess; libc = ctypes.CDLL(None); "
    ((path, reason),) = escapes(sys.executable, "-S", "-c", head + code)
    assert os.path.basename(path) == "plain"
    assert reason == ENVIRONMENT


@pytest.mark.parametrize("call", ["os.system('true')", "os.popen('true').close()"])
def test_shell_without_our_environment_is_told(escapes, call):
    code = f"import os; del os.environ['LD_PRELOAD']; {call}"
    assert escapes(sys.executable, "-S", "-c", code) == [("/bin/sh", ENVIRONMENT)]


def test_program_that_a_tool_starts_with_other_libraries_is_told(escapes):
    (found,) = escapes("env", "LD_PRELOAD=libjemalloc.so.2", "./plain")
    assert found == ("./plain", ENVIRONMENT)


def test_programs_that_cannot_load_the_library_are_told(escapes):
    found = escapes("sh", "-c", "./static; ./musl; ./foreign; ./plain")
    assert found == [("./static", STATIC), ("./musl", MUSL), ("./foreign", FOREIGN)]


def test_new_root_folder_is_told_before_it_hides_our_own(escapes, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to change the root folder")
    code = f"import os; os.chroot({str(tmp_path)!r})"
    assert escapes(sys.executable, "-S", "-c", code) == [(str(tmp_path), ROOT)]


@pytest.mark.parametrize(
    ("path", "error"),
    [("b'/no/such/folder'", "ENOENT"), ("None", "EFAULT"), ("b'/dev/null'", "ENOTDIR")],
)
def test_root_folder_that_could_not_be_changed_is_not_told(escapes, path, error):
    """The program sees the error of the kernel, and goes on: to what is told."""
    code = f"""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.chroot({path}) == -1 and ctypes.get_errno() == errno.{error}
os.execve("./plain", ["x"], {{}})
"""
    assert escapes(sys.executable, "-S", "-c", code) == [("./plain", ENVIRONMENT)]


def test_program_that_cannot_reach_the_library_is_told(
    programs, trace_library, tmp_path
):
    """The library of a process may be hidden from what it executes."""
    library = tmp_path / "libtierscope_trace.so"
    shutil.copy(trace_library, library)
    spools = make_spools(tmp_path / "logs", this_call())
    environment = traced_environment(library, spools, [str(tmp_path)])
    code = f"import os; os.unlink({str(library)!r}); os.execv('./plain', ['x'])"
    command = [sys.executable, "-S", "-c", code]
    subprocess.run(command, env=environment, cwd=programs, timeout=HANG_S)
    (process,) = read_processes(spools)
    assert process.escapes == (("./plain", UNREACHABLE),)


def test_what_is_executed_with_the_tracer_or_cannot_be_is_not_told(escapes):
    code = """
import os, subprocess
subprocess.run(['./plain'], check=True)
for path in ('./missing', './none.c'):
    try:
        os.execve(path, ['x'], {})
    except OSError:
        pass
os.chroot('/') if os.geteuid() == 0 else None
"""
    assert escapes(sys.executable, "-S", "-c", code) == []


def test_many_escapes_are_few_sentences():
    found = [Escape("cat", ENVIRONMENT)] * 2000
    found += [Escape(f"s{i}", STATIC) for i in range(5)]
    assert escape_words(found) == [
        "cat starts without our environment: what it did (2,000 times) is in no log.",
        "s0 is linked statically: what it did is in no log.",
        "s1 is linked statically: what it did is in no log.",
        "3 more programs did not load the tracer.",
    ]


CUT = ["", "1", "x cat", "99 cat", "1 "]


@pytest.mark.parametrize("detail", [*CUT, "1 /sbin/ldconfig"])
def test_event_that_is_cut_or_of_a_tool_without_data_tells_nothing(detail):
    assert Escape.told(detail) is None
