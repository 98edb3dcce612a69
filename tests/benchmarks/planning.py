"""A plan (``snakemake -n``) with nothing to do, beside a Snakefile without Python.

Our experiment is the default one in short, simulated, so it is finished in seconds. The
other Snakefile has as many rules and jobs, whose files are there, too.
"""

import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from common import ROOT, Results, progress, run, run_as_script, temporary_folder

OURS, BARE = "tierscope", "generated Snakefile"
PARTS = ("Snakefile", "workflow", "config", "resources", "environment.yml")
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
CONFIG = """\
experiment: plan
simulate: true
sweep:
  datasets: [{datasets}]
  n_osts: [60]
  cache_rates_percent: [0, 50]
  repetitions: 1
  exclude: {{}}
"""


def measure(small: bool = False) -> Results:
    """Measure the time of both plans, in turn."""
    results = Results("planning", "snakemake -n with nothing to do", small)
    with temporary_folder() as folder:
        ours, bare = folder / "ours", folder / "bare"
        _make_ours(ours, small)
        jobs = _jobs(ours)
        _make_bare(bare, jobs)
        case = f"{jobs.total()} jobs of {len(jobs)} rules"
        plans = {what: partial(_plan, at) for what, at in ((OURS, ours), (BARE, bare))}
        results.interleave(case, 1 if small else 5, plans, peers=[])
        results.compare(case, OURS, BARE)
    return results


def _make_ours(folder: Path, small: bool) -> None:
    """Copy the project and finish an experiment there."""
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
            shutil.copytree(ROOT / part, folder / part, ignore=unfinished)
        else:
            shutil.copy(ROOT / part, folder / part)
    datasets = "small" if small else "small, large"
    (folder / "plan.yaml").write_text(CONFIG.format(datasets=datasets))
    progress("planning", "an experiment to be planned")
    run([*SNAKEMAKE, "tables", "--configfile", "plan.yaml"], folder=folder)


def _jobs(folder: Path) -> Counter[str]:
    """Return how many jobs each rule has if all is done anew."""
    command = [*SNAKEMAKE, "tables", "--configfile", "plan.yaml", "-n", "--forceall"]
    table = run([*command, "--quiet", "rules"], folder=folder)
    found: Counter[str] = Counter()
    for line in table.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit() and words[0] != "total":
            found[words[0]] = int(words[1])
    return found


def _make_bare(folder: Path, jobs: Counter[str]) -> None:
    """Write a Snakefile with such rules, each on the last, and finish it."""
    folder.mkdir()
    names = list(jobs)
    last = names[-1]
    text = [f'rule all:\n    input: expand("{last}/{{n}}", n=range({jobs[last]}))']
    before = "[]"
    for name in names:
        text.append(
            f"rule of_{name}:\n    input: {before}\n"
            f'    output: "{name}/{{n}}"\n    shell: "touch {{output}}"'
        )
        before = f'expand("{name}/{{n}}", n=range({jobs[name]}))'
    (folder / "Snakefile").write_text("\n\n".join(text) + "\n")
    run(SNAKEMAKE, folder=folder)


def _plan(folder: Path) -> list[float]:
    """Return the time of a plan, in seconds."""
    ours = ["tables", "--configfile", "plan.yaml"]
    started = time.perf_counter()
    run(
        [*SNAKEMAKE, "-n", *(ours if (folder / "plan.yaml").exists() else [])],
        folder=folder,
    )
    return [time.perf_counter() - started]


if __name__ == "__main__":
    run_as_script(measure)
