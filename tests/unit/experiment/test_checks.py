"""OST counts of a system, which systems can be improved, and what programs can do."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from descriptions import describe_scenario
from snakemake.utils import update_config
from tierscope.core.scenario import UserDataset
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.checks import check_n_osts, require_improvable_devices
from tierscope.experiment.config import defaults_of_programs, read_experiment

ROOT = Path(__file__).parents[3]
PROGRAM = {
    "system": "one-process",
    "datasets": {"mine": {"path": "/data/mine"}},
    "loader": {"command": ["python", "train.py", "{dataset}"]},
}


def with_program(**own):
    """Return the experiment of a program of the user, with further changes."""
    config, own = read_yaml(ROOT / "config" / "config.yaml"), PROGRAM | own
    for one in (defaults_of_programs([own]), own):
        update_config(config, one)
    return read_experiment(config, ROOT / "resources")


def test_storage_of_a_program_is_probed_with_files_of_its_dataset():
    experiment = with_program()
    (plan,) = experiment.calibrations.values()
    assert plan.probed_n_osts == (0,)
    probed = experiment.probe_description("mine", 0)
    assert (probed.dataset, probed.buffer_bytes) == (
        UserDataset("mine", "/data/mine"),
        0,
    )
    # Of one process 32 files, 4 MiB of each, and ten percent.
    assert experiment.probe_job("mine", 0).lfs_mib == 141


def test_generated_dataset_of_a_program_is_probed_as_its_own(tmp_path):
    datasets = {"datasets": {}, "sweep": {"datasets": ["small"]}}
    experiment = with_program(**datasets, roots={"gfs": str(tmp_path)})
    probed = experiment.probe_description("small", 0)
    folder = experiment.datasets["small"].directory(0)
    assert probed.dataset.path == str(tmp_path / "data" / folder)


def test_no_other_osts_of_a_program_are_probed():
    other = {"calibrations": {"all-osts": {"probed_n_osts": [1]}}}
    with pytest.raises(
        ConfigError, match=r"probed_n_osts: got 1, expected some of \[0\]"
    ):
        with_program(model=other).calibration("all-osts")


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


def test_osts_of_a_dataset_of_the_user_need_not_be_known(monkeypatch):
    monkeypatch.setenv("TIERSCOPE_GFS_ROOT", "/lustre/me")
    (scenario,) = with_program(system="cluster").sweep
    assert scenario.n_osts == 0


def test_generated_dataset_whose_place_is_known_on_nodes_only_is_refused(monkeypatch):
    monkeypatch.delenv("TIERSCOPE_GFS_ROOT", raising=False)
    monkeypatch.setenv("TIERSCOPE_LFS_ROOT", "/local/me")
    own = {"datasets": {}, "sweep": {"n_osts": [1]}}
    own["figures"] = {"scenario": {"n_osts": 1}}
    with pytest.raises(
        ConfigError, match=r"got small with a program, .*is not set here"
    ):
        with_program(system="cluster", **own)


@pytest.mark.parametrize("datasets", [PROGRAM["datasets"], {}])
def test_program_on_emulated_tiers_is_refused_with_what_can_take_its_place(datasets):
    with pytest.raises(ConfigError, match="or loader tensorflow or posix with dataset"):
        with_program(system="scale-model", datasets=datasets)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            {"sweep": {"policies": ["clairvoyant"]}},
            "policies: got clairvoyant, expected none",
        ),
        ({"sweep": {"policies": ["adhoc"]}}, "policies: got adhoc, expected none"),
        (
            {"sweep": {"loaders": ["program", "posix"]}},
            "sweep.loaders: got posix and loader.command, expected",
        ),
        (
            {"loader": {"command": ["train.py", "--data", "/data"]}},
            "loader.command: got 'train.py --data /data', expected {dataset} in it",
        ),
        (
            {"loader": {"command": [" ", "{dataset}"]}},
            "loader.command.0: got ' ', expected a program",
        ),
        (
            {"roots": {"lfs": "/data/mine/lfs"}},
            "datasets.mine.path: got '/data/mine' and LFS '/data/mine/lfs', expected",
        ),
        (
            {"roots": {"lfs": "/data"}},
            "datasets.mine.path: got '/data/mine' and LFS '/data', expected folders",
        ),
        (
            {"studies": {"nodes": {"n_nodes": [1]}}},
            "studies.nodes.n_nodes: got [1], expected [] with a program",
        ),
        (
            {"datasets": {"Mine": {"path": "/data/mine"}}},
            "datasets: got 'Mine', expected a name of small letters, digits and '_'",
        ),
        (
            {"datasets": {"mine": {"path": "/da\0ta"}}},
            "datasets.mine.path: got '/da\\x00ta', expected a path without NUL, tabs",
        ),
        (
            {"whatif": {"goal": {"of": "execution_time"}}},
            "whatif.goal.of: got execution_time, expected io_time with a program",
        ),
        (
            {"datasets": {"mine": {"path": "/data/mine", "n_files": 8}}},
            "datasets.mine: got path and n_files, expected only one of them",
        ),
        (
            {"loader": {}},
            "datasets.mine: got path '/data/mine', expected loader.command",
        ),
        (
            {"loader": {}, "datasets": {}, "sweep": {"loaders": ["program"]}},
            "loader.command: got null, expected the command of loader program",
        ),
        ({"simulate": True}, "loader.command: got a program with simulated tiers"),
    ],
)
def test_what_cannot_be_done_with_a_program_is_refused_in_a_line(own, message):
    if not own.get("datasets", PROGRAM["datasets"]):
        own["sweep"] |= {"datasets": ["small"], "n_osts": [0]}
        own["figures"] = {"scenario": {"dataset": "small", "n_osts": 0}}
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        with_program(**own)
    assert "\n" not in str(error.value)


def test_command_in_place_needs_no_place_for_the_dataset():
    own = {"loader": {"command": ["./train"], "in_place": True}}
    assert with_program(**own).runs_program
