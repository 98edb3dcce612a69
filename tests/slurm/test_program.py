"""Programs of the user on three of four nodes of a real Slurm, started by srun."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from integration.conftest import ROOT, TINY_SYSTEM
from integration.programs import Programs, in_memory
from sessions import HANG_S
from slurm.cluster import MARK, free_ports
from slurm.test_sweep import SlurmProject

N_FILES, N_NODES, N_RANKS, RATES = 48, 3, 6, [50, 100]
POLICIES = ["pinning", "monarch"]
N_RUNS = len(RATES) * len(POLICIES)
N_EPOCHS = 2 * N_RUNS  # of all runs
# A file `hold` names the run that stops in the middle of its second epoch.
PROGRAM = """\
import os, random, sys, time
root = sys.argv[1]
rank, size = (int(os.environ[n]) for n in ("SLURM_PROCID", "SLURM_NTASKS"))
names = sorted(os.listdir(root))
with open(f"began-{rank}", "a") as began:
    began.write(".")
n_begun = os.path.getsize(f"began-{rank}")
holds = os.path.exists("hold") and open("hold").read() == str(n_begun)
for epoch in range(2):
    try:
        open(f"{root}/.tierscope-epoch-{epoch}")
    except FileNotFoundError:
        pass
    mine = random.Random(epoch).sample(names, len(names))[rank::size]
    for number, name in enumerate(mine):
        if holds and epoch == 1 and number == len(mine) // 2:
            open(f"reached-{rank}", "w").close()
            time.sleep(1000)
        open(f"{root}/{name}", "rb").read()
"""


class SweptProgram(SlurmProject):
    """A project that sweeps the program over policies and cache rates."""

    def __init__(self, folder: Path, cluster, *policies: str, rates=RATES, **job):
        super().__init__(folder, cluster)
        self.change(TINY_SYSTEM, {"n_nodes": N_NODES, "processes_per_node": 2})
        self.change_job(**job)
        (folder / "data").mkdir()
        for number in range(N_FILES):
            content = number.to_bytes(2, "big") * (500 + number)
            (folder / "data" / f"{number:02d}").write_bytes(content)
        (folder / "program.py").write_text(PROGRAM)
        scenario = {"dataset": "mine", "n_osts": 0, "loader": "program"}
        swept = {name: [scenario[name[:-1]]] for name in ("datasets", "loaders")}
        swept |= {"n_osts": [0], "policies": [*policies], "repetitions": 1}
        loader = {
            "command": ["python", "program.py", "{dataset}"],
            "minutes": 5,
            "memory_gib_per_process": 0.2,
        }
        sections = {
            "loader": loader,
            "datasets": {"mine": {"path": "data"}},
            "sweep": swept | {"cache_rates_percent": rates},
            "figures": {
                "scenario": scenario | {"policy": policies[0]},
                "methods": ["rule"],
            },
        }
        self.change("config/tiny.yaml", sections)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of all runs."""
        return pd.read_parquet(self.path("tables", f"{name}.parquet"))

    def opens(self, policy: str, rate: int) -> dict[tuple, int]:
        """Return how often ranks opened files in the run at a cache rate.

        With a policy that copies while the program runs, tiers differ from run to run.
        """
        pattern = f"*-{policy}-*/cache-{rate:03d}/*/opens.parquet"
        (path,) = self.path("runs").glob(pattern)
        keys = ["tier"] * (policy == "pinning") + ["rank", "epoch", "file_id"]
        return pd.read_parquet(path).groupby(keys)["opens"].sum().to_dict()

    def nodes_in_memory(self) -> list[str]:
        """Return the nodes of which there is a folder in memory, sorted."""
        return sorted(path.name.split("-")[2] for path in in_memory(self.folder))

    def assert_nothing_left(self) -> None:
        """Assert that no job, no LFS, no half run and no memory is left."""
        super().assert_nothing_left()
        assert self.nodes_in_memory() == []
        assert not [*self.path("staging").rglob("*")]


