"""Verdicts on where reads came from, by what counters and pages say."""

import math

import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.analysis.page_cache import (
    certificate_of,
    verdict_mark,
    verdict_words,
    verdicts_of,
)
from tierscope.core.tables import check_table

NAN = math.nan
BLOCK = {"fs_type": "ext4", "told_by": "block device"}
FUSE = {"fs_type": "fuse.glusterfs", "told_by": "resident pages"}
MEMORY = {"fs_type": "tmpfs", "told_by": "memory"}
NFS = {"fs_type": "nfs4", "told_by": "server"}
ZFS = {"fs_type": "zfs", "told_by": None}


def verdicts(gfs, lfs, n_bytes, *, one_mount=False, scenario=None, **seen):
    """Return the verdicts on an epoch of one process, by tier."""
    tiers = {"gfs": gfs, "lfs": lfs}
    page_cache = {"tiers": tiers, "one_mount": one_mount}
    run = describe_run(scenario=scenario or {}, page_cache=page_cache)
    row = {
        "rank": 0,
        "node": 0,
        "epoch": 0,
        "device_bytes": NAN,
        "names_dropped": False,
    }
    row |= {f"{t}_{what}": NAN for t in tiers for what in ("server_bytes",)}
    row |= {f"{t}_resident_percent": NAN for t in tiers}
    epochs = pd.DataFrame([row | seen])
    io_time = pd.DataFrame(
        {
            "epoch": 0,
            "io_class": [f"{tier}_read" for tier in n_bytes],
            "bytes": list(n_bytes.values()),
        }
    )
    table = check_table(verdicts_of(run, epochs, io_time), "verdicts")
    return table.set_index("tier")


@pytest.mark.parametrize(
    ("device_bytes", "verdict", "percent"),
    [
        (1000, "device", 100),
        (1100, "device", 100),  # with read-ahead
        (960, "device", 96),
        (500, "mixed", 50),
        (30, "page cache", 3),
        (0, "page cache", 0),
    ],
)
def test_counter_of_block_devices_gives_the_part(device_bytes, verdict, percent):
    row = verdicts(BLOCK, BLOCK, {"gfs": 1000}, device_bytes=device_bytes).loc["gfs"]
    assert (row["verdict"], row["told_by"]) == (verdict, "block device")
    assert row["device_percent"] == pytest.approx(percent)


@pytest.mark.parametrize(
    ("gfs_resident", "lfs_resident", "device_bytes", "gfs", "lfs"),
    [
        (0, 0, 1000, 100, 100),
        (100, 100, 0, 0, 0),
        (0, 100, 600, 100, 0),  # the pages say which tier was read from its device
        (100, 0, 400, 0, 100),
        (0, 0, 300, 50, 75),  # no more than was counted
        (100, 100, 1000, 100, 100),  # what the other tier cannot explain
    ],
)
def test_pages_divide_the_counter_between_two_tiers(
    gfs_resident, lfs_resident, device_bytes, gfs, lfs
):
    found = verdicts(
        BLOCK,
        BLOCK,
        {"gfs": 600, "lfs": 400},
        device_bytes=device_bytes,
        gfs_resident_percent=gfs_resident,
        lfs_resident_percent=lfs_resident,
    )["device_percent"]
    assert (found["gfs"], found["lfs"]) == (pytest.approx(gfs), pytest.approx(lfs))


def test_memory_is_always_the_page_cache_and_says_why():
    row = verdicts(BLOCK, MEMORY, {"lfs": 10}, device_bytes=10).loc["lfs"]
    assert row["verdict"] == "page cache"
    assert row["reason"] == "tmpfs keeps its files in memory"
    assert row["names"] == "in memory"


def test_a_tier_in_memory_leaves_the_counter_to_the_other():
    found = verdicts(BLOCK, MEMORY, {"gfs": 100, "lfs": 100}, device_bytes=100)
    assert found["verdict"].to_dict() == {"gfs": "device", "lfs": "page cache"}


def test_pages_tell_of_file_systems_without_counters():
    row = verdicts(FUSE, BLOCK, {"gfs": 10}, gfs_resident_percent=0.0).loc["gfs"]
    assert (row["verdict"], row["told_by"]) == ("device", "resident pages")


