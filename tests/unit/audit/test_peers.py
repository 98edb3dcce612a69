import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.audit.peers import check_peers
from tierscope.data.shuffle import epoch_files
from tierscope.policies import node_policy
from tierscope.trace.peers import with_peer_reads

N_FILES, SIZE, EPOCHS, PER_NODE, N_NODES = 16, 100, 2, 2, 2
TIMES = {"read_time_s": 0.1, "write_time_s": 0.2, "meta_time_s": 0.3}


def record(rank, epoch, tier, file_id, n_read=0, n_written=0):
    """Return a row of `background_records`."""
    row = {"rank": rank, "epoch": epoch, "tier": tier, "file_id": file_id, "opens": 1}
    row |= {"reads": 2 * (n_read > 0), "bytes_read": n_read}
    return row | {"writes": int(n_written > 0), "bytes_written": n_written} | TIMES


class Recorder:
    """Writes down what the driver's tables would hold of a run on two nodes of two."""

    def __init__(self, mount=None):
        self.run = describe_run(
            **{
                "scenario": {"policy": "adhoc"},
                "point": {"cache_rate_percent": 75, "repetition": 0},
                "dataset": {
                    "name": "tiny",
                    "n_files": N_FILES,
                    "file_size_bytes": SIZE,
                    "batch_size": 4,
                },
                "training": {"shuffle": "global", "seed": 1, "epochs": EPOCHS},
                "system": {"n_nodes": N_NODES, "processes_per_node": PER_NODE},
                "policy": {"mount": mount, "server_threads": 2},
            }
        )
        self.logged, self.peer_reads, self.served, self.staged = [], [], [], []
        point = self.run.point
        policies = [node_policy(self.run, point, [], node=n) for n in range(N_NODES)]
        for node, policy in enumerate(policies):
            for number, file_id in enumerate(policy.files_of(node).tolist()):
                rank = PER_NODE * node + number % PER_NODE
                self.staged.append(record(rank, 0, "gfs", file_id, n_read=SIZE))
                if not mount:
                    self.staged.append(record(rank, 0, "lfs", file_id, n_written=SIZE))
        for epoch in range(EPOCHS):
            for rank in range(N_NODES * PER_NODE):
                files = epoch_files(
                    N_FILES,
                    rank,
                    N_NODES * PER_NODE,
                    **{"shuffle": "global", "seed": 1, "repetition": 0, "epoch": epoch},
                )
                for file_id in files.tolist():
                    self.read(policies[rank // PER_NODE], rank, epoch, file_id)

    def read(self, policy, rank, epoch, file_id):
        place = policy.begin_read(file_id)
        if place != "peer":
            row = record(rank, epoch, str(place), file_id, SIZE)
            self.logged.append(row)
            return
        owner = -1 if self.run.policy_options["mount"] else int(policy.owners[file_id])
        row = {"rank": rank, "epoch": epoch, "file_id": file_id, "owner": owner}
        times = {"time_s": 1.0, "lfs_read_time_s": 0.5, "lfs_meta_time_s": 0.25}
        self.peer_reads.append(row | {"bytes": SIZE} | times)
        if owner >= 0:
            self.served.append(record(PER_NODE * owner, epoch, "lfs", file_id, SIZE))

    def checks(self):
        columns = list(record(0, 0, "gfs", 0))
        logged = pd.DataFrame(self.logged, columns=columns)
        logged = logged.drop(columns=["writes", "bytes_written", "write_time_s"])
        peer_reads = pd.DataFrame(self.peer_reads)
        epochs = pd.DataFrame({"rank": range(4), "node": [0, 0, 1, 1]})
        return list(
            check_peers(
                with_peer_reads(logged, peer_reads),
                peer_reads,
                pd.DataFrame(self.served, columns=columns),
                pd.DataFrame(self.staged, columns=columns),
                epochs,
                self.run,
            )
        )

    def failed(self):
        """Return the names of the failed checks."""
        return [check.name for check in self.checks() if not check.passed]


@pytest.fixture
def good():
    return Recorder()


PLACE = "records on the tier that the policy chose"
ONCE = "files that stage-in read whole and exactly once"
GFS_BYTES = "bytes read from the GFS in stage-in"
AT_OWNER = "files written at the node that owns them"
ONE_OWNER = "staged files with exactly one owner"


def test_good_run_passes_and_says_what_share_was_local(good):
    assert good.failed() == []
    checks = {check.name: check for check in good.checks()}
    assert checks[GFS_BYTES].got == str(12 * SIZE)
    n_local = sum(row["tier"] == "lfs" for row in good.logged)
    share = checks["reads of staged files from the reader's LFS or a peer"]
    assert share.got.startswith(f"24, {100 * n_local / 24:.2f} % of them local (1/2:")
    assert 0 < n_local < 24


def test_run_on_a_mount_passes():
    assert Recorder(mount="/mnt").failed() == []


def test_read_from_the_gfs_of_a_staged_file_is_found(good):
    hit = next(row for row in good.logged if row["tier"] == "lfs")
    hit["tier"] = "gfs"
    assert PLACE in good.failed()


def test_read_of_a_file_that_the_dataset_does_not_have_is_found(good):
    good.logged[0]["file_id"] = N_FILES
    assert PLACE in good.failed()


def test_file_staged_in_twice_is_found(good):
    good.staged.append(good.staged[0] | {"rank": 3})
    assert good.failed() == [ONCE, GFS_BYTES]


def test_file_not_staged_in_is_found(good):
    del good.staged[:2]
    assert {ONCE, GFS_BYTES, AT_OWNER, ONE_OWNER} <= set(good.failed())


def test_half_a_file_staged_in_is_found(good):
    good.staged[0]["bytes_read"] = SIZE // 2
    assert good.failed() == [ONCE, GFS_BYTES]


def test_file_at_another_node_than_its_owner_is_found(good):
    written = good.staged[1]
    assert written["tier"] == "lfs"
    written["rank"] = (written["rank"] + PER_NODE) % 4
    assert good.failed() == [AT_OWNER]


def test_file_at_two_nodes_is_found(good):
    written = good.staged[1]
    good.staged.append(written | {"rank": (written["rank"] + PER_NODE) % 4})
    assert {"files written to any LFS", ONE_OWNER} <= set(good.failed())


def test_file_of_a_node_written_by_two_of_its_processes_has_one_owner(good):
    written = good.staged[1]
    good.staged.append(written | {"rank": written["rank"] ^ 1})
    failed = good.failed()
    assert "files written to any LFS" in failed
    assert ONE_OWNER not in failed


def test_stage_in_during_a_later_epoch_is_found(good):
    good.staged[0]["epoch"] = 1
    assert good.failed() == ["records of stage-in in later epochs"]


def test_read_from_a_node_that_does_not_own_the_file_is_found(good):
    good.peer_reads[0]["owner"] = 1 - good.peer_reads[0]["owner"]
    assert good.failed() == [
        "reads from the peer that owns the file",
        "reads from peers that their servers made",
    ]


def test_read_that_no_server_made_is_found(good):
    del good.served[0]
    assert good.failed() == [
        "records of servers that read for peers",
        "reads from peers that their servers made",
        "bytes that peers received",
    ]


def test_file_that_a_server_read_twice_is_found(good):
    good.served[0] |= {"opens": 2, "bytes_read": 2 * SIZE}
    assert good.failed() == [
        "reads from peers that their servers made",
        "bytes that peers received",
    ]


def test_read_that_took_less_than_its_lfs_is_found(good):
    good.peer_reads[0]["time_s"] = 0.7
    name = "reads from peers that took less time than the peer's LFS"
    assert good.failed() == [name]


def test_server_of_ours_beside_a_mount_is_found():
    mounted = Recorder(mount="/mnt")
    mounted.served.append(record(0, 0, "lfs", 1, SIZE))
    assert mounted.failed() == ["reads that our servers made for peers"]
