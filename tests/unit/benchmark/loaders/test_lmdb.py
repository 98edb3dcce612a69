"""The LMDB loaders in one process; with several of them: tests/integration."""

import itertools
import os
import shutil
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from descriptions import changed, describe_run

pytest.importorskip("lmdb")

from tierscope.audit.database import check_database, with_mapped_reads
from tierscope.benchmark.loaders.lmdb import DatabaseLoader
from tierscope.benchmark.loaders.records import RecordReference
from tierscope.benchmark.sources.database import tables_of
from tierscope.core.lmdb_loaders import OPTIMISATIONS, VARIANTS
from tierscope.core.tables import read_table, write_columns
from tierscope.data.lmdb.file import generate_database, provenance_here, read_checksums
from tierscope.data.record_order import first_records, order_of
from tierscope.data.tfrecord import DatasetError
from tierscope.model.simulator.database_calls import DATA, FAULT, TREE, DatabaseEpoch
from tierscope.storage.clock import RealClock

N_RECORDS, SIZE, BATCH = 24, 20000, 4
ALL_SETS = [
    set(some)
    for n in range(len(OPTIMISATIONS) + 1)
    for some in itertools.combinations(OPTIMISATIONS, n)
    if not {"dm", "prov"} <= set(some)
]


class AloneComm:
    """Stands for MPI's communicator of one process."""

    rank, size = 0, 1

    def Split(self, colour, key):
        return self

    def Ibarrier(self):
        return None

    def bcast(self, value):
        return value

    def allgather(self, value):
        return [value]

    def allreduce(self, value, op):
        return value


class Alone:
    """Stands for the processes of a launch of one."""

    comm, rank, node, node_rank = AloneComm(), 0, 0, 0

    def wait(self, request):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    generate_database(folder, provenance_here(N_RECORDS, SIZE, 5))
    (folder / "lfs").mkdir()
    shutil.copy(folder / "data.mdb", folder / "lfs")
    return folder


@pytest.fixture
def run():
    return describe_run(
        **{
            "database": asdict(provenance_here(N_RECORDS, SIZE, 5)),
            "dataset": {
                "n_files": N_RECORDS,
                "file_size_bytes": SIZE,
                "batch_size": BATCH,
            },
            "system": {
                "n_nodes": 1,
                "processes_per_node": 1,
            },
            "training": {"epochs": 2, "shuffle": "global", "seed": 1},
            "point": {"cache_rate_percent": 50, "repetition": 0},
            "lmdb": {
                "order": "blocks",
                "block_records": 8,
                "steps_per_fetch": 1,
                "stagger_size": 1,
                "fault_bytes": 8192,
                "records_per_commit": 5,
                "coalesced_bytes": 1,
                "optimisations": [],
            },
        }
    )


def with_emulated(run, *tiers):
    """Return a run of which these tiers are emulated."""
    kinds = {tier: replace(run.system.tiers[tier], kind="emulated") for tier in tiers}
    return changed(run, system=kinds)


def with_optimisations(run, on):
    """Return a run with these optimisations; batches are read in pairs if at all."""
    steps = 2 if "coal" in on else run.lmdb.steps_per_fetch
    return changed(run, lmdb={"optimisations": list(on), "steps_per_fetch": steps})


def loader_of(folder, run, emulated=()):
    return DatabaseLoader(
        run.lmdb,
        BATCH,
        provenance_here(N_RECORDS, SIZE, 5),
        read_checksums(folder, N_RECORDS),
        Alone(),
        set(emulated),
        RealClock(lambda: None),
    )


def finished(folder, run, on=(), emulated=()):
    """Return the tables of a run on one process, and its epochs."""
    run = with_optimisations(run, on)
    loader = loader_of(folder, run, emulated)
    on_lfs = first_records(N_RECORDS, run.point.cache_rate_percent)
    paths = {"gfs": f"{folder}/data.mdb", "lfs": f"{folder}/lfs/data.mdb"}
    rows = []
    for epoch in range(run.training.epochs):
        records = order_of(run, 0).of_process(0, 0, 0, epoch)
        tiers = ["lfs" if on_lfs[i] else "gfs" for i in records]
        samples = [
            RecordReference(tier, paths[tier], int(i))
            for tier, i in zip(tiers, records, strict=True)
        ]
        counts = np.array(list(loader.epoch(samples)))
        samples, n_bytes = counts.sum(axis=0).tolist()
        rows.append({"rank": 0, "node": 0, "epoch": epoch, "samples": samples})
        rows[-1]["bytes"] = n_bytes
    loader.close()
    tables = {}
    for name, columns in tables_of([loader.tables()]).items():
        write_columns(columns, folder / "tables" / name, name)
        tables[name] = read_table(folder / "tables" / name, name)
    return tables, pd.DataFrame(rows)


