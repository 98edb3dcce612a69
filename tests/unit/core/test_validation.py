"""YAML files as they are read: fast, and with errors that say where."""

import pytest
from tierscope.core.validation import ConfigError, read_yaml


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
    ("text", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", "expected ',' or ']', but got"),
        ("a: 1\n\tb: 2\n", "found character '\\t' that cannot start any token"),
        ("a: 'b\n", "while scanning a quoted scalar"),
    ],
)
def test_error_names_file_line_and_what_was_found(path, text, words):
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert ", line " in message
    assert "\n" not in message


@pytest.mark.parametrize("content", [b"a: \xff\n", b"a: 2026-13-45\n"])
def test_what_is_no_text_or_no_date_is_refused_with_the_file(path, content):
    path.write_bytes(content)
    assert refusal(path).startswith(f"{path}: ")


def test_file_that_is_missing_is_named(path):
    assert "No such file" in refusal(path)
