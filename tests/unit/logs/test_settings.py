import os

import pytest
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.logs.settings import (
    find_logs,
    is_of_logs,
    listing_digest,
    read_settings,
    settings_of,
)
from tierscope.logs.tiers import TierPrefix

DEFAULTS = {"experiment": "scale-model", "system": "scale-model", "sweep": {"a": 1}}
GIVEN = {"experiment": "mine", "logs": ["/logs"]}


def test_keys_of_the_default_experiment_mean_nothing():
    settings = read_settings(DEFAULTS | GIVEN, DEFAULTS)
    assert settings.experiment == "mine"
    assert settings.logs == ("/logs",)
    assert settings.tiers == settings.group == "auto"
    assert is_of_logs(DEFAULTS | GIVEN)
    assert not is_of_logs(DEFAULTS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"teirs": "auto"}, "got unknown key teirs"),
        ({"sweep": {"a": 2}}, "got unknown key sweep"),
        ({"experiment": "scale-model"}, "experiment: got 'scale-model', which is the"),
        ({"logs": []}, "logs: got \\[\\], expected list of at least 1"),
        ({"group": "all"}, "group: got 'all'"),
        (
            {"epochs": "ep[0-9]+"},
            "epochs: got 'ep\\[0-9\\]\\+' with 0 groups, expected 1",
        ),
        ({"epochs": "("}, "epochs: got '\\(', expected a regular expression"),
        ({"group": {"job": "a"}}, "group.job: got 'a' with 0 groups"),
        ({"tiers": {"gfs": "x"}}, "tiers"),
        ({"goal_s": 0}, "goal_s: got 0"),
        ({"filter": {"month": "11/2026"}}, "filter.month"),
    ],
)
def test_a_wrong_key_is_refused_in_one_line(change, words):
    with pytest.raises(ConfigError, match=words) as error:
        read_settings(DEFAULTS | GIVEN | change, DEFAULTS)
    assert "\n" not in str(error.value)


def test_settings_pass_through_json():
    settings = settings_of("x", ["a"], {"gfs": ["/a", "/b"]}, epochs="e([0-9])")
    assert settings.tiers == (TierPrefix("gfs", "/a"), TierPrefix("gfs", "/b"))
    assert settings_of(**settings.as_json()) == settings


def test_the_shipped_example_is_complete(request):
    path = request.config.rootpath / "config" / "logs.yaml"
    settings = read_settings(DEFAULTS | read_yaml(path), DEFAULTS)
    assert settings.pages == 5


def test_logs_are_found_by_path_folder_and_pattern(tmp_path):
    for name in ("a.darshan", "sub/b.darshan", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    both = [f"{tmp_path}/a.darshan", f"{tmp_path}/sub/b.darshan"]
    assert find_logs([str(tmp_path)]) == both
    assert find_logs([f"{tmp_path}/**/*.darshan", both[0]]) == both
    assert find_logs([f"{tmp_path}/sub/c.txt"]) == [f"{tmp_path}/sub/c.txt"]
    assert find_logs([f"{tmp_path}/missing"]) == [f"{tmp_path}/missing"]
    with pytest.raises(ConfigError, match="which names no log"):
        find_logs([f"{tmp_path}/*.gz"])


def test_a_changed_or_removed_log_changes_the_listing(tmp_path):
    log = tmp_path / "a.darshan"
    log.write_text("1")
    before = listing_digest([str(log)])
    assert listing_digest([str(log)]) == before
    log.write_text("12")
    longer = listing_digest([str(log)])
    log.unlink()
    assert len({before, longer, listing_digest([str(log)])}) == 3


def test_patterns_follow_no_links_and_find_no_hidden_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("sub/a.darshan", "sub/.b.darshan"):
        (tmp_path / name).touch()
    (tmp_path / "again").symlink_to("sub")
    (tmp_path / "sub" / "loop").symlink_to("..")
    one = [f"{tmp_path}/sub/a.darshan"]
    for pattern in ("**/*.darshan", "**", "sub/*", "**/a.*"):
        assert find_logs([f"{tmp_path}/{pattern}"]) == one
    assert find_logs([f"{tmp_path}/again/*.darshan"]) == [f"{tmp_path}/again/a.darshan"]
    assert find_logs([f"{tmp_path}/sub/.*"]) == [f"{tmp_path}/sub/.b.darshan"]


def test_two_stars_stand_for_any_folders(tmp_path):
    names = [f"{folder}a.darshan" for folder in ("", "x/", "x/y/", "x/y/z/", ".hid/y/")]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for pattern, found in {
        "**/y/*.darshan": ["x/y/"],
        "**/y/**/*.darshan": ["x/y/", "x/y/z/"],
        "x/**/*.darshan": ["x/", "x/y/", "x/y/z/"],
        "?/**/z/*": ["x/y/z/"],
        "**/**/[xz]/*": ["x/", "x/y/z/"],
        "**/.hid/**": [".hid/y/"],
    }.items():
        expected = [f"{tmp_path}/{folder}a.darshan" for folder in found]
        assert find_logs([f"{tmp_path}/{pattern}"]) == expected


def test_patterns_may_be_relative(tmp_path, monkeypatch):
    (tmp_path / "a.darshan").touch()
    monkeypatch.chdir(tmp_path)
    assert find_logs(["*.darshan"]) == find_logs(["./**/*.darshan"]) == ["a.darshan"]


def test_folders_that_cannot_be_looked_into_are_not_forgotten(tmp_path, monkeypatch):
    (tmp_path / "a.darshan").touch()
    closed = PermissionError(13, "Permission denied", f"{tmp_path}/closed")
    walk = os.walk

    def walk_with_error(folder, onerror):
        yield from walk(folder)
        onerror(closed)

    monkeypatch.setattr(os, "walk", walk_with_error)
    expected = [f"{tmp_path}/a.darshan", f"{tmp_path}/closed"]
    assert find_logs([str(tmp_path)]) == expected
    assert find_logs([f"{tmp_path}/**/a.*"]) == expected
    assert find_logs([f"{tmp_path}/a.*"]) == expected[:1]


@pytest.mark.parametrize("pattern", ["/x/a**/*.darshan", "a\0*"])
def test_a_pattern_that_is_none_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"logs: got .* expected paths, folders"):
        find_logs([pattern])
