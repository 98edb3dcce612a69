import pandas as pd
import pytest
from descriptions import changed, describe_run
from tierscope.audit.decisions import (
    check_decisions,
    n_broken_rules,
    n_differences,
    room_of,
)
from tierscope.core.columns import AFTER_TRAINING
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.data.shuffle import RunOrder, epoch_files
from tierscope.policies import Copy, node_policy
from tierscope.trace.background import sum_background

N_FILES, SIZE, EPOCHS, PER_NODE = 12, 100, 3, 2
OPTIONS = {"copy_threads": 2, "drain": True, "hand_over": True, "stop": "first-misfit"}


def describe(policy):
    return describe_run(
        **{
            "scenario": {"policy": policy},
            "point": {"cache_rate_percent": 50, "repetition": 0},
            "dataset": {"n_files": N_FILES, "file_size_bytes": SIZE},
            "training": {"shuffle": "global", "seed": 1, "epochs": EPOCHS},
            "system": {"n_nodes": 2, "processes_per_node": PER_NODE},
            "policy": OPTIONS,
        }
    )


class Recorder:
    """Plays a run of two nodes and writes down what the driver's tables would hold.

    Ranks read in turn; every second copy is handed over, all end at once.
    """

    def __init__(self, policy):
        self.run = describe(policy)
        self.decisions, self.records, self.background = [], [], []
        for node in range(2):
            self.play(node)

    def play(self, node):
        ranks = range(node * PER_NODE, (node + 1) * PER_NODE)
        policy = node_policy(self.run, self.run.point, ranks)
        steps, first = [], ranks[0]

        def add(event, epoch, file_id, place, rank=first, detail=""):
            row = {"node": node, "step": len(steps), "time_s": 0.0, "event": event}
            row |= {"epoch": epoch, "rank": rank, "file_id": file_id}
            steps.append(row | {"place": place, "detail": detail})

        def copied(epoch, file_id, tier, n_read, n_written):
            row = {"rank": first, "epoch": epoch, "tier": tier, "file_id": file_id}
            row |= {"opens": 1, "reads": 2 * (n_read > 0), "bytes_read": n_read}
            row |= {"writes": int(n_written > 0), "bytes_written": n_written}
            times = {"read_time_s": 0.1, "write_time_s": 0.2, "meta_time_s": 0.3}
            self.background.append(row | times)

        def carry_out(actions, epoch):
            for action in actions:
                event = "copy" if isinstance(action, Copy) else "evict"
                add(event, epoch, action.file_id, "lfs")
            for action in filter(lambda a: isinstance(a, Copy), actions):
                again = action.file_id % 2
                if again:
                    copied(epoch, action.file_id, "gfs", SIZE, 0)
                copied(epoch, action.file_id, "lfs", 0, SIZE)
                detail = "read again" if again else "handed over"
                add("placed", epoch, action.file_id, "lfs", detail=detail)
                carry_out(policy.placed(action.file_id), epoch)

        carry_out(policy.start(), 0)
        for epoch in range(EPOCHS):
            for rank in ranks:
                files = epoch_files(
                    N_FILES,
                    rank,
                    2 * PER_NODE,
                    **{"shuffle": "global", "seed": 1, "repetition": 0, "epoch": epoch},
                )
                for file_id in files.tolist():
                    place = policy.begin_read(file_id)
                    add("begin", epoch, file_id, str(place), rank)
                    self.records.append(
                        {
                            "rank": rank,
                            "epoch": epoch,
                            "tier": str(place),
                            "file_id": file_id,
                        }
                    )
                    add("end", epoch, file_id, str(place), rank)
                    carry_out(policy.end_read(file_id, place), epoch)
        self.decisions += steps

    def checks(self):
        """Return all checks by their names."""
        checks = check_decisions(
            pd.DataFrame(self.records),
            pd.DataFrame(self.decisions),
            pd.DataFrame(self.background),
            self.run,
        )
        return {check.name: check for check in checks}

    def failed(self):
        """Return the names of the failed checks."""
        return [name for name, check in self.checks().items() if not check.passed]

    def first(self, event, **wanted):
        """Return the first row of decisions of this kind."""
        wanted = {"event": event, **wanted}
        return next(row for row in self.decisions if wanted.items() <= row.items())


