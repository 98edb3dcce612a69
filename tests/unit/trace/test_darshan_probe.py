"""What makes a library useless as Darshan runtime is said before MPI starts with it."""

import re
import shutil
import subprocess

import pytest
from tierscope.core.validation import ConfigError
from tierscope.trace.runtime import check_darshan_runtime

CORE = "void darshan_core_register_module(void) {}"
INIT = "int MPI_Init(void) { return 0; }"


@pytest.fixture
def compile_to(tmp_path):
    """Return a function that compiles C code to a library and returns its path."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")

    def compile_it(code, name="libdarshan.so", *options):
        (tmp_path / "code.c").write_text(code)
        command = [compiler, "-shared", "-fPIC", "-o", name, "code.c", *options]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
        return tmp_path / name

    return compile_it


def refusal(library):
    """Return the line that refuses a library."""
    with pytest.raises(ConfigError) as refused:
        check_darshan_runtime(library)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{library}: ")
    return line.removeprefix(f"{library}: ")


def test_library_with_darshans_functions_and_no_other_mpi_will_do(compile_to):
    check_darshan_runtime(compile_to(f"{CORE} {INIT}"))


def test_missing_library_is_refused(tmp_path):
    words = "got no file, expected the path of a libdarshan.so."
    assert refusal(tmp_path / "libdarshan.so") == words


def test_file_that_is_no_library_is_refused(tmp_path):
    (tmp_path / "libdarshan.so").write_text("not for this machine")
    assert re.fullmatch(
        r"cannot be loaded: .*: (invalid ELF header|file too short)\.",
        refusal(tmp_path / "libdarshan.so"),
    )


def test_library_that_is_no_darshan_is_refused(compile_to):
    assert "is not a Darshan runtime" in refusal(compile_to(INIT))


def test_darshan_without_mpi_is_refused(compile_to):
    assert "without MPI" in refusal(compile_to(CORE))


def test_darshan_of_another_mpi_is_refused_by_name(compile_to, tmp_path):
    other = compile_to(INIT, "libmpi.so.40", "-Wl,-soname,libmpi.so.40")
    options = ["-Wl,--no-as-needed", other, f"-Wl,-rpath,{tmp_path}"]
    words = refusal(compile_to(f"{CORE} {INIT}", "libdarshan.so", *options))
    assert re.fullmatch(
        rf"is built for MPI {other}, expected that of mpi4py, /\S*libmpi\S*: "
        "build it with the mpicc of that MPI.",
        words,
    )


def test_library_that_breaks_the_probe_is_refused_with_its_end(compile_to):
    code = "__attribute__((constructor)) static void end(void) { __builtin_trap(); }"
    words = refusal(compile_to(f"{CORE} {INIT} {code}"))
    assert words.startswith("cannot be loaded together with MPI: exit code -")