def traced(calls):
    """Return what a tracer would have counted of these calls."""
    explicit = calls.assign(reads=~calls["mapped"])
    explicit["bytes_read"] = calls["bytes"].where(explicit["reads"], 0)
    keys = ["rank", "epoch", "tier"]
    sums = explicit.groupby(keys)[["reads", "bytes_read"]].sum().reset_index()
    sums["reads"] = sums["reads"].astype(int)
    return sums.assign(file_id=0, opens=1, read_time_s=0.5, meta_time_s=0.1)


def failed(tables, epochs, run, records=None):
    records = traced(tables["read_calls"]) if records is None else records
    checks = check_database(records, epochs, tables, run)
    return [check.name for check in checks if not check.passed]


def check_of(name, tables, epochs, run):
    """Return the check of this name."""
    checks = check_database(traced(tables["read_calls"]), epochs, tables, run)
    (found,) = (check for check in checks if check.name == name)
    return found


@pytest.mark.parametrize("on", ALL_SETS, ids=lambda on: "-".join(sorted(on)) or "none")
@pytest.mark.parametrize("order", ["blocks", "records"])
def test_every_combination_reads_every_record_once(folder, run, on, order):
    run = changed(run, lmdb={"order": order})
    tables, epochs = finished(folder, run, on)
    assert failed(tables, epochs, run) == []
    assert (epochs["samples"] == N_RECORDS).all()
    assert (epochs["bytes"] == N_RECORDS * (SIZE - 16)).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_emulated_tiers_are_charged_for_faults(folder, run, variant):
    run = with_emulated(run, "gfs")
    on = VARIANTS[variant]
    tables, epochs = finished(folder, run, on, emulated={"gfs"})
    assert failed(tables, epochs, run) == []
    faults = tables["read_calls"].query("kind == 'fault'")
    if "dio" in on:
        assert faults.empty
        return
    assert set(faults["tier"]) == {"gfs"}
    # A value of 5 pages is brought in by faults of 2, 2 and 1 pages.
    of_data = faults.query("epoch == 0")["bytes"]
    assert (of_data == 8192).sum() == 2 * N_RECORDS / 2
    assert not faults["mapped"].any()
    assert (faults["faults"] == 1).all()
    assert tables["read_calls"]["faults"].sum() == len(faults)
    assert tables["faults"].empty


def test_blocks_are_read_by_one_call_and_coalesced_ones_by_half_as_many(folder, run):
    run = changed(run, point={"cache_rate_percent": 0})
    n_calls = {}
    for on in (("dio",), ("dio", "prov"), ("dio", "prov", "coal")):
        calls = finished(folder, run, on)[0]["read_calls"].query("epoch == 1")
        n_calls[on] = calls.groupby("kind").size().to_dict()
    assert n_calls[("dio",)] == {"data": 6, "tree": 3}  # two of metadata, one leaf
    assert n_calls[("dio", "prov")] == {"data": 6}
    assert n_calls[("dio", "prov", "coal")] == {"data": 3}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("order", ["blocks", "records"])
def test_simulated_calls_are_those_that_the_loader_makes(folder, run, variant, order):
    run = with_emulated(changed(run, lmdb={"order": order}), "gfs", "lfs")
    tables, epochs = finished(folder, run, VARIANTS[variant], emulated={"gfs", "lfs"})
    assert failed(tables, epochs, run) == []
    made = tables["read_calls"].query("~mapped")
    provenance, on_lfs = (
        provenance_here(N_RECORDS, SIZE, 5),
        first_records(N_RECORDS, 50),
    )
    run = with_optimisations(run, VARIANTS[variant])
    for epoch in range(2):
        reads = DatabaseEpoch(run.lmdb, order_of(run, 0), provenance, on_lfs, epoch)
        columns = ("kind", "tier", "offset", "n_bytes")
        calls = [getattr(reads.calls, name).tolist() for name in columns]
        part = made[made["epoch"] == epoch]
        kinds = part["kind"].map({"tree": TREE, "fault": FAULT, "data": DATA})
        tiers = part["tier"].map({"gfs": 0, "lfs": 1})
        found = zip(kinds, tiers, part["offset"], part["bytes"], strict=True)
        assert sorted(zip(*calls, strict=True)) == sorted(found)


