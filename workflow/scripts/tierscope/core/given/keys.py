"""Keys of a file that are fields of a dataclass: the schema is made of the fields.

Such a field is ``Annotated[type, rules, "meaning"]``. If it is None by default, a file
leaves the key out; it does not say null. Ranks import this module, so it is small.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

ALL, NONE = "all", "none"  # keys that a file must have, if not those without a default
Rules = tuple[tuple[str, Hashable], ...]  # keywords of JSON Schema and their values
_KINDS = {int: "integer", float: "number", str: "string", bool: "boolean"}
_KINDS |= {NoneType: "null", Sequence: "array"}


def rules(**keywords: Hashable) -> Rules:
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


def section_schema(
    sections: Sequence[type],
    needed: str | None = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the schema of a mapping whose keys are fields of dataclasses.

    `others` has the schemas of fields that are not annotated, and of further keys.
    """
    known = {one.name: one for section in sections for one in fields(section)}
    keys = {name: _key(one, needed) for name, one in known.items()} | (others or {})
    keys = {name: key for name, key in keys.items() if key}
    without_default = {name for name, one in known.items() if _has_no_default(one)}
    required = [name for name in keys if needed == ALL or name in without_default]
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required and needed != NONE else {}),
        "properties": keys,
    }


def _has_no_default(field: Field) -> bool:
    """Return whether a dataclass cannot be made without this field."""
    return field.default is MISSING and field.default_factory is MISSING


def _key(field: Field, needed: str | None) -> dict[str, Any]:
    """Return the schema of a field; empty if it is not annotated."""
    is_key = get_origin(field.type) is Annotated
    return _schema(field.type, needed, field.default is None) if is_key else {}


def _schema(
    hint: Any, needed: str | None, without_null: bool = False
) -> dict[str, Any]:
    """Return the schema of a type."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        schema = _schema(parts[0], needed, without_null)
        for note in parts[1:]:
            schema |= {"description": note} if isinstance(note, str) else dict(note)
        return schema
    if kind is Literal:
        return {"enum": list(parts)}
    if kind in (Union, UnionType):
        wanted = [one for one in parts if one is not NoneType or not without_null]
        return _joined([_schema(one, needed) for one in wanted])
    if is_dataclass(kind):
        return section_schema([kind], needed)
    items = {"items": _schema(parts[0], needed)} if parts else {}
    return {"type": _KINDS[kind], **items}


def _joined(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a value that meets one of several."""
    joined = {word: one for schema in schemas for word, one in schema.items()}
    kinds = [schema["type"] for schema in schemas if len(schemas) > 1]
    return {**joined, "type": kinds} if kinds else joined
