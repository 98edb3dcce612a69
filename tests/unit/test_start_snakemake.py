"""The start of Snakemake, with a Snakemake that only tells how it was started."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "start_snakemake.py"


def test_snakemake_makes_no_folder_that_all_users_may_change(tmp_path):
    (tmp_path / "snakemake").mkdir()
    tells = "import os\ndef main(): print(oct(os.umask(0)))\n"
    (tmp_path / "snakemake" / "cli.py").write_text(tells)
    (tmp_path / "snakemake" / "__init__.py").touch()
    told = subprocess.check_output(
        [sys.executable, SCRIPT],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        umask=0,
        text=True,
    )
    assert told == "0o2\n"