def test_mapped_access_is_timed_and_becomes_read_time(folder, run):
    tables, _ = finished(folder, run)
    calls = tables["read_calls"]
    mapped = calls[calls["mapped"]]
    assert (mapped["time_s"] > 0).all()
    records = traced(calls)
    with_faults = with_mapped_reads(records, calls, run)
    added_s = with_faults["read_time_s"].sum() - records["read_time_s"].sum()
    assert added_s == pytest.approx(mapped["time_s"].sum())
    added = with_faults["reads"].sum() - records["reads"].sum()
    assert added == mapped["faults"].sum() > 0
    assert with_faults["opens"].sum() == records["opens"].sum()
    assert with_faults["meta_time_s"].sum() == records["meta_time_s"].sum()
    run = with_emulated(run, "gfs", "lfs")
    assert with_mapped_reads(records, calls, run).equals(records)
    faults = tables["faults"]
    assert faults["epoch"].tolist() == [0, 1]
    assert faults["access_time_s"].sum() >= mapped["time_s"].sum()
    counted = faults["minor_faults"] + faults["major_faults"]
    assert counted.sum() >= mapped["faults"].sum()


def test_begun_run_forgets_what_was_read_before(folder, run):
    loader = loader_of(folder, run)
    samples = [RecordReference("gfs", f"{folder}/data.mdb", 3)]
    for _ in range(2):
        loader.begin_run()
        assert list(loader.epoch(samples)) == [(1, SIZE - 16)]
        assert loader.tables()["record_reads"]["epoch"].tolist() == [0]


@pytest.mark.parametrize("on", [(), ("lmm",), ("lmm", "dio"), ("lmm", "dio", "prov")])
def test_flipped_byte_and_cut_file_name_file_and_record(folder, run, tmp_path, on):
    run = changed(run, lmdb={"optimisations": list(on)})
    path = tmp_path / "data.mdb"
    content = bytearray((folder / "data.mdb").read_bytes())
    offset = int(provenance_here(N_RECORDS, SIZE, 5).layout.offsets[17])
    content[offset + 5] ^= 4
    path.write_bytes(content)
    samples = [RecordReference("gfs", str(path), i) for i in range(N_RECORDS)]
    with pytest.raises(DatasetError, match=r"data.mdb: record 17 is damaged"):
        list(loader_of(folder, run).epoch(samples))
    path.write_bytes(content[: offset + 5000])
    with pytest.raises(DatasetError, match=r"data.mdb: is cut short, record 17 is not"):
        list(loader_of(folder, run).epoch(samples))
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match=r"data.mdb"):
        list(loader_of(folder, run).epoch(samples))
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    assert str(path) not in map(os.path.realpath, links)


@pytest.mark.parametrize("on", [(), ("lmm",), ("dio",), ("lmm", "dio", "prov")])
def test_copy_on_the_lfs_that_is_cut_short_is_named(folder, run, tmp_path, on):
    run = changed(run, lmdb={"optimisations": list(on)})
    copy = tmp_path / "data.mdb"
    content = (folder / "data.mdb").read_bytes()
    offset = int(provenance_here(N_RECORDS, SIZE, 5).layout.offsets[17])
    samples = [
        RecordReference("gfs", f"{folder}/data.mdb", i)
        if i >= N_RECORDS // 2
        else RecordReference("lfs", str(copy), i)
        for i in range(N_RECORDS)
    ]
    copy.write_bytes(content)
    assert len(list(loader_of(folder, run).epoch(samples))) == N_RECORDS // BATCH
    copy.write_bytes(content[: offset + 5000])  # all that the LFS holds is there
    with pytest.raises(DatasetError, match=rf"{copy}: is cut short, record 17 is not"):
        list(loader_of(folder, run).epoch(samples))