@pytest.fixture(params=["monarch", "lru"])
def good(request):
    return Recorder(request.param)


LFS_RULES = "reads and copies that the contents of the LFS forbid"
POLICY = "decisions that the policy would not have made"


def test_good_run_passes_and_its_tables_keep_their_contracts(good):
    assert good.failed() == []
    check_table(pd.DataFrame(good.decisions), "decisions")
    check_table(pd.DataFrame(good.background), "background_records")


def test_clairvoyant_nodes_share_the_orders_of_the_epochs(monkeypatch):
    calls = []
    shuffled = RunOrder.of_process

    def counted(*arguments):
        calls.append(arguments)
        return shuffled(*arguments)

    recorder = Recorder("clairvoyant")
    monkeypatch.setattr(RunOrder, "of_process", counted)
    assert recorder.failed() == []
    assert calls == []  # no node deals the whole dataset anew


def test_read_from_another_tier_than_decided_is_found(good):
    good.records[0]["tier"] = "lfs"
    assert good.failed() == ["records on the tier that the policy chose"]


def test_read_that_nobody_decided_is_found(good):
    good.decisions.remove(good.first("begin"))
    assert "reads with a decision" in good.failed()


def test_decision_for_a_file_that_is_not_on_the_lfs_is_found(good):
    for row in (good.first("begin"), good.first("end"), good.records[0]):
        row["tier" if "tier" in row else "place"] = "lfs"
    assert good.failed() == [POLICY, LFS_RULES]
    checks = good.checks()
    assert int(checks[LFS_RULES].got) == 1
    assert int(checks[POLICY].got) > 0


def test_actions_that_a_log_leaves_out_are_counted():
    run = describe("clairvoyant")
    policy = [node_policy(run, run.point, range(PER_NODE)) for _ in range(2)]
    due = policy[0].start()
    assert due
    assert n_differences([], policy[1]) == len(due)


def test_rows_after_an_end_of_what_was_not_begun_all_count(good):
    rows = [row for row in good.decisions if row["node"] == 0][:5]
    stray = rows[0] | {"event": "placed", "place": "lfs", "file_id": 11}
    run, ranks = good.run, range(PER_NODE)
    policy = node_policy(run, run.point, ranks)
    assert n_differences([rows[0], stray, *rows[1:4]], policy) == 4


def row(event, file_id, time_s=0.0, place="lfs", detail=""):
    """Return a row of a node's decisions."""
    return {
        "event": event,
        "file_id": file_id,
        "place": place,
        "time_s": time_s,
        "detail": detail,
    }


@pytest.mark.parametrize(("decided_s", "n_different"), [(2.0, 0), (2.5, 1)])
def test_late_read_must_be_decided_before_its_file_was_placed(decided_s, n_different):
    run = describe("monarch")
    rows = [
        row("begin", 1, 0.0, "gfs"),
        row("end", 1, 1.0, "gfs"),
        row("copy", 1, 1.0),
        row("placed", 1, 2.0),
        row("begin", 1, decided_s, "gfs", "late"),
        row("end", 1, 3.0, "gfs", "late"),
        row("begin", 1, 4.0),
    ]
    policy = node_policy(run, Point(50, 0), range(PER_NODE))
    assert n_differences(rows, policy) == n_different
    assert n_broken_rules(rows, room_of(run, Point(50, 0))) == 0


def test_late_read_of_a_copy_needs_an_eviction():
    policy = node_policy(describe("lru"), Point(50, 0), range(PER_NODE))
    assert n_differences([row("begin", 1, 1.0, detail="late")], policy) == 1


