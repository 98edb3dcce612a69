"""Keys of a file that are fields of a class: the schema is made of the fields.

Such a field is ``Annotated[type, rules, "meaning"]``. The class is a dataclass, or a
`TypedDict` if the code uses the mapping itself. If a field of a dataclass is None by
default, a file leaves the key out; it does not say null. Ranks import this module, so
it is small.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

ALL, NONE = "all", "none"  # keys that a file must have, if not those without a default
Rules = tuple[tuple[str, Any], ...]  # keywords of JSON Schema and their values
_KINDS = {int: "integer", float: "number", str: "string", bool: "boolean"}
_KINDS |= {NoneType: "null", Sequence: "array"}


def rules(**keywords: Any) -> Rules:
    """Return what a value has to meet besides its type."""
    return tuple(keywords.items())


def from_to(least: float, most: float) -> Rules:
    """Return the rules of a number that may be either."""
    return rules(minimum=least, maximum=most)


def above(bound: float, most: float) -> Rules:
    """Return the rules of a number that must not be the lower one."""
    return rules(exclusiveMinimum=bound, maximum=most)


Seconds = Annotated[float, from_to(0, 86400)]
Rate = Annotated[float, from_to(0.001, 1e18)]
Folder = Annotated[
    str,
    rules(
        minLength=1,
        pattern=r"^[^\x00\t\n]+\Z",
        expected="a path without NUL, tabs and line breaks",
    ),
]


class _Key(NamedTuple):
    """A field: its type, `Any` if it is no key or a schema says it, and its default."""

    hint: Any
    has_no_default: bool
    is_none: bool = False


def section_schema(
    sections: Sequence[type],
    needed: str | None = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the schema of a mapping whose keys are fields of classes.

    `others` has the schemas of fields that are not annotated, and of further keys.
    """
    known = {name: one for section in sections for name, one in _keys(section)}
    keys = {name: _schema(one.hint, needed, one.is_none) for name, one in known.items()}
    keys |= others or {}
    keys = {name: key for name, key in keys.items() if key}
    without_default = {name for name, one in known.items() if one.has_no_default}
    required = [name for name in keys if needed == ALL or name in without_default]
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required and needed != NONE else {}),
        "properties": keys,
    }


def _keys(section: type) -> Iterator[tuple[str, _Key]]:
    """Yield the fields of a dataclass or a `TypedDict` by name."""
    if is_typeddict(section):
        for name, hint in section.__annotations__.items():
            yield name, _Key(hint, name in section.__required_keys__)
        return
    for one in fields(section):
        hint = one.type if get_origin(one.type) is Annotated else Any
        has_no_default = one.default is MISSING and one.default_factory is MISSING
        yield one.name, _Key(hint, has_no_default, one.default is None)


def _schema(
    hint: Any, needed: str | None, without_null: bool = False
) -> dict[str, Any]:
    """Return the schema of a type; that of `Any` is empty."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        schema = _schema(parts[0], needed, without_null)
        for note in parts[1:]:
            schema |= {"description": note} if isinstance(note, str) else dict(note)
        return schema
    if kind is NotRequired:
        return _schema(parts[0], needed, without_null)
    if kind is Any:
        return {}
    if kind is Literal:
        return {"enum": list(parts)}
    if kind in (Union, UnionType):
        wanted = [one for one in parts if one is not NoneType or not without_null]
        return _joined([_schema(one, needed) for one in wanted])
    if is_dataclass(kind) or is_typeddict(kind):
        return section_schema([kind], needed)
    if kind is Mapping:
        names, values = (_schema(one, needed) for one in parts)
        names = {"propertyNames": names} if names != {"type": "string"} else {}
        return {"type": "object", **names, "additionalProperties": values}
    items = {"items": _schema(parts[0], needed)} if parts else {}
    return {"type": _KINDS[kind], **items}


def _joined(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a value that meets one of several."""
    if len(schemas) == 1:
        return dict(schemas[0])
    joined = {word: one for schema in schemas for word, one in schema.items()}
    if words := joined.pop("enum", None):  # a word, or a list of some
        joined |= {"if": {"type": "string"}, "then": {"enum": words}}
    return {**joined, "type": [schema.get("type", "string") for schema in schemas]}
