"""Whether a command loads our libraries is tried before it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import HANG_S
from shared import made_once
from tierscope.logs.traced.escapes import REASONS
from tierscope.logs.traced.trial import programs_of, why_not_loaded

PYTHON = str(Path(sys.executable).resolve())


def compile_libraries(folder: Path) -> None:
    """Compile a library that needs another one, and remove this."""
    (folder / "empty.c").write_text("")
    for name, *flags in (
        ("libgone.so",),
        ("libneeds.so", f"-L{folder}", "-Wl,--no-as-needed", "-lgone"),
    ):
        words = ["cc", "-shared", "-fPIC", "-o", folder / name, folder / "empty.c"]
        subprocess.run([*words, *flags], check=True, timeout=HANG_S)
    (folder / "libgone.so").unlink()


def tried(command, *libraries):
    """Return what is said of a command that preloads libraries."""
    preload = ":".join(map(str, libraries))
    return why_not_loaded(command, libraries, os.environ | {"LD_PRELOAD": preload})


def script(path, line):
    """Make a script with a first line."""
    path.write_text(f"{line}\necho must not run\n")
    path.chmod(0o755)
    return str(path)


def test_program_that_loads_all_libraries_is_not_started(
    tmp_path, trace_library, redirect_library
):
    marks = f"open({str(tmp_path / 'started')!r}, 'w')"
    command = [PYTHON, "-c", marks]
    assert tried(command, redirect_library, trace_library) == ""
    assert not (tmp_path / "started").exists()


def test_library_that_cannot_be_loaded_is_named_with_the_reason(
    tmp_path, trace_library
):
    (tmp_path / "short.so").write_text("x")
    line = tried([PYTHON], trace_library, tmp_path / "short.so")
    assert line == f"{PYTHON} does not load {tmp_path}/short.so (file too short)"
    needs = made_once("needing-library", compile_libraries) / "libneeds.so"
    assert tried([PYTHON], trace_library, needs) == (
        f"{PYTHON} does not load all of it (libgone.so => not found)"
    )


def test_library_of_the_user_that_is_left_out_hinders_nothing(tmp_path, trace_library):
    gone, short = tmp_path / "gone.so", tmp_path / "short.so"
    preload = {"LD_PRELOAD": f"{trace_library}:{gone}"}
    assert why_not_loaded([PYTHON], [trace_library], os.environ | preload) == ""
    short.write_text("x")
    preload = {"LD_PRELOAD": f"{trace_library}:{gone}:{short}"}
    ours = [trace_library, short]
    assert why_not_loaded([PYTHON], ours, os.environ | preload) == (
        f"{PYTHON} does not load {short} (file too short)"
    )


def test_program_that_may_start_others_counts_only_if_asked(tmp_path, trace_library):
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    static = str(tmp_path / "static")
    command = ["cc", "-static", "-o", static, tmp_path / "main.c"]
    if subprocess.run(command, check=False, timeout=HANG_S).returncode:
        pytest.skip("needs a static C library")
    assert tried([static], trace_library) == ""
    said = why_not_loaded([static], [trace_library], os.environ, REASONS)
    assert said == f"{static} is linked statically"


def test_command_is_followed_to_the_program_behind_scripts_and_env(tmp_path):
    env = "/usr/bin/env"
    direct = script(tmp_path / "direct", f"#! {PYTHON} -u")
    by_env = script(tmp_path / "by env", f"#!{env} -S A=1 -u B '{PYTHON}' -I")
    outer = script(tmp_path / "outer", f"#!{direct}")
    assert programs_of([direct]) == programs_of([outer]) == [PYTHON]
    assert programs_of([by_env, "x"]) == [env, PYTHON]
    assert programs_of(["env", "-S", f"A=1 {PYTHON} -u"], "/usr/bin") == [env, PYTHON]
    assert programs_of([env, "-C", "/", PYTHON]) == [env, PYTHON]


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["no-such-program"],
        ["/usr/bin/env", "-i", PYTHON],  # with an environment that is not ours
        ["/usr/bin/env", "A=1"],
        ["/usr/bin/env", "-S"],
        ["/usr/bin/env", "-S", f"{PYTHON} 'a"],
    ],
)
def test_nothing_is_said_of_a_program_that_is_not_known(command, trace_library):
    assert PYTHON not in programs_of(command)
    assert tried(command, trace_library) == ""
