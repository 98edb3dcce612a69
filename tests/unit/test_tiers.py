import os
from pathlib import Path
from threading import Thread

import pytest
from tierscope.tiers import Tier, TierError, epoch_alias, make_epoch_aliases, peer_alias
from tierscope.tiers.local_storage import MARKER, LocalStorage


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


def test_servers_of_peers_have_aliases_of_their_own(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("x")
    make_epoch_aliases(tmp_path / "data", 2)
    assert not peer_alias(tmp_path / "data", 1).exists()
    make_epoch_aliases(tmp_path / "data", 2, peers=True)
    assert (peer_alias(tmp_path / "data", 1) / "file").read_text() == "x"
    assert peer_alias(tmp_path / "data", 1).name == "data.peer.ep1"


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


def test_root_that_is_claimed_while_it_is_removed_is_whole(tmp_path, monkeypatch):
    leaving, coming = (LocalStorage(tmp_path / "lfs/data", node, 1) for node in (0, 1))
    leaving.claim()
    claim, unlink = Thread(target=coming.claim), Path.unlink

    def let_the_other_come(path, **options):
        if path.name == MARKER:
            claim.start()
            claim.join(0.1)  # it has to wait
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", let_the_other_come)
    leaving.release()
    claim.join()
    assert (tmp_path / "lfs" / MARKER).is_file()
    assert coming.folder.is_dir()


def test_root_with_foreign_files_is_neither_used_nor_emptied(tmp_path):
    (tmp_path / "data" / "node-00000").mkdir(parents=True)
    storage = LocalStorage(tmp_path / "data", 0, 1)
    with pytest.raises(TierError, match=rf"holds 'data' and no marker {MARKER}"):
        storage.claim()
    storage.release()
    assert storage.folder.exists()


def test_claim_removes_what_a_killed_job_left_on_this_host_as_another_node(tmp_path):
    data = tmp_path / "lfs" / "data"
    LocalStorage(data, 1, 1, "here").claim()
    LocalStorage(data, 2, 1, "there").claim()
    (data / "node-00001" / "left over").write_text("x")
    storage = LocalStorage(data, 0, 1, "here")
    storage.claim()
    assert sorted(path.name for path in data.iterdir() if path.is_dir()) == [
        "node-00000",
        "node-00002",  # of another node that uses the same root
    ]
    LocalStorage(data, 2, 1, "there").release()
    storage.release()
    assert not (tmp_path / "lfs").exists()


def test_claim_removes_what_a_killed_job_left(tmp_path):
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1)
    storage.claim()
    (storage.folder / "left over").write_text("x")
    storage.claim()
    assert os.listdir(storage.folder) == []


def test_release_is_repeated_until_nobody_writes_any_more(tmp_path):
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1)
    storage.claim()
    releases, release = [], storage.release

    def release_while_another_writes():
        release()
        releases.append(1)
        if len(releases) < 3:
            (storage.folder / "late").mkdir(parents=True)
            (tmp_path / "lfs" / MARKER).touch()

    object.__setattr__(storage, "release", release_while_another_writes)
    storage.release_together(lambda: True, 10)
    assert len(releases) == 3
    assert not (tmp_path / "lfs").exists()


def test_next_process_releases_if_the_first_one_is_gone(tmp_path):
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1)
    storage.claim()
    mine = iter([False, False, True])
    storage.release_together(lambda: next(mine), 10)
    assert not (tmp_path / "lfs").exists()


def test_release_that_nobody_does_is_not_waited_for_without_end(tmp_path):
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1)
    storage.claim()
    storage.release_together(lambda: False, 0.1)
    assert storage.folder.exists()
