"""Print what profile fugaku submits for one benchmark: script, pjsub line, command.

    python show_submission.py CONFIG_YAML

Nothing is submitted and no result is changed: Snakemake works in a separate folder with
placeholders for the dataset and the scenario.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from snakemake.utils import update_config
from tierscope.core.files import write_text
from tierscope.core.output.streams import answer
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.launches import missing_launches, run_folder

ROOT = Path(__file__).parents[2]
SCRIPT = re.compile(r"^#!/bin/bash$.*?(?=^\[|\Z)", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"^ +shell:\n +(.*?)\n +\(command exited", re.DOTALL | re.MULTILINE
)


def prepare(folder: Path, config: Path) -> str:
    """Make the inputs of a point and return the output of its launch."""
    merged = read_yaml(ROOT / "config" / "config.yaml")
    update_config(merged, read_yaml(config))
    experiment = read_experiment(merged, ROOT / "resources")
    scenario, points = next(iter(experiment.sweep.items()))
    runs = f"results/{experiment.name}/runs/{scenario.name}"
    dataset = f"{scenario.dataset}-{scenario.n_osts}ost.parquet"
    for path, end in (  # so that they seem whole
        (folder / f"results/{experiment.name}/datasets/{dataset}", "PAR1"),
        (folder / runs / "scenario.json", "{}"),
    ):
        write_text(path, end)
    (folder / "config").mkdir()
    (folder / "config/config.yaml").symlink_to(ROOT / "config/config.yaml")
    results = Path(f"results/{experiment.name}")
    launches = missing_launches(experiment, folder / results)
    run = run_folder(folder / results, scenario, points[-1])
    return str(results / launches[str(run)].marker)


def submission(config: Path) -> str:
    """Return script, pjsub line and command of the last point of a first scenario.

    Raises
    ------
    RuntimeError
        With Snakemake's output, if it contains no submission.
    """
    with tempfile.TemporaryDirectory(prefix="tierscope-") as folder:
        target = prepare(Path(folder), config)
        command = [sys.executable, "-m", "snakemake", "--profile", "fugaku"]
        command += ["--directory", folder, "--printshellcmds"]
        command += ["--pjm-print-only", target, "--configfile", str(config.resolve())]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={
                "TIERSCOPE_GFS_ROOT": "/2ndfs/GROUP/tierscope",
                **os.environ,
                "PYTHONHASHSEED": "0",  # as Snakemake uses sets of files
            },
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    # The plugin prints the script and Snakemake logs the command, on two streams.
    script, command = SCRIPT.search(done.stdout), COMMAND.search(done.stderr)
    if not (script and command):
        printed = done.stdout + done.stderr
        raise RuntimeError(f"got no submission, Snakemake printed:\n{printed}")
    text = f"{script[0].rstrip()}\n\n# In the job Snakemake runs\n{command[1]}\n"
    # Replace the paths of the project and the folder.
    return text.replace(folder, "/PROJECT").replace(str(ROOT), "/PROJECT")


if __name__ == "__main__":
    answer(submission(Path(sys.argv[1])).rstrip("\n"))
