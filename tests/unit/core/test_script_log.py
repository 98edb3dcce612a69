"""Scripts of rules begin in one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
OF_RULES = [p for p in SCRIPTS.glob("*.py") if "snakemake.log" in p.read_text()]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from tierscope.core.script_log import log_to
log_to(sys.argv[2])
print("\\u00e9")
print(open(sys.argv[2], encoding="utf-8").read(), end="")
sys.exit("tierscope: no")
"""


def test_what_a_script_prints_is_in_its_log_at_once(tmp_path):
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", CODE, SCRIPTS, log],
        env={"LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    assert log.read_text("utf-8") == "é\né\ntierscope: no\n"


@pytest.mark.parametrize("script", OF_RULES, ids=lambda path: path.stem)
def test_script_begins_with_its_log_and_names_it_once(script):
    text = script.read_text()
    glue = ast.parse(text).body[-1]
    assert ast.unparse(glue.test) == "__name__ == '__main__'"
    assert ast.unparse(glue.body[0]) == "log_to(snakemake.log[0])"
    assert text.count("snakemake.log") == 1
    assert "sys.stdout" not in text
