"""Which functions of libc the library that redirects opens wraps."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "workflow" / "native" / "README.md"
HEADERS = [
    *["dirent.h", "fcntl.h", "fts.h", "ftw.h", "glob.h", "mntent.h", "spawn.h"],
    *["stdio.h", "stdlib.h", "sys/inotify.h", "sys/stat.h", "sys/statfs.h"],
    *["sys/statvfs.h", "sys/time.h", "sys/vfs.h", "sys/xattr.h", "unistd.h", "utime.h"],
]
PATH = (
    r"char \*(?:__restrict |const \*)?__(file|filename|path|name|from|to|old|new|dir|"
)
PATH += r"template|pattern)\b"
# Their names are of something else.
NO_PATHS = {
    *["fgetxattr", "fsetxattr", "fremovexattr", "getdomainname", "gethostname"],
    *["getenv", "getlogin_r", "secure_getenv", "setdomainname", "setenv", "unsetenv"],
    *["sethostname", "setlogin", "glob_pattern_p"],
}


@pytest.fixture(scope="module")
def wrapped(redirect_library):
    """Return the functions that the library defines for programs."""
    if not shutil.which("nm"):
        pytest.skip("needs nm of binutils")
    command = ["nm", "--dynamic", "--defined-only", redirect_library]
    lines = subprocess.check_output(command, text=True).splitlines()
    names = {line.split()[-1] for line in lines}
    return {name for name in names if not name.startswith("tierscope_")}


def names_in(text):
    """Return the functions that a part of the page names."""
    return set(re.findall(r"`(\w+)`", text))


@pytest.fixture(scope="module")
def page():
    """Return the lines of the page's table of functions, and what follows it."""
    text = PAGE.read_text()
    start = text.index("| functions | what they reach |")
    table, _, rest = text[start:].partition("\n\n")
    return table, rest.partition("\n\n")[0]


def test_table_of_the_docs_names_what_is_wrapped(wrapped, page):
    table, _ = page
    functions = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert names_in(" ".join(functions)) == wrapped


def test_every_function_with_a_path_is_wrapped_or_named_as_not_wrapped(wrapped, page):
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    text = subprocess.run(
        ["cc", "-E", "-P", "-D_GNU_SOURCE", "-"],
        input=includes,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    calls = re.findall(r"(\w+) \(((?:[^()]|\([^()]*\))*)\)", " ".join(text.split()))
    taking = {name for name, parameters in calls if re.search(PATH, parameters)}
    assert len(taking & wrapped) > 90
    assert taking - wrapped - NO_PATHS == names_in(page[1]) & taking
    assert not names_in(page[1]) & wrapped