@pytest.fixture(scope="module")
def swept(tmp_path_factory, slurm_cluster):
    """Return a project with runs of the program, two by each policy."""
    folder = tmp_path_factory.mktemp("program")
    project = SweptProgram(folder, slurm_cluster, *POLICIES)
    names = ("io_time", "statements", "epochs")
    project.snakemake(*(f"results/tiny/tables/{name}.parquet" for name in names))
    return project


def test_each_node_has_an_lfs_a_table_and_a_keeper_of_its_own(swept):
    runs = swept.runs()
    assert len({run["scheduler_job"] for run in runs}) == len(runs) == N_RUNS
    for run in runs:
        assert len(set(run["hosts"])) == N_NODES
        assert len(run["tier_roots"]["lfs"]) == N_NODES
        assert run["n_processes"] == N_RANKS
        assert run["observed"]["lost_events"] == 0
    swept.assert_nothing_left()


def test_every_epoch_reads_every_file_once_from_the_decided_tier(swept):
    statements = swept.table("statements")
    wanted = ("tier", "seen", "epochs", "cover", "once", "whole")
    answers = statements[statements["statement"].isin(wanted)]["answer"]
    assert len(answers) == 3 * N_RUNS + 3 * N_EPOCHS
    assert set(answers) == {"yes"}
    (run,) = (
        run
        for run in swept.runs()
        if run["point"]["cache_rate_percent"] == 50
        and run["scenario"]["policy"] == "pinning"
    )
    held = set(run["observed"]["lfs_files"])
    opens = [tier for tier, _, epoch, _ in swept.opens("pinning", 50) if epoch == 1]
    assert held == {opens.count("lfs")} == {N_FILES - opens.count("gfs")}


def test_io_time_has_every_rank_and_epoch(swept):
    io_time, epochs = swept.table("io_time"), swept.table("epochs")
    assert len(io_time) == N_EPOCHS * N_RANKS * 4
    assert len(epochs) == N_EPOCHS * N_RANKS
    assert sorted(epochs["node"].unique()) == list(range(N_NODES))
    opens = io_time[io_time["io_class"].str.endswith("meta")]["operations"].sum()
    assert opens == N_EPOCHS * N_FILES


def run_again_by_the_next_start(project, running, job, ranks):
    """Start again when Snakemake has ended; if Slurm has requeued the job, end both."""

    def has_ended():
        is_requeued = any(one.n_restarts for one in project.active_jobs())
        return is_requeued or running.poll() is not None

    project.wait_until(has_ended)
    if running.poll() is None:
        running.send_signal(signal.SIGINT)
    running.communicate(timeout=HANG_S)
    assert running.returncode != 0
    project.snakemake("audits")


def run_again_by_the_cluster(project, running, job, ranks):
    """Wait until Slurm runs the job again, or Snakemake another one."""

    def is_requeued():
        jobs = project.active_jobs()
        return any(one.n_restarts or one.id != job.id for one in jobs)

    project.wait_until(is_requeued, running)
    project.wait_until(lambda: not ranks & set(project.ranks()), running)

    def runs_again():
        with suppress(subprocess.CalledProcessError):  # it has begun, or is another one
            project.cluster.start_now(job.id)
        return any(one.state == "RUNNING" for one in project.active_jobs())

    project.wait_until(runs_again, running)
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 0, output


