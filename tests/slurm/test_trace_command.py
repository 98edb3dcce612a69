"""Steps of a real Slurm that `tierscope trace` traces, inside and outside of srun."""

import sys
from pathlib import Path

import pytest
import tierscope

COMMAND = Path(__file__).parents[2] / "workflow" / "scripts" / "tierscope_command.py"
READ = """
import os, sys
for number in range(int(os.environ["SLURM_PROCID"]) + 1):
    with open(f"{sys.argv[1]}/{number}", "rb", buffering=0) as file:
        file.read()
"""


@pytest.mark.parametrize("is_inside", [True, False])
def test_ranks_of_a_step_are_one_job(slurm_cluster, tmp_path, is_inside):
    """Rank r of 4 on two nodes reads r + 1 files."""
    data, logs, script = tmp_path / "data", tmp_path / "logs", tmp_path / "read.py"
    data.mkdir()
    for number in range(4):
        (data / f"{number}").write_bytes(bytes(1000 + number))
    script.write_text(READ)
    trace = [sys.executable, COMMAND, "trace", "--paths", data, "--logs", logs, "--"]
    srun = ["srun", "--nodes=2", "--ntasks-per-node=2", f"--chdir={tmp_path}"]
    both = [*srun, *trace] if is_inside else [*trace, *srun]
    slurm_cluster.run(*map(str, [*both, sys.executable, script, data]))
    tables = tierscope.analyse(logs, {"data": str(data)})
    assert tables["refusals"].empty
    (job,) = tables["jobs"].itertuples()
    assert (job.n_processes, job.n_logs, job.exe) == (4, 4, "read.py")
    assert "ranks of the launcher" in job.grouped_by
    times = tables["job_times"].query("operation == 'read'").set_index("rank")
    expected = {rank: sum(range(1000, 1001 + rank)) for rank in range(4)}
    assert times["bytes"].to_dict() == expected
