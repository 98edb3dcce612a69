"""What rules ask of an analysis of logs, before and after its chunks are listed."""

import json

import pytest
from tierscope.logs.chunks.plan import ChunkPlan

MIB = 1 << 20
CHUNKS = {
    "2024-05": {"n_logs": 501, "largest_bytes": 0},
    "2024-06": {"n_logs": 3, "largest_bytes": 64 * MIB},
}


class Chunk:
    """The wildcard of a rule of a chunk."""

    chunk = "2024-05"


@pytest.fixture
def plan(tmp_path):
    """Return a function that makes a plan of two chunks; `waited` counts its waits."""

    def make(cores=8, n_changed=2):
        waited = []
        found = ChunkPlan(str(tmp_path), lambda: waited.append(1), lambda: cores)
        listed = {"chunks": CHUNKS, "n_changed": n_changed}
        (tmp_path / "listing").mkdir(exist_ok=True)
        (tmp_path / "listing" / "chunks.json").write_text(json.dumps(listed))
        found.waited = waited
        return found

    return make


def test_folders_and_tables_are_named_when_the_logs_are_listed(plan, tmp_path):
    one = plan()
    gathered = one.gathered("fleet", "logs")
    assert one.waited == []
    assert gathered(None) == [
        f"{tmp_path}/tables/{name}.parquet" for name in ("fleet", "logs")
    ]
    assert one.folders(None) == [f"{tmp_path}/chunks/{name}" for name in CHUNKS]
    assert len(one.waited) == 2


@pytest.mark.parametrize(
    ("cores", "n_changed", "threads"),
    [
        (8, 2, 3),  # no more than one for 250 logs
        (4, 2, 2),
        (4, 1, 3),  # only those that have changed share the cores
        (4, 0, 2),  # none has, so all may be read
        (1, 2, 1),
    ],
)
def test_chunks_share_the_cores_of_this_machine(plan, cores, n_changed, threads):
    assert plan(cores, n_changed).threads(Chunk) == threads


def test_a_chunk_on_another_machine_takes_four_processes_at_most(plan, tmp_path):
    one = plan(cores=None)
    assert one.threads(Chunk) == 3
    large = {"chunks": {"2024-05": {"n_logs": 9999, "largest_bytes": 0}}}
    with open(tmp_path / "listing" / "chunks.json", "w") as file:
        json.dump(large | {"n_changed": 1}, file)
    assert one.threads(Chunk) == 4


def test_the_cores_are_asked_only_for_a_chunk(tmp_path):
    """Snakemake knows neither cores nor executor while it reads rules."""

    def unknown():
        raise AttributeError("executor_plugin")

    ChunkPlan(str(tmp_path), unknown, unknown).gathered("fleet")


def test_memory_grows_with_readers_and_the_largest_log(plan):
    one, large = plan(), Chunk()
    large.chunk = "2024-06"
    assert one.memory_mib(Chunk, 2) - one.memory_mib(Chunk, 1) > 0
    assert one.memory_mib(large, 1) > one.memory_mib(Chunk, 1)
    assert one.n_logs(Chunk) == 501
