"""An analysis of logs on a real Slurm, one batch job a chunk, and what fails there."""

import os
import sys
from pathlib import Path

import pandas as pd
import sessions
import tierscope
import yaml
from integration.conftest import Project
from job_logs import holding_readers, write_job_log
from sessions import HANG_S
from slurm.cluster import ENDED, wait_until
from tierscope.core.tables import read_table
from tierscope.logs.jobs import JOB_TABLES

HERE = Path(__file__).parent
READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
YEARS = range(2020, 2023)
YEAR_S = 365.25 * 86_400
TIERS = {"gfs": "/gfs"}


class AnalysisProject(Project):
    """A project whose chunks of logs are jobs of a Slurm cluster."""

    def __init__(self, folder, cluster):
        folder.mkdir()
        super().__init__(folder, "slurm")
        self.cluster = cluster
        path = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"
        self.environment = cluster.environment | {"PATH": path}

    def command(self, *arguments, **options):
        """Return the command line, with frequent status checks."""
        _, *words = super().command(*arguments, **options)
        often = ["--slurm-init-seconds-before-status-checks", "1"]
        return [sys.executable, str(HERE / "impatient_snakemake.py"), *words, *often]

    def nodes_in_use(self):
        """Return the nodes on which jobs run."""
        return [job.nodes for job in self.cluster.jobs() if job.state == "RUNNING"]


def write_logs(folder):
    """Write logs of three years: a job each, and one that goes over a new year."""
    for year in YEARS:
        started_s = (year - 1970) * YEAR_S
        name = f"anna_train_id{year}_7-1-10-1_1.darshan"
        times = {"started_s": started_s, "ended_s": started_s + 60}
        rows = [("POSIX", rank, f"/gfs/{year}", READ) for rank in range(2)]
        path = folder / f"{year}/7/1" / name
        write_job_log(path, rows, n_processes=2, job_id=year, **times)
    for day, at_s in (("2020/12/31", -60), ("2021/1/1", 60)):
        started_s = 1_609_459_200 + at_s
        name = f"ben_solve_id7-{60 + at_s}_{day[5:].replace('/', '-')}-10-1_1.darshan"
        times = {"started_s": started_s, "ended_s": started_s + 600}
        rows = [("POSIX", 0, f"/gfs/{at_s}", READ)]
        write_job_log(folder / day / name, rows, exe="solve", job_id=7, **times)


def by_row(table):
    """Return a table with sorted rows."""
    return table.sort_values(list(table), ignore_index=True)


def test_chunks_are_jobs_and_survive_a_lost_node_and_a_killed_start(
    slurm_cluster, tmp_path, monkeypatch
):
    project = AnalysisProject(tmp_path / "project", slurm_cluster)
    write_logs(project.folder / "logs")
    config = {"experiment": "years", "logs": ["logs"], "tiers": TIERS, "pages": 1}
    config["log_timeout_s"] = 30.5
    (project.folder / "years.yaml").write_text(yaml.safe_dump(config))
    (project.folder / "hold").touch()
    given = project.environment
    project.environment = given | holding_readers(project.folder)
    running = project.start("analyse", config="years.yaml")
    project.environment = given
    try:
        assert wait_until(lambda: len(project.nodes_in_use()) >= 2)
        node = project.nodes_in_use()[0]
        slurm_cluster.set_down(node)
        assert wait_until(lambda: node not in project.nodes_in_use())
        slurm_cluster.resume(node)
        running.kill()
        running.communicate(timeout=HANG_S)
        (project.folder / "hold").unlink()
        output = project.snakemake("analyse", config="years.yaml")
    finally:
        (project.folder / "hold").unlink(missing_ok=True)
        sessions.end_all()
        left = [job.id for job in slurm_cluster.jobs() if job.state not in ENDED]
        slurm_cluster.cancel(*left)
    assert "5 of 5 logs can be used. Jobs: 4." in output
    assert sum("read_chunk" in job.comment for job in slurm_cluster.jobs()) >= len(
        YEARS
    )
    monkeypatch.chdir(project.folder)
    expected = tierscope.analyse("logs", TIERS)
    tables = project.folder / "results" / "years" / "tables"
    for name in set(JOB_TABLES) - {"job_combinations"}:  # which are of jobs with a page
        found = read_table(tables / f"{name}.parquet", name)
        table = expected[name]
        if name == "job_combinations":  # of the one job with a page
            table = table[table["job"].isin(found["job"])]
        pd.testing.assert_frame_equal(by_row(found), by_row(table), obj=name)
    jobs = expected["jobs"].set_index("job")["n_logs"]
    assert jobs["solve-7"] == 2
    again = project.snakemake("analyse", config="years.yaml")
    assert "Reading Darshan logs" not in again