def test_file_system_without_counter_and_pages_is_unknown():
    row = verdicts(FUSE, BLOCK, {"gfs": 10}).loc["gfs"]
    assert row["verdict"] == "unknown"
    assert "fuse.glusterfs has no counter here" in row["reason"]
    row = verdicts(ZFS, BLOCK, {"gfs": 10}, gfs_resident_percent=0.0).loc["gfs"]
    assert (row["verdict"], row["told_by"]) == ("unknown", "nothing")
    assert "zfs" in row["reason"]


def test_processes_that_do_not_tell_are_named_and_not_the_file_system():
    row = verdicts(BLOCK, BLOCK, {"gfs": 10}, device_bytes=float("nan")).loc["gfs"]
    assert row["verdict"] == "unknown"
    assert row["reason"].startswith("a process did not tell what it read")


def test_servers_count_for_their_mount():
    row = verdicts(NFS, BLOCK, {"gfs": 1000}, gfs_server_bytes=400.0).loc["gfs"]
    assert (row["verdict"], row["device_percent"]) == ("mixed", 40)


def test_copies_spoil_the_counter_so_pages_tell():
    row = verdicts(
        BLOCK,
        BLOCK,
        {"gfs": 10},
        scenario={"policy": "lru"},
        device_bytes=1000,
        gfs_resident_percent=100.0,
    ).loc["gfs"]
    assert (row["verdict"], row["told_by"]) == ("page cache", "resident pages")


def test_servers_that_serve_more_than_reads_of_a_tier_leave_it_to_the_pages():
    seen = {"gfs_server_bytes": 10.0, "gfs_resident_percent": 100.0}
    for more in ({"scenario": {"policy": "lru"}}, {"one_mount": True}):
        row = verdicts(NFS, NFS, {"gfs": 10}, **seen, **more).loc["gfs"]
        assert (row["verdict"], row["told_by"]) == ("page cache", "resident pages")


def test_read_ahead_of_a_mapped_database_is_no_proof():
    lmdb = {"policy": "pinning", "loader": "lmdb"}
    seen = {"device_bytes": 20.0, "gfs_resident_percent": 50.0}
    row = verdicts(BLOCK, BLOCK, {"gfs": 10}, scenario=lmdb, **seen).loc["gfs"]
    assert (row["verdict"], row["device_percent"]) == ("mixed", 50)
    both = verdicts(BLOCK, BLOCK, {"gfs": 10, "lfs": 10}, scenario=lmdb, **seen)
    assert set(both["verdict"]) == {"unknown"}
    assert "one database" in both["reason"].iloc[0]


def test_runs_without_observations_are_unknown():
    run = describe_run()
    epochs = pd.DataFrame({"epoch": [0], "device_bytes": [NAN], "names_dropped": False})
    epochs = epochs.assign(
        **{
            f"{t}_{w}": NAN
            for t in ("gfs", "lfs")
            for w in ("server_bytes", "resident_percent")
        }
    )
    io_time = pd.DataFrame({"epoch": [0], "io_class": ["gfs_read"], "bytes": [5]})
    (row,) = verdicts_of(run, epochs, io_time).to_dict("records")
    assert row["verdict"] == "unknown"
    assert "before tierscope looked" in row["reason"]


def table(*rows):
    keys = ("cache_rate_percent", "tier", "verdict", "reason", "names")
    rows = [dict(zip(keys, row, strict=True)) for row in rows]
    return pd.DataFrame(rows).assign(told_by="block device")


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        (["device", "device"], ""),
        (["page cache", "page cache"], "measured, from the page cache"),
        (["device", "page cache"], "measured, partly from the page cache"),
        (["device", "mixed"], "measured, partly from the page cache"),
        (["device", "unknown"], "measured, from devices or caches"),
    ],
)
def test_title_says_what_did_not_come_from_a_device(words, mark):
    rows = [(0, "gfs", word, "", "dropped") for word in words]
    assert verdict_mark(table(*rows)) == mark


def test_note_names_tiers_rates_reasons_and_kept_names():
    words = verdict_words(
        table(
            (0, "gfs", "device", "", "kept"),
            (50, "gfs", "page cache", "", "kept"),
            (50, "lfs", "page cache", "tmpfs keeps its files in memory", "in memory"),
        )
    )
    assert words == [
        "GFS reads left the page cache in 1 of 2 epochs (at 0 %), came from the page "
        "cache in 1 of 2 epochs (at 50 %)",
        "LFS reads came from the page cache (tmpfs keeps its files in memory)",
        "names and inodes of the GFS stayed in the nodes' caches",
    ]


