import os

import pytest
from tierscope.core.machine import Tier, TierError
from tierscope.storage.tier import (
    epoch_alias,
    make_epoch_aliases,
    peer_alias,
)


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
    with pytest.raises(TierError, match=r"data.ep0: exists and is not tiersc"):
        make_epoch_aliases(tmp_path / "data", 1)