def test_second_placement_under_monarch_breaks_a_rule_of_its_own():
    moves = [("copy", 1), ("placed", 1), ("evict", 1), ("copy", 1), ("placed", 1)]
    rows = [row(event, i) for event, i in moves]
    assert n_broken_rules(rows, room_of(describe("monarch"), Point(50, 0))) == 2
    assert n_broken_rules(rows, room_of(describe("lru"), Point(50, 0))) == 0


def test_eviction_of_a_file_that_is_being_read_is_found():
    run = describe("lru")
    moves = [("copy", 1), ("placed", 1), ("begin", 1), ("evict", 1)]
    rows = [row(event, i) for event, i in moves]
    assert n_broken_rules(rows, room_of(run, run.point)) == 1
    read = row("end", 1)
    assert n_broken_rules([*rows[:3], read, rows[3]], room_of(run, run.point)) == 0


def test_processes_that_asked_are_those_of_all_nodes(good):
    check = good.checks()["processes that asked their node"]
    assert (check.got, check.expected) == ("4", "4")


def test_read_before_its_placement_is_found(good):
    hit = good.first("begin", place="lfs")
    late = good.first("placed", node=hit["node"], file_id=hit["file_id"])
    late["step"], hit["step"] = hit["step"], late["step"]
    assert LFS_RULES in good.failed()


def test_copy_that_the_policy_did_not_want_is_found(good):
    step = max(row["step"] for row in good.decisions if row["node"] == 0) + 1
    row = good.first("copy", node=0)
    good.decisions.append(row | {"step": step, "epoch": 2, "file_id": 11})
    assert POLICY in good.failed()


def test_more_files_than_the_quota_are_found(good):
    good.run = changed(good.run, point={"cache_rate_percent": 25})
    assert LFS_RULES in good.failed()


def test_eviction_under_monarch_is_found():
    monarch = Recorder("monarch")
    hit = [row for row in monarch.decisions if row["event"] == "placed"][-1]
    row = hit | {"event": "evict", "detail": "", "step": 10**6}
    monarch.decisions.append(row)
    assert monarch.failed() == [POLICY, LFS_RULES]


def test_file_placed_twice_under_monarch_is_found():
    monarch = Recorder("monarch")
    placed = monarch.first("placed", node=0)
    copy = placed | {"event": "copy", "detail": "", "step": 10**6}
    monarch.decisions += [copy, placed | {"step": 10**6 + 1}]
    assert LFS_RULES in monarch.failed()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"bytes_read": SIZE - 1}, "bytes read from the GFS by copies"),
        ({"opens": 2}, "opens on the GFS by copies"),
        ({"epoch": 9}, "copies only in the log or only in the decisions"),
    ],
)
def test_background_traffic_that_was_not_decided_is_found(good, change, name):
    read = next(row for row in good.background if row["tier"] == "gfs")
    read |= change
    assert good.failed() == [name]


def test_process_that_never_asked_is_found(good):
    asked = [
        row for row in good.decisions if (row["rank"], row["event"]) != (1, "begin")
    ]
    good.decisions = asked
    assert "processes that asked their node" in good.failed()


@pytest.mark.parametrize(("n_coming", "n_broken"), [(5, 0), (6, 1), (7, 2)])
def test_files_on_their_way_take_room_of_the_cache_rate(n_coming, n_broken):
    """Six files may be there, one is."""
    events = [("copy", 0), ("placed", 0), *(("copy", 1 + i) for i in range(n_coming))]
    rows = [row(event, i) for event, i in events]
    assert n_broken_rules(rows, room_of(describe("monarch"), Point(50, 0))) == n_broken


def test_background_writing_of_too_few_bytes_is_found(good):
    written = next(row for row in good.background if row["tier"] == "lfs")
    written["bytes_written"] = 0
    assert good.failed() == ["bytes written to the LFS by copies"]