@pytest.mark.parametrize("on", [(), ("dio", "prov")])
class TestAudit:
    """Each test spoils one thing that the audit is to find."""

    @pytest.fixture
    def good(self, folder, run, on):
        return finished(folder, run, on)

    def test_record_read_twice_instead_of_another(self, good, run):
        tables, epochs = good
        tables["record_reads"].loc[0, "file_id"] = tables["record_reads"]["file_id"][1]
        assert "records read exactly once in epoch 0" in failed(tables, epochs, run)

    def test_missing_record(self, good, run):
        tables, epochs = good
        tables["record_reads"] = tables["record_reads"].iloc[1:]
        names = failed(tables, epochs, run)
        assert "records read in epoch 0" in names
        assert "processes and epochs whose samples equal their records" in names

    def test_value_that_was_consumed_in_part(self, good, run):
        tables, epochs = good
        epochs.loc[1, "bytes"] -= 1
        assert failed(tables, epochs, run) == [
            "processes and epochs whose bytes equal those of their records"
        ]

    def test_wrong_tier(self, good, run):
        tables, epochs = good
        run = changed(run, point={"cache_rate_percent": 60})
        names = failed(tables, epochs, run)
        assert names == [
            f"records on the tier that the policy chose in epoch {e}" for e in range(2)
        ]

    def test_wrong_process(self, good, run):
        tables, epochs = good
        reads = tables["record_reads"]
        reads.loc[reads["epoch"] == 1, "rank"] = 1
        names = failed(tables, epochs, run)
        assert "records of the process that the shuffle chose in epoch 1" in names

    def test_record_outside_its_read(self, good, run):
        tables, epochs = good
        calls = tables["read_calls"]
        first = calls.index[calls["kind"] == "data"][0]
        calls.loc[first, "bytes"] -= 1
        assert "records within a read of their reader" in failed(tables, epochs, run)

    def test_reads_that_only_touch_do_not_overlap(self, good, run):
        tables, epochs = good
        calls = tables["read_calls"]
        first = calls.index[calls["kind"] == "data"][0]
        halves = calls.loc[[first, first]].reset_index(drop=True)
        halves["bytes"] //= 2
        halves.loc[1, "offset"] += halves.loc[0, "bytes"]
        tables["read_calls"] = pd.concat([calls.drop(first), halves])
        assert "reads that overlap another read" not in failed(tables, epochs, run)

    def test_overlapping_reads(self, good, run):
        tables, epochs = good
        calls = tables["read_calls"]
        first = calls[calls["kind"] == "data"].iloc[[0]]
        tables["read_calls"] = pd.concat([calls, first])
        names = failed(tables, epochs, run)
        assert "reads that overlap another read" in names

    @pytest.mark.parametrize("tier", ["gfs", "lfs"])
    def test_each_overlap_is_counted(self, good, run, tier):
        tables, epochs = good
        calls = tables["read_calls"]
        calls = calls[(calls["kind"] == "data") & (calls["tier"] == tier)]
        last = calls.sort_values(["epoch", "offset"]).iloc[[-1]]
        tables["read_calls"] = pd.concat([tables["read_calls"], last, last])
        check = check_of("reads that overlap another read", tables, epochs, run)
        assert (check.got, check.expected) == ("2", "0")

    def test_copies_on_several_nodes_do_not_overlap(self, good, run):
        tables, epochs = good
        calls = tables["read_calls"]
        copy = calls[(calls["kind"] == "data") & (calls["tier"] == "lfs")].iloc[[0]]
        other = copy.assign(rank=copy["rank"] + 1)
        tables["read_calls"] = pd.concat([calls, other])
        check = check_of("reads that overlap another read", tables, epochs, run)
        assert check.got == "0"

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ("opens", "one open"),
            ("reads", "as many reads as it noted"),
            ("bytes_read", "the bytes it noted"),
        ],
    )
    def test_what_the_tracer_counted_otherwise(self, good, run, column, words):
        tables, epochs = good
        records = traced(tables["read_calls"])
        records.loc[0, column] += 1
        assert failed(tables, epochs, run, records) == [
            f"readers, epochs and tiers with {words}"
        ]

    def test_reads_that_were_not_noted(self, good, run):
        tables, epochs = good
        records = traced(tables["read_calls"])
        other = records.iloc[[0]].assign(rank=1)
        names = failed(tables, epochs, run, pd.concat([records, other]))
        assert names == ["processes and tiers in the log without a noted call"]
