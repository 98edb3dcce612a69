"""Values checked against our schemas, and the files that are read for it."""

import pytest
from tierscope.core.validation import (
    SCHEMAS,
    ConfigError,
    check,
    read_schema,
    read_yaml,
)

NUMBERS = {"integer", "number"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.yaml"


def refusal(path):
    """Return the message with which a file is refused."""
    with pytest.raises(ConfigError) as error:
        read_yaml(path)
    return str(error.value)


def test_values_have_the_types_of_yaml(path):
    path.write_text("a: {b: [1, 2.5, 1e3, yes, ~, 0x10]}\nc: 2026-01-02\n")
    content = read_yaml(path)
    assert content["a"] == {"b": [1, 2.5, "1e3", True, None, 16]}
    assert str(content["c"]) == "2026-01-02"


def test_tabs_between_key_and_value_are_spaces(path):
    path.write_text("a:\t1\n")
    assert read_yaml(path) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "expected ',' or ']', but got"),
        ("a: 1\n\tb: 2\n", 2, "found character '\\t' that cannot start any token"),
        ("a: 'b\n", 2, "while scanning a quoted scalar"),
    ],
)
def test_error_names_file_line_and_what_was_found(path, text, line, words):
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}: is not valid YAML: ")
    assert words in message
    assert "\n" not in message


def test_file_that_is_missing_is_named(path):
    assert "No such file" in refusal(path)


def numbers(schema, path=""):
    """Yield the path and the schema of each number."""
    if isinstance(schema, list):
        for part in schema:
            yield from numbers(part, path)
    if isinstance(schema, dict):
        kinds = schema.get("type", [])
        if NUMBERS & set(kinds if isinstance(kinds, list) else [str(kinds)]):
            yield path, schema
        for key, part in schema.items():
            yield from numbers(part, f"{path}.{key}")


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.yaml")), ids=lambda f: f.stem)
def test_every_number_has_both_bounds(file):
    found = list(numbers(read_schema(file.name.removesuffix(".schema.yaml"))))
    assert found
    for path, schema in found:
        assert {"minimum", "exclusiveMinimum"} & schema.keys(), path
        assert "maximum" in schema, path


@pytest.mark.parametrize("key", [3, True, None, 1.5])
def test_key_that_is_no_text_is_refused(key):
    values = {"small": {"n_files": 8, "file_size_bytes": 64, "batch_size": 1}}
    check(values, "datasets", "here")
    with pytest.raises(ConfigError, match=rf"^here: top level: got key {key}, exp"):
        check(values | {key: values["small"]}, "datasets", "here")


def test_long_value_is_shortened():
    with pytest.raises(ConfigError) as error:
        check({"small": ["x" * 50] * 1000}, "datasets", "here")
    assert len(str(error.value)) < 300
