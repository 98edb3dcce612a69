"""Values of --config, of which Snakemake makes texts."""

from pathlib import Path

import pytest
from snakemake.cli import parse_config
from snakemake.utils import update_config
from tierscope.core.given.command_line import with_kinds
from tierscope.core.validation import read_yaml

DEFAULT = Path(__file__).parents[4] / "config" / "config.yaml"


def given(*entries):
    """Return the default configuration with values of the command line."""
    config = read_yaml(DEFAULT)
    made = parse_config(entries)
    update_config(config, made)
    return with_kinds(config, entries, made, "config")


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("simulate=true", True),
        ("simulate=on", True),
        ("simulate=False", False),
        ("simulate=maybe", "maybe"),
        ("experiment=2026", "2026"),
        ("experiment=007", "007"),
        ("experiment=true", "true"),
        ("allow_mixed=[tracer]", ["tracer"]),
        ("system=[", "["),
    ],
)
def test_value_has_the_kind_that_its_key_has(entry, value):
    assert given(entry)[entry.partition("=")[0]] == value


def test_numbers_in_a_mapping_are_numbers_and_other_keys_stay():
    config = given("training={epochs: 4, cold: false}", "roots={gfs: /a, lfs: null}")
    default = read_yaml(DEFAULT)
    assert config["training"] == default["training"] | {"epochs": 4, "cold": False}
    assert config["roots"] == default["roots"] | {"gfs": "/a", "lfs": None}


def test_value_of_another_origin_stays():
    config = read_yaml(DEFAULT) | {"simulate": "no"}
    entries = ["simulate=true"]
    made = parse_config(entries)
    assert with_kinds(config, entries, made, "config")["simulate"] == "no"