def fail_last_copy(monarch):
    """Let the last copy fail after it has moved the file; return its decision."""
    placed = [row for row in monarch.decisions if row["event"] == "placed"][-1]
    placed |= {"event": "failed", "detail": "error", "place": "gfs"}
    last = placed["step"]
    node = placed["node"]
    reads = [
        row
        for row in monarch.decisions
        if (row["node"], row["file_id"]) == (node, placed["file_id"])
        and row["event"] in ("begin", "end")
        and row["step"] > last
    ]
    for row in reads:
        row["place"] = "gfs"
        for record in monarch.records:
            if all(record[key] == row[key] for key in ("rank", "epoch", "file_id")):
                record["tier"] = "gfs"
    return placed


TOO_MUCH = "failed copies that moved more than their file"
UNDECIDED = "copies only in the log or only in the decisions"


def traffic_of(recorder, decision):
    """Return the records of a copy."""
    keys = ("rank", "epoch", "file_id")
    return [
        row
        for row in recorder.background
        if all(row[key] == decision[key] for key in keys)
    ]


@pytest.mark.parametrize("n_bytes", [0, SIZE // 2, SIZE])
def test_failed_copies_may_have_moved_any_part_of_their_file(n_bytes):
    monarch = Recorder("monarch")
    for row in traffic_of(monarch, fail_last_copy(monarch)):
        name = "bytes_read" if row["tier"] == "gfs" else "bytes_written"
        row[name] = n_bytes
    assert monarch.failed() == [POLICY]  # with room left it would have gone on


@pytest.mark.parametrize(
    "change", [{"bytes_written": SIZE + 1}, {"opens": 2}, {"bytes_read": 1}]
)
def test_failed_copy_that_moved_more_than_its_file_is_found(change):
    monarch = Recorder("monarch")
    rows = traffic_of(monarch, fail_last_copy(monarch))
    next(row for row in rows if row["tier"] == "lfs").update(change)
    assert monarch.failed() == [POLICY, TOO_MUCH]


def test_traffic_of_a_file_in_another_epoch_than_its_failed_copy_is_found():
    monarch = Recorder("monarch")
    failed = fail_last_copy(monarch)
    row = next(r for r in traffic_of(monarch, failed) if r["tier"] == "lfs")
    monarch.background.append(row | {"epoch": failed["epoch"] + 1})
    assert UNDECIDED in monarch.failed()


def test_background_is_summed_by_node_and_epoch(good):
    table = sum_background(
        pd.DataFrame(good.background),
        pd.DataFrame(good.decisions),
        {rank: rank // PER_NODE for rank in range(4)},
        {0: [0.5, 0.0, 0.25], 1: [1.0, 0.0, 0.0]},
    )
    check_table(table, "run_background")
    assert len(table) == 2 * EPOCHS
    assert table["drain_time_s"].tolist() == [0.5, 0.0, 0.25, 1.0, 0.0, 0.0]
    first = table.iloc[0]
    again = first["placed_files"] - first["handed_over_files"]
    assert first["placed_files"] == 6
    assert first["gfs_bytes"] == SIZE * again == SIZE * first["gfs_opens"]
    assert first["lfs_bytes"] == 6 * SIZE
    assert first["lfs_write_time_s"] == pytest.approx(1.2)


def test_copies_after_training_have_a_row_of_their_node(good):
    decisions = pd.DataFrame(good.decisions)
    is_last = decisions["epoch"] == EPOCHS - 1
    moved = decisions.assign(epoch=decisions["epoch"].where(~is_last, AFTER_TRAINING))
    table = sum_background(
        pd.DataFrame(good.background),
        moved[moved["node"] == 0],
        {rank: rank // PER_NODE for rank in range(4)},
        {0: [0.5] * EPOCHS, 1: [1.0] * EPOCHS},
    )
    check_table(table, "run_background")
    keys = table[["node", "epoch"]].to_numpy().tolist()
    assert keys == [
        *[[0, epoch] for epoch in (AFTER_TRAINING, *range(EPOCHS))],
        *[[1, epoch] for epoch in range(EPOCHS)],
    ]
    assert table["drain_time_s"].tolist() == [0.0, *[0.5] * EPOCHS, *[1.0] * EPOCHS]
