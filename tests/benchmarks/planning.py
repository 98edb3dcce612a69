"""A plan (``snakemake -n``) with nothing to do, beside a Snakefile without Python.

Our experiment is the default one in short, simulated, so it is finished in seconds. The
other Snakefile has as many rules and jobs, whose files are there, too. Both plans must
say that nothing is to be done.
"""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import ROOT, Results, progress, run, run_as_script, temporary_folder

OURS, BARE = "tierscope", "generated Snakefile"
PARTS = ("Snakefile", "workflow", "config", "resources", "environment.yml")
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
OUR_TARGET = ["tables", "--configfile", "plan.yaml"]
NOTHING_TO_BE_DONE = "Nothing to be done"
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
        jobs = _jobs(ours, OUR_TARGET)
        _make_bare(bare, jobs)
        case = f"{jobs.total()} jobs of {len(jobs)} rules"
        n_bare = _jobs(bare, []).total() - 1  # but for its target
        results.count(case, BARE, "jobs", n_bare, jobs.total())
        results.count(case, OURS, "jobs", jobs.total(), n_bare)
        plans = {
            OURS: partial(_plan, results, case, OURS, ours, OUR_TARGET),
            BARE: partial(_plan, results, case, BARE, bare, []),
        }
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
    run([*SNAKEMAKE, *OUR_TARGET], folder=folder)


def _jobs(folder: Path, target: Sequence[str]) -> Counter[str]:
    """Return how many jobs each rule has if all is done anew."""
    command = [*SNAKEMAKE, *target, "-n", "--forceall", "--quiet", "rules"]
    table = run(command, folder=folder)
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


def _plan(
    results: Results, case: str, what: str, folder: Path, target: Sequence[str]
) -> list[float]:
    """Return the time of a plan, in seconds; count that it says what a plan must."""
    started = time.perf_counter()
    plan = run([*SNAKEMAKE, "-n", *target], folder=folder)
    seconds = time.perf_counter() - started
    n_said = plan.count(NOTHING_TO_BE_DONE)
    results.count(case, what, "plans with nothing to do", n_said, 1)
    return [seconds]


if __name__ == "__main__":
    run_as_script(measure)