@pytest.mark.parametrize(
    ("run_again", "retries", "rates"),
    [(run_again_by_the_next_start, 0, RATES), (run_again_by_the_cluster, 1, [50])],
    ids=["next start", "requeue"],
)
def test_sweep_of_which_a_node_goes_down_ends_with_equal_counts(
    swept, tmp_path, run_again, retries, rates
):
    """The last run is the one that loses a node."""
    folder, cluster = tmp_path / "project", swept.cluster
    project = SweptProgram(folder, cluster, "monarch", rates=rates, retries=retries)
    (folder / "hold").write_text(str(len(rates)))
    running = project.start("audits")
    project.wait_until(lambda: len([*folder.glob("reached-*")]) == N_RANKS, running)
    (job,) = (job for job in project.active_jobs() if job.state == "RUNNING")
    nodes = cluster.run("scontrol", "show", "hostnames", job.nodes).split()
    assert project.nodes_in_memory() == nodes
    assert len([*folder.glob("scratch/lfs-*/*/node-*")]) == N_NODES
    before, ranks = project.runs(), set(project.ranks())
    assert len(before) == len(rates) - 1
    cluster.set_down(nodes[-1])  # another one than that of the job's script
    try:
        run_again(project, running, job, ranks)
    finally:
        cluster.resume(nodes[-1])
    assert [run for run in project.runs() if run in before] == before
    assert project.rates() == rates
    for rate in rates:
        assert project.opens("monarch", rate) == swept.opens("monarch", rate)
    project.assert_nothing_left()


# Loops that a hook would count.
LOOPS = """
import ctypes
rank, size = (int(os.environ[name]) for name in ("SLURM_PROCID", "SLURM_NTASKS"))
libc = ctypes.CDLL(None)
first = libc.tierscope_first_epoch()
for epoch in range(first, first + 2):
    libc.tierscope_epoch(epoch)
    for name in names[rank::size]: read(name)
"""


def srun(cluster, *options: str) -> str:
    """Return the shell text of a srun that makes an allocation of its own."""
    words = [f"{MARK}={cluster.folder}", f"{cluster.folder}/bin/srun", "--mpi=none"]
    return " ".join(["env", *words, *options])


def test_two_calls_of_srun_in_the_command_go_on_with_the_epochs(
    tmp_path, slurm_cluster
):
    programs = Programs(tmp_path)
    step = f'{srun(slurm_cluster, "--nodes=1", "--ntasks=2")} "$@"'
    program = programs.python(LOOPS)
    run = programs.run(["sh", "-c", f"{step} && {step}", "sh", *program])
    assert run.failed == []
    opens = run.evidence.opens.groupby(["epoch", "rank"])["opens"].sum()
    assert opens.to_dict() == {
        (epoch, rank): 12 for epoch in range(4) for rank in (0, 1)
    }
    assert run.said(3)["once"][0] == run.said(3)["cover"][0] == "yes"


PYTHON = ROOT / ".venv-programs" / "bin" / "python"
CLIENT = ROOT / "tests" / "programs" / "clients" / "pytorch_client.py"
TORCHRUN = """exec "$0" -m torch.distributed.run --nnodes 2 --nproc-per-node 2 \
--node-rank $SLURM_NODEID --master-addr 127.0.0.1 --master-port {port} "$@"
"""


def test_torchrun_on_each_node_numbers_the_ranks_of_all_nodes(tmp_path, slurm_cluster):
    """Each `torchrun` has a rank of srun, which one of its ranks may have, too."""
    if not PYTHON.exists():
        pytest.skip("needs PyTorch: make programs-env")
    options = ("--nodes=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1")
    launcher = srun(slurm_cluster, *options)
    programs = Programs(tmp_path, n_nodes=2, launcher=launcher)
    (tmp_path / "truth").mkdir()
    (port,) = free_ports(1)
    options = ["--ddp", "--epochs", "2", f"--truth={tmp_path}/truth"]
    client = [str(CLIENT), *options, "--data={dataset}"]
    command = ["sh", "-c", TORCHRUN.format(port=port), str(PYTHON), *client]
    run = programs.run(command)
    assert run.failed == []
    opens = run.evidence.opens.groupby(["epoch", "rank", "node"])["opens"].sum()
    assert opens.to_dict() == {
        (epoch, rank, rank // 2): 3 for epoch in (0, 1) for rank in range(4)
    }
    assert run.said(1)["once"][0] == "yes"
    epochs = run.evidence.epochs
    assert epochs["rank"].tolist() == [0, 1, 2, 3] * 2
    assert epochs["node"].tolist() == [0, 0, 1, 1] * 2