SEEN = {"n_processes": 2, "preloaded": {}, "made": 3}


def certificate(*tiers, **observed):
    """Return answers and words of a run whose tiers have these verdicts, by statement.

    Each is a tier, its verdict, what told it and the reason.
    """
    columns = ["tier", "verdict", "told_by", "reason"]
    known = {"interference": SEEN, "counts": [{"escapes": 0}]}
    run = describe_run(observed=known | observed)
    table = certificate_of(run, pd.DataFrame(tiers, columns=columns))
    table = check_table(table, "certificate")
    return {row.statement: (row.answer, row.words) for row in table.itertuples()}


def test_tier_is_certified_if_all_its_epochs_are_of_the_device():
    device = ("gfs", "device", "block device", "")
    found = certificate(device, device)
    assert found["gfs bytes"] == (
        "yes",
        "Device in 2 epochs (told by what block devices read).",
    )
    assert found["libraries"][0] == found["advice"][0] == "yes"
    assert "lfs bytes" not in found  # nothing was read there


@pytest.mark.parametrize(
    ("verdict", "told", "reason", "answer", "how"),
    [
        ("page cache", "memory", "tmpfs is memory", "no", "tmpfs is memory"),
        ("mixed", "resident pages", "", "no", "told by a sample of resident pages"),
        ("unknown", "nothing", "nothing tells", "not measured", "nothing tells"),
        (
            "unknown",
            "block device",
            "",
            "not measured",
            "what block devices read cannot",
        ),
    ],
)
def test_tier_with_an_epoch_of_another_verdict_is_not(
    verdict, told, reason, answer, how
):
    device = ("lfs", "device", "block device", "")
    found = certificate(device, ("lfs", verdict, told, reason))["lfs bytes"]
    assert found[0] == answer
    assert f"{verdict} in 1 epoch ({how}" in found[1].lower()


def test_library_of_others_is_in_the_certificate_of_a_run():
    seen = {"n_processes": 2, "preloaded": {"liba.so": 2}, "swallowed": 3}
    found = certificate(interference=seen | {"behind": {"liba.so": 2}})
    assert found["libraries"] == (
        "no",
        "Preload libraries of others: liba.so in 2 of 2 processes.",
    )
    assert found["advice"][0] == "no"


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (
            {"counts": [{"escapes": 2}, {"escapes": 1}]},
            "3 starts of programs could not be followed",
        ),
        (
            {"counts": [{"unknown_processes": 1}], "still_running": 2},
            "1 process was too many for the node's table and 2 processes still ran at "
            "the end",
        ),
        ({"interference": SEEN | {"is_whole": False}}, "the log of the launch says"),
    ],
)
def test_program_of_which_not_all_is_known_gets_no_yes(observed, reason):
    found = certificate(("gfs", "device", "block device", ""), **observed)
    assert len(found) == 3
    for answer, words in found.values():
        assert answer == "not measured"
        assert words.endswith(f" Not all processes and calls are known, as {reason}.")


def test_program_without_the_tracer_is_told_from_an_old_run():
    nobody = certificate(interference=SEEN | {"n_processes": 0, "made": 0})
    assert nobody["libraries"][0] == "not measured"
    assert nobody["libraries"][1].startswith("No process")


def test_no_stays_no_if_not_all_is_known():
    seen = SEEN | {"preloaded": {"liba.so": 2}}
    found = certificate(interference=seen, counts=[{"escapes": 1}])
    assert found["libraries"][0] == "no"


def test_program_that_a_site_traces_gets_no_yes_if_it_escapes():
    device = ("gfs", "device", "block device", "")
    found = certificate(device, interference=None, counts=[{"escapes": 1}])
    assert {answer for answer, _ in found.values()} == {"not measured"}


def test_darshan_of_a_site_does_not_tell_of_libraries():
    found = certificate(interference=None)
    assert found["libraries"] == found["advice"]
    assert found["advice"][0] == "not measured"
    assert found["advice"][1].startswith("A site's Darshan")
