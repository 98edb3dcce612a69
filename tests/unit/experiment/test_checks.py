"""Which systems can be improved in the study of what faster devices bring."""

import pytest
from tierscope.core.validation import ConfigError
from tierscope.experiment.checks import require_improvable_devices


def system(gfs="emulated", lfs="emulated"):
    """Return what the check looks at."""
    return {"name": "laptop", "gfs": {"kind": gfs}, "lfs": {"kind": lfs}}


def test_real_storage_cannot_be_made_faster():
    message = r"^whatif-truth: got system laptop with lfs.kind directory, expected emul"
    with pytest.raises(ConfigError, match=message):
        require_improvable_devices(system(lfs="directory"), False, [{"lfs_read": 50}])


def test_emulated_or_simulated_storage_can_be_made_faster():
    require_improvable_devices(system(lfs="directory"), False, [{"gfs_meta": 50}])
    require_improvable_devices(system("lustre", "directory"), True, [{"gfs_meta": 50}])
