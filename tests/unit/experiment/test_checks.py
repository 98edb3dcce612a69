"""OST counts of a system, and which systems can be improved."""

from dataclasses import replace

import pytest
from descriptions import describe_scenario
from tierscope.core.validation import ConfigError
from tierscope.experiment.checks import check_n_osts, require_improvable_devices


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


@pytest.mark.parametrize(("n_servers", "n_osts"), [(None, 0), (4, 4)])
def test_directory_has_as_many_osts_as_its_file_says(n_servers, n_osts):
    laptop = system(gfs="directory", lfs="directory")
    machine = replace(laptop, gfs=replace(laptop.gfs, n_osts=n_servers))
    check_n_osts(n_osts, machine, simulated=False)
    with pytest.raises(
        ConfigError, match=rf"got 1, expected {n_osts} \(gfs.n_osts of a"
    ):
        check_n_osts(1, machine, simulated=False)
