"""YAML files as users write them: what is not plain is refused with its line."""

import pytest
from tierscope.core.given.yaml_files import (
    MOST_DEPTH,
    UnreadableError,
    read_mapping,
    read_value,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.yaml"


def refusal(path):
    """Return the message with which a file is refused."""
    with pytest.raises(UnreadableError) as error:
        read_mapping(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: 1\n# M\xfcller\n", ", line 2: got byte 0xfc, which is not UTF-8"),
        ("a: 1\n".encode("utf-16"), ": is UTF-16 or UTF-32, expected UTF-8"),
        ("a: 1\n".encode("utf-32-be"), ", line 1: got character U+0000, expected text"),
        (b"a: 1\nb: x\0y\n", ", line 2: got character U+0000, expected text"),
        (b"", ": got nothing, expected keys with values"),
        (b"# only\n", ": got nothing, expected keys with values"),
        (b"- a\n", ": got ['a'], expected keys with values"),
        (b"a: 1\n---\nb: 2\n", ", line 2: is not valid YAML: expected a single docu"),
        (b"a: *gone\n", ", line 1: is not valid YAML: found undefined alias"),
        (b"a: !!python/object:os.system x\n", ", line 1: is not valid YAML: could not"),
        (b"a: &a [*a]\n", ", line 1: got an alias of what holds it"),
        (b"a: !!bool x\n", ", line 1: got x, expected true or false"),
    ],
)
def test_file_of_another_machine_is_refused_with_its_line(path, content, words):
    path.write_bytes(content)
    message = refusal(path)
    assert message.startswith(f"{path}{words}")
    assert "\n" not in message


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_byte_order_mark_and_line_ends_of_other_systems_are_read(path, mark, end):
    path.write_bytes(mark + end.join([b"a: 1", b"b: [2]", b""]))
    assert read_mapping(path) == {"a": 1, "b": [2]}


def test_folder_is_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused_before_a_parser_breaks(path, text):
    path.write_text(text)
    assert f"got a value nested {MOST_DEPTH + 1} deep" in refusal(path)


def test_aliases_that_stand_for_too_much_are_refused(path):
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for n in range(1, 8):
        lines.append(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]")
    path.write_text("\n".join(lines))
    assert ", line 6: got aliases that stand for" in refusal(path)


def test_aliases_of_a_long_text_count_its_letters(path):
    aliases = ", ".join(["*a"] * 10_000)
    path.write_text(f"a: &a {'x' * 100_000}\nb: [{aliases}]\n")
    assert ", line 2: got aliases that stand for 62510001 values" in refusal(path)


def test_many_keys_of_json_are_read_in_linear_time(path):
    keys = [f'"k{number}": {number}' for number in range(100_000)]
    path.write_text(f"{{{', '.join(keys)}}}")
    assert len(read_mapping(path)) == 100_000
    path.write_text(f"{{{', '.join([*keys, keys[7]])}}}")
    assert refusal(path) == f"{path}: got key k7 2 times, expected it once"


def test_number_of_json_with_thousands_of_digits_is_refused(path):
    path.write_text(f'{{"a": {"9" * 5000}}}')
    assert ", line 1: got 9999" in refusal(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: got key a twice (first in line 1)"),
        ("a:\n  - b: 1\n    'b': 2\n", "line 3: got key b twice (first in line 2)"),
        ("<<: {a: 1}\n<<: {b: 1}\n", "line 2: got key << twice"),
        ("on: 1\n", "line 1: got key on, which YAML reads as true or false"),
        ("a:\n  ~: 1\n", "line 2: got key ~, which YAML reads as null"),
        ("1.5: 1\n", "line 1: got key 1.5, which YAML reads as a number"),
        ("2026-01-02: 1\n", "line 1: got key 2026-01-02, which YAML reads as a date"),
        ("? [a]\n: 1\n", "line 1: got a list or a mapping as a key"),
    ],
)
def test_keys_that_are_there_twice_or_are_no_text_are_refused(path, text, words):
    path.write_text(text)
    assert words in refusal(path)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": {"a": 1,\t"a": 2}}'])
def test_key_that_json_has_twice_is_refused(path, text):
    path.write_text(text)
    assert refusal(path) == f"{path}: got key a 2 times, expected it once"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("032", "26, expected 32 or 26, or '032' in quotes for a text"),
        ("-032", "-26, expected -32 or -26, or"),
        ("1:30", "90, expected 90, or '1:30'"),
        ("1:30.5", "90.5, expected 90.5, or"),
        ("1_0", "10, expected 10, or"),
        ("1_000.5_0", "1000.5, expected 1000.5, or"),
    ],
)
def test_number_that_people_read_otherwise_is_refused(path, text, expected):
    path.write_text(f"a: 1\nb: [{text}]\n")
    assert refusal(path).startswith(
        f"{path}, line 2: got {text}, which YAML reads as {expected}"
    )


def test_date_that_is_none_is_refused_with_its_line(path):
    path.write_text("a: 1\nb: 2026-13-45\n")
    assert ", line 2: got 2026-13-45, expected a date: month" in refusal(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-1", -1),
        ("1_000_000", 1_000_000),
        ("0x10", 16),
        (".5", 0.5),
        ("1.5e+3", 1500.0),
        ("1e3", "1e3"),
        ("'032'", "032"),
        ("yes", True),
    ],
)
def test_plain_values_are_read(text, value):
    assert read_value(text) == value


def test_merge_keys_are_read(path):
    path.write_text("a: &a {b: 1, c: 2}\nd:\n  <<: *a\n  b: 3\n")
    assert read_mapping(path)["d"] == {"b": 3, "c": 2}
