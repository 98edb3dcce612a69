"""YAML files of users, read strictly: what is not plain is refused with its line.

YAML 1.1 reads 032 as 26 and 1:30 as 90, and takes the last of two equal keys.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

MOST_DEPTH = 50
MOST_VALUES = 1_000_000  # with each alias counted as what it stands for
_LETTERS = 16  # of a text that count as a value
_FEW_LETTERS = 1 << 17  # of a file that the slow parser reads in seconds
_TAG = "tag:yaml.org,2002:"
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_PLAIN_INTEGER = re.compile(
    r"[-+]?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(_[0-9]{3})+|0x[0-9a-fA-F]+|0b[01]+)"
)
_PLAIN_NUMBER = re.compile(
    r"[-+]?([0-9]+|[1-9][0-9]{0,2}(_[0-9]{3})+)?(\.[0-9]*)?(e[-+]?[0-9]+)?"
    r"|[-+]?\.(inf|nan)",
    re.IGNORECASE,
)
_KINDS = {
    "bool": "true or false",
    "null": "null",
    "float": "a number",
    "timestamp": "a date",
}
_LOADERS = (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader)


class UnreadableError(ValueError):
    """A file is no plain YAML; one line names file, line, finding and expectation."""


def read_mapping(path: str | Path) -> dict[Any, Any]:
    """Read a file of keys with values, in YAML or JSON.

    Raises
    ------
    UnreadableError
        If it cannot be read, is not UTF-8 or YAML, has a key twice, or a number that
        YAML reads otherwise than people do.
    """
    text = _text_of(Path(path))
    content = _json_of(text, path)
    if content is None:
        content = _yaml_of(text, path)
    if not isinstance(content, dict):
        found = "nothing" if content is None else repr(content)[:60]
        raise UnreadableError(f"{path}: got {found}, expected keys with values")
    return content


def read_value(text: str) -> Any:
    """Return what a text means in YAML, such as a value of a command line.

    Raises
    ------
    UnreadableError
        As of `read_mapping`.
    """
    return _yaml_of(text, repr(text))


def _text_of(path: Path) -> str:
    """Return the text of a file, which has to be UTF-8 without control characters."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableError(f"{path}: cannot be read: {reason}") from error
    if content.startswith(_UTF_16_OR_32):
        raise UnreadableError(f"{path}: is UTF-16 or UTF-32, expected UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"{path}, line {line}: got byte 0x{content[error.start]:02x}, which is not "
            "UTF-8, expected a file in UTF-8"
        ) from error
    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableError(
            f"{path}, line {line}: got character U+{ord(found[0]):04X}, expected text"
        )
    return text


def _json_of(text: str, path: str | Path) -> Any:
    """Return the content of a JSON file, which Snakemake reads as such; else None."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        ((key, times),) = Counter(key for key, _ in pairs).most_common(1) or [("", 1)]
        if times > 1:
            raise UnreadableError(
                f"{path}: got key {key} {times} times, expected it once"
            )
        return dict(pairs)

    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text, object_pairs_hook=unique)
    except UnreadableError:
        raise
    except (ValueError, RecursionError):
        return None


def _yaml_of(text: str, path: str | Path) -> Any:
    """Return a YAML text's content; what the fast parser refuses, the other reads."""
    for loader in _LOADERS[: 1 + (len(text) <= _FEW_LETTERS)]:
        try:
            _check_depth(text, path, loader)
            return _content(text, path, loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            words = " ".join(filter(None, (error.context, error.problem)))
            where = f", line {mark.line + 1}" if mark else ""
            refusal = f"{path}{where}: is not valid YAML: {words}"
        except yaml.YAMLError as error:
            refusal = f"{path}: is not valid YAML: {' '.join(str(error).split())}"
    raise UnreadableError(refusal)


def _check_depth(text: str, path: str | Path, loader: type) -> None:
    """Refuse deep nesting, on which the parsers themselves break."""
    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise UnreadableError(
                f"{_place(path, event)}: got a value nested {depth} deep, expected at "
                f"most {MOST_DEPTH}"
            )


def _content(text: str, path: str | Path, loader_type: type) -> Any:
    """Return the content of a text after a check of each of its nodes."""
    loader = loader_type(text)
    try:
        if (node := loader.get_single_node()) is None:
            return None
        _n_checked(node, path, loader, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _place(path: str | Path, node: yaml.Node | yaml.Event) -> str:
    """Return file and line of a node."""
    return f"{path}, line {node.start_mark.line + 1}"


def _n_checked(node: yaml.Node, path: str | Path, loader: Any, sizes: dict) -> int:
    """Check a node and what it holds; return how many values it stands for."""
    if id(node) in sizes:  # an alias
        if sizes[id(node)] is None:
            raise UnreadableError(
                f"{_place(path, node)}: got an alias of what holds it, expected one of "
                "an earlier value"
            )
        return sizes[id(node)]
    sizes[id(node)] = None
    size = 1
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(node, path, loader)
        size += len(node.value) // _LETTERS
    elif isinstance(node, yaml.MappingNode):
        _check_keys(node, path, loader)
        parts = [part for pair in node.value for part in pair]
        size += sum(_n_checked(part, path, loader, sizes) for part in parts)
    else:
        size += sum(_n_checked(part, path, loader, sizes) for part in node.value)
    if size > MOST_VALUES:
        raise UnreadableError(
            f"{_place(path, node)}: got aliases that stand for {size} values, expected "
            f"at most {MOST_VALUES}"
        )
    sizes[id(node)] = size
    return size


def _check_keys(node: yaml.MappingNode, path: str | Path, loader: Any) -> None:
    """Refuse keys that are there twice, and keys that are neither text nor integer."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise UnreadableError(
                f"{_place(path, key)}: got a list or a mapping as a key, expected text"
            )
        kind = key.tag.removeprefix(_TAG)
        if kind not in ("str", "int", "merge"):
            raise UnreadableError(
                f"{_place(path, key)}: got key {key.value or 'null'}, which YAML reads "
                f"as {_KINDS.get(kind, kind)}, expected text: write '{key.value}'"
            )
        if key.value in lines:
            raise UnreadableError(
                f"{_place(path, key)}: got key {key.value} twice (first in line "
                f"{lines[key.value]}), expected it once"
            )
        lines[key.value] = key.start_mark.line + 1


def _check_scalar(node: yaml.ScalarNode, path: str | Path, loader: Any) -> None:
    """Refuse numbers that people read otherwise, and dates that are none."""
    kind = node.tag.removeprefix(_TAG)
    if kind not in _KINDS and kind != "int":
        return
    try:
        value = loader.construct_object(node)
    except (ValueError, LookupError, AttributeError, OverflowError) as error:
        words = _KINDS.get(kind, "an integer")
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise UnreadableError(
            f"{_place(path, node)}: got {node.value[:60]}, expected {words}{why}"
        ) from error
    plain = {"int": _PLAIN_INTEGER, "float": _PLAIN_NUMBER}.get(kind)
    if plain is None or plain.fullmatch(node.value):
        return
    sign = "-" if node.value.startswith("-") else ""
    meant = sign + node.value.lstrip("+-").lstrip("0_")
    wanted = (
        {meant: None, str(value): None} if meant.lstrip("-").isdecimal() else {value}
    )
    words = " or ".join(map(str, wanted))
    raise UnreadableError(
        f"{_place(path, node)}: got {node.value}, which YAML reads as {value}, "
        f"expected {words}, or '{node.value}' in quotes for a text"
    )
