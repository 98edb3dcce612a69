import pytest
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.logs.settings import (
    is_of_logs,
    read_settings,
    settings_of,
)
from tierscope.logs.tiers import TierPrefix
from tierscope.trace.darshan.inflation import Inflation

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
        ({"vanished": "stay"}, "vanished: got 'stay'"),
        ({"log_timeout_s": 0}, "log_timeout_s: got 0"),
        ({"inflation": {"names": 0}}, "inflation.names: got 0"),
        ({"inflation": {"paths": 9}}, "inflation: got unknown key paths"),
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
    allowing = settings_of("x", ["a"], inflation={"names": 99})
    assert allowing.inflation == Inflation(99, 500)
    assert settings_of(**allowing.as_json()) == allowing


def test_neither_logs_nor_names_nor_waiting_change_the_tables_of_a_chunk():
    given = {"anonymous": True, "vanished": "drop", "log_timeout_s": 5}
    some = settings_of("x", ["a"], **given)
    assert some.of_chunks() == settings_of("x", ["b"]).of_chunks()
    for others in ({"group": "one"}, {"inflation": {"names": 99}}):
        assert some.of_chunks() != settings_of("x", ["a"], **others).of_chunks()
    assert settings_of(**some.of_chunks()).anonymous is False


def test_the_shipped_example_is_complete(request):
    path = request.config.rootpath / "config" / "logs.yaml"
    settings = read_settings(DEFAULTS | read_yaml(path), DEFAULTS)
    assert settings.pages == 5


def test_filter_is_said_without_names_if_nobody_may_be_named():
    wanted = {"user": "anna", "executable": None, "month": "2026-03"}
    settings = settings_of("x", ["logs"], filter=wanted)
    assert settings.filter_words() == "user anna only, month 2026-03 only"
    nobody = settings_of("x", ["logs"], filter=wanted, anonymous=True)
    assert nobody.filter_words() == "filtered by user and month"
    assert settings_of("x", ["logs"]).filter_words() == ""
