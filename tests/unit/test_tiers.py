import os

import pytest
from tierscope.tiers import Tier, TierError, epoch_alias, make_epoch_aliases
from tierscope.tiers.local_storage import MARKER, LocalStorage
from tierscope.tiers.lustre import sample_osts, stripe_directory

FAKE_LFS = """#!/bin/sh
echo "$@" >> "$LFS_CALLS"
case "$1 $2" in
  "setstripe -c") [ -z "$LFS_ERROR" ] || { echo "$LFS_ERROR" >&2; exit 25; } ;;
  "getstripe -d") echo "${LFS_COUNT:-1}" ;;
  "getstripe -i") case "$3" in *1) echo 7 ;; *) echo 0 ;; esac ;;
esac
"""


def test_root_with_an_unset_variable_is_refused(monkeypatch):
    monkeypatch.delenv("PJM_LOCALTMP", raising=False)
    tier = Tier("lfs", "directory", "$PJM_LOCALTMP/x")
    with pytest.raises(TierError, match=r"root of the lfs.*PJM_LOCALTMP is not set"):
        tier.data_root()
    monkeypatch.setenv("PJM_LOCALTMP", "")
    with pytest.raises(TierError, match="PJM_LOCALTMP is not set"):
        tier.data_root()
    monkeypatch.setenv("PJM_LOCALTMP", "/local")
    assert str(tier.data_root()) == "/local/x/data"


def test_epoch_alias_leads_to_the_data(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("x")
    for _ in range(2):
        make_epoch_aliases(data, 3)
    assert (epoch_alias(data, 2) / "file").read_text() == "x"
    assert sorted(os.listdir(tmp_path)) == ["data", "data.ep0", "data.ep1", "data.ep2"]


def test_alias_name_taken_by_something_else_is_refused(tmp_path):
    (tmp_path / "data.ep0").mkdir()
    with pytest.raises(TierError, match=r"data.ep0: exists and is not our link"):
        make_epoch_aliases(tmp_path / "data", 1)


def test_nodes_share_a_root_and_the_last_one_removes_it(tmp_path):
    root = tmp_path / "lfs"
    nodes = [LocalStorage(root / "data", node, 1) for node in (0, 1)]
    for node in nodes:
        node.claim()
        (node.folder / "file").write_text("x")
    make_epoch_aliases(root / "data", 1)
    nodes[0].release()
    assert not nodes[0].folder.exists()
    assert (nodes[1].folder / "file").exists()
    nodes[1].release()
    assert not root.exists()


def test_root_with_foreign_files_is_neither_used_nor_emptied(tmp_path):
    (tmp_path / "data" / "node-00000").mkdir(parents=True)
    storage = LocalStorage(tmp_path / "data", 0, 1)
    with pytest.raises(TierError, match=rf"holds 'data' and no marker {MARKER}"):
        storage.claim()
    storage.release()
    assert storage.folder.exists()


def test_claim_removes_what_a_killed_job_left(tmp_path):
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1)
    storage.claim()
    (storage.folder / "left over").write_text("x")
    storage.claim()
    assert os.listdir(storage.folder) == []


@pytest.fixture
def lfs_calls(tmp_path, monkeypatch):
    """Put a stand-in `lfs` first on the path; return where it writes its calls."""
    command = tmp_path / "bin" / "lfs"
    command.parent.mkdir()
    command.write_text(FAKE_LFS)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    calls = tmp_path / "calls"
    monkeypatch.setenv("LFS_CALLS", str(calls))
    return calls


LUSTRE = Tier("gfs", "lustre", "/gfs", n_osts=60, pools={8: "eight"})


@pytest.mark.parametrize(
    ("n_osts", "options"), [(60, "-i -1"), (1, "-i 0"), (8, "-p eight")]
)
def test_striping_limits_files_to_the_osts(lfs_calls, n_osts, options):
    stripe_directory("/gfs/data", LUSTRE, n_osts)
    assert lfs_calls.read_text().splitlines() == [
        f"setstripe -c 1 {options} /gfs/data",
        "getstripe -d -c /gfs/data",
    ]


def test_striping_needs_a_pool_for_other_counts(lfs_calls):
    with pytest.raises(TierError, match=r"7 OSTs need an OST pool.*eight"):
        stripe_directory("/gfs/data", LUSTRE, 7)


def test_failed_striping_gives_the_commands_own_words(lfs_calls, monkeypatch):
    monkeypatch.setenv("LFS_ERROR", "error: Inappropriate ioctl for device (25)")
    with pytest.raises(TierError, match=r"setstripe.*exit code 25: error: Inappropri"):
        stripe_directory("/gfs/data", LUSTRE, 1)


def test_striping_that_did_not_take_effect_is_refused(lfs_calls, monkeypatch):
    monkeypatch.setenv("LFS_COUNT", "4")
    with pytest.raises(TierError, match="stripe count '4', expected '1'"):
        stripe_directory("/gfs/data", LUSTRE, 1)


def test_sample_of_files_tells_their_osts(lfs_calls, tmp_path):
    files = [tmp_path / "f0", tmp_path / "f1"]
    assert sample_osts(files, 2) == {0: 0, 1: 7}
    with pytest.raises(TierError, match="lies on 2 OSTs, expected 1"):
        sample_osts(files, 1)


def test_files_that_all_lie_on_one_of_many_osts_are_refused(lfs_calls, tmp_path):
    with pytest.raises(TierError, match="lies on 1 OSTs, expected 60"):
        sample_osts([tmp_path / "f0", tmp_path / "f2"], 60)


def test_missing_lfs_command_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TierError, match="no command lfs"):
        stripe_directory("/gfs/data", LUSTRE, 1)
