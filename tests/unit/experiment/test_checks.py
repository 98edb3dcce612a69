"""Which systems can be improved in the study of what faster devices bring."""

from dataclasses import replace

import pytest
from descriptions import describe_scenario
from tierscope.core.validation import ConfigError
from tierscope.experiment.checks import require_improvable_devices


def system(gfs="emulated", lfs="emulated"):
    """Return a machine with tiers of these kinds."""
    laptop = describe_scenario(system={"name": "laptop"}).system
    return replace(
        laptop,
        gfs=replace(laptop.gfs, kind=gfs),
        lfs=replace(laptop.lfs, kind=lfs),
    )


def test_real_storage_cannot_be_made_faster():
    message = r"^whatif-truth: got system laptop with lfs.kind directory, expected emul"
    with pytest.raises(ConfigError, match=message):
        require_improvable_devices(system(lfs="directory"), False, [{"lfs_read": 50}])


def test_emulated_or_simulated_storage_can_be_made_faster():
    require_improvable_devices(system(lfs="directory"), False, [{"gfs_meta": 50}])
    require_improvable_devices(system("lustre", "directory"), True, [{"gfs_meta": 50}])
