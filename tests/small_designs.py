"""Storage that one can compute in the head, for tests of designs."""

from descriptions import describe_scenario
from tierscope.core.description import STEP
from tierscope.data.designs import Goal, Plan, Storage, Study
from tierscope.model.designs.feeding import simulate_pace

ON_GFS, ON_LFS = Storage(cache_rate_percent=0), Storage(cache_rate_percent=100)
AU = "utilisation_percent"
# Each server of the GFS reads 100 files a second, each LFS 10.
DEVICES = {
    "gfs": {
        "open_s": 0.0,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "n_osts": 1,
        "ost_bandwidth_bytes_per_s": 1e8,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 1e15,
        "request_bytes": 1_000_000,
    },
    "lfs": {
        "request_bytes": 1_000_000,
        "request_s": 0.1,
        "latency_s": 0.0,
        "processes_per_server": 1,
    },
}


def plan(per_node=1, n_files=8000, compute_time_s=0.1, steps=20, devices=DEVICES):
    """Return accelerators that take 10 files a second each: ten are fed."""
    description = describe_scenario(
        source="simulated",
        system={"n_nodes": 64, "processes_per_node": per_node, "devices": devices},
        dataset={"n_files": n_files, "file_size_bytes": 1_000_000, "batch_size": 1},
        training={
            "epochs": 1,
            "shuffle": "global",
            "seed": 1,
            "compute_time_s": compute_time_s,
            "synchronise": STEP,
        },
        scenario={
            "dataset": "tiny",
            "n_osts": 1,
            "policy": "pinning",
            "loader": "tensorflow",
        },
    )
    return Plan(description, None, False, steps)


def simulate(trials):
    return list(map(simulate_pace, trials))


def study_of(found, storages=(ON_GFS,), goal=90.0, **keys):
    """Return a study of one workload."""
    goals = {"tiny": Goal(AU, goal)}
    return Study({"tiny": found}, {"tiny": 1.0}, goals, tuple(storages), **keys)
