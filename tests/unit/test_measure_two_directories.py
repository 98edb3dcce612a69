"""The configuration that is written for two directories of the user."""

import os
from pathlib import Path

import measure_two_directories
import pytest
import yaml
from measure_two_directories import check_directories, main, tried
from tierscope.core.validation import ConfigError


@pytest.fixture(autouse=True)
def _few_files(monkeypatch):
    """Try directories with the fewest files."""
    monkeypatch.setattr(measure_two_directories, "MOST_TEST_S", 0)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Return two directories, and work in an empty folder beside them."""
    for name in ("gfs", "lfs", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return [str(tmp_path / name) for name in ("gfs", "lfs")]


def test_sizes_are_chosen_once(folders):
    said = main("mine", *folders)
    path = Path("results/mine/experiment.yaml")
    text = path.read_text()
    config = yaml.safe_load(text)
    assert config["roots"] == {
        "gfs": f"{folders[0]}/tierscope",
        "lfs": f"{folders[1]}/tierscope",
    }
    n_files = config["datasets"]["small"]["n_files"]
    assert f"Dataset: {n_files} files" in text
    assert said[-1].startswith("Written to results/mine/experiment.yaml")
    text = text.replace("roots:\n", "roots:\n  ideal: /dev/shm/mine\n")
    path.write_text(text.replace(str(n_files), "480"))
    assert main("mine", *folders) == [
        "Using results/mine/experiment.yaml, which an earlier start has written."
    ]
    assert "480" in path.read_text()
    assert [os.listdir(folder) for folder in folders] == [[], []]


def test_configuration_for_other_directories_is_not_used(folders):
    main("mine", *folders)
    with pytest.raises(ConfigError, match=r"mine/experiment.yaml: is for roots \{'gfs"):
        main("mine", *reversed(folders))
    Path("results/mine/experiment.yaml").write_text("- a list\n")
    with pytest.raises(ConfigError, match=r"got \['a list'\], expected keys"):
        main("mine", *folders)
    Path("results/mine/experiment.yaml").write_text("experiment: mine\n")
    with pytest.raises(ConfigError, match=r"is for roots None, got \{'gfs': "):
        main("mine", *folders)


def test_wrong_name_is_refused_before_anything_is_written(folders):
    with pytest.raises(
        ConfigError, match=r"config: experiment: got '../mine', expected"
    ):
        main("../mine", *folders)
    assert os.listdir() == []


def test_wrong_directories_are_refused(tmp_path):
    good, other = tmp_path / "good", tmp_path / "other"
    (good / "inner").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(good)
    for gfs, lfs, words in [
        ("", other, "^GFS: got none, expected a directory"),
        (other, "", "^LFS: got none, expected a directory"),
        (tmp_path / "x", other, "^GFS: got .*/x, which does not exist, expected a dir"),
        (other, tmp_path / "file", "^LFS: got .*/file, a file, expected a directory"),
        (good, tmp_path / "link", "^LFS: got .*/link, the directory of the GFS, exp"),
        (good, good / "inner", "^LFS: got .*/inner, which is in .*/good of the GFS, "),
        (good / "inner", good, "^GFS: got .*/inner, which is in .*/good of the LFS, "),
    ]:
        with pytest.raises(ConfigError, match=words):
            check_directories(str(gfs), str(lfs))
    tiers = check_directories(str(good), str(other))
    assert tiers == {"GFS": good.resolve(), "LFS": other.resolve()}


def test_directory_that_cannot_be_written_is_refused():
    with pytest.raises(
        ConfigError, match=r"^GFS: got /proc, expected a directory to wh"
    ):
        tried("GFS", Path("/proc"), 4)


def test_directory_that_others_could_replace_is_refused(tmp_path):
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o777)
    with pytest.raises(
        ConfigError, match=r"^LFS: .*/public: all users may replace what"
    ):
        tried("LFS", public, 4)


def test_directory_is_tried_with_files_that_are_gone_after_it(tmp_path):
    found = tried("GFS", tmp_path, 4)
    assert found.write_files_per_s > 0
    assert found.read_files_per_s > 0
    assert found.system.free_bytes > 0
    assert os.listdir(tmp_path) == []
