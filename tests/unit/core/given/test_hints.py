"""Hints on refused values: each one, when followed, is accepted."""

import json
import re

import pytest
import yaml
from tierscope.core.given.hints import hint, in_yaml
from tierscope.core.validation import accepts, read_schema

SCHEMAS = ("config", "system", "datasets", "logs")


def keys(schema, key=""):
    """Yield the name and the schema of each key, and of items of its lists."""
    yield key, schema
    for name, child in schema.get("properties", {}).items():
        yield from keys(child, name)
    for pattern, child in schema.get("patternProperties", {}).items():
        yield from keys(child, pattern)
    for part in ("additionalProperties", "items"):
        if isinstance(schema.get(part), dict):
            yield from keys(schema[part], key)
    for option in schema.get("oneOf", []):
        yield from keys(option, key)


KEYS = [one for name in SCHEMAS for one in keys(read_schema(name))]
NUMBERS = [one for one in KEYS if one[1].get("type") in ("integer", "number")]
WRONG = [
    "2",
    "2.0",
    "1e3",
    "1e-3",
    "0x10",
    "0o32",
    "007",
    "-1",
    "1,5",
    "64 KiB",
    "5 %",
    "3 s",
    "10 min",
    "true",
    "True",
    "yes",
    "on",
    "1",
    "0",
    "off",
    "null",
    "None",
    "",
    "small, large",
    "[1, 2]",
    "{a: 1}",
    "[",
    "Pinning",
    "first misfit",
    "much",
    "nan",
    True,
    False,
    None,
    0,
    1,
    2,
    2.0,
    2.5,
    2026,
    float("inf"),
    float("nan"),
    [],
    ["2"],
    [2],
    [True],
    ["pinning"],
    [None],
    {},
    {"a": "1"},
    *yaml.safe_load("[2026-01-02, 2026-01-02 03:04:05]"),
]


def advice(value, key, schema):
    """Return what a hint says to write, None if there is no hint."""
    text = hint(value, key, schema, lambda one: accepts(one, schema))
    found = re.fullmatch(r" \((?:to YAML this is \w+ ?\w*: )?write (.*)\)", text)
    assert text == "" or found, text
    return found and found[1]


def test_every_hint_is_accepted_when_it_is_followed():
    followed = 0
    for key, schema in KEYS:
        for value in WRONG:
            if accepts(value, schema) or not (text := advice(value, key, schema)):
                continue
            followed += 1
            assert accepts(yaml.safe_load(text), schema), (key, value, text)
    assert followed > 500


def test_every_quoted_number_has_a_hint():
    assert len(NUMBERS) > 80
    for key, schema in NUMBERS:
        number = schema.get("minimum", schema["maximum"])
        assert advice(str(number), key, schema) == in_yaml(number), key


def test_every_boolean_has_a_hint():
    booleans = [(key, one) for key, one in KEYS if one.get("type") == "boolean"]
    assert len(booleans) > 8
    for key, schema in booleans:
        for value in ("true", "yes", "on", "On", "1", 1):
            assert advice(value, key, schema) == "true", (key, value)
        for value in ("false", "no", "off", "0", 0):
            assert advice(value, key, schema) == "false", (key, value)


@pytest.mark.parametrize(
    ("key", "value", "schema", "text"),
    [
        ("epochs", "2.0", {"type": "integer"}, "2"),
        ("epochs", 2.0, {"type": "integer"}, "2"),
        ("size_bytes", "4 MiB", {"type": "integer"}, "4194304"),
        ("size_bytes", "1.5 GB", {"type": "integer"}, "1500000000"),
        ("latency_s", "10 ms", {"type": "number"}, "0.01"),
        ("start_s", "5min", {"type": "number"}, "300"),
        ("rate_bytes_per_s", "2 GB/s", {"type": "number"}, "2000000000"),
        ("io_percent", "5 %", {"type": "number"}, "5"),
        ("n_files", "5 %", {"type": "integer"}, None),
        ("stop", "First misfit", {"enum": ["first-misfit"]}, "first-misfit"),
        ("policies", "lru", {"type": "array", "items": {"enum": ["lru"]}}, "[lru]"),
        ("n", "1, 2", {"type": "array", "items": {"type": "integer"}}, "[1, 2]"),
        ("n", ["1"], {"type": "integer"}, "1"),
        ("experiment", 2026, {"type": "string"}, "'2026'"),
        ("experiment", False, {"type": "string"}, "'no'"),
        ("darshan", None, {"type": "string"}, None),
        ("policy", None, {"enum": ["none"]}, "none"),
        ("rates", "Auto", {"type": "string", "pattern": "^auto\\Z"}, "auto"),
        ("account", "my account", {"type": "string", "pattern": "^[a-z-]*$"}, None),
    ],
)
def test_hint_says_what_was_meant(key, value, schema, text):
    assert advice(value, key, schema) == text


def test_values_are_said_as_yaml_has_them():
    values = [None, True, "a", [1, None], {"a": 0.5}, "2"]
    expected = ["null", "true", "a", "[1, null]", "{a: 0.5}", "'2'"]
    assert [in_yaml(value) for value in values] == expected
    assert json.loads(in_yaml(list(range(200)))) == list(range(200))  # one line
