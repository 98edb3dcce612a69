"""Schemas that are made of dataclasses and of typed mappings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from tierscope.core.given.keys import (
    ALL,
    NONE,
    above,
    from_to,
    rules,
    section_schema,
)
from tierscope.core.validation import SCHEMAS, parse_fast

Name = Annotated[str, rules(minLength=1)]


@dataclass
class Rates:
    read: Annotated[float, above(0, 9), "Of reads."] = 1.0
    write: Annotated[float, above(0, 9), "Of writes."] = 1.0


@dataclass
class Section:
    kind: Annotated[Literal["a", "b"], "Which one."]
    place: str
    n_files: Annotated[int, from_to(1, 9), "How many."] = 1
    names: Annotated[Sequence[Name], "Their names."] = ()
    limit: Annotated[int | None, from_to(0, 9), "The most, if any."] = None
    made: int = 0


def properties(*sections, **others):
    """Return the schemas of the keys of dataclasses."""
    return section_schema(sections, None, others)["properties"]


def test_field_says_type_rules_and_meaning():
    one = properties(Section)["n_files"]
    assert one == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "How many.",
    }


def test_words_are_an_enumeration():
    one = properties(Section)["kind"]
    assert one == {"enum": ["a", "b"], "description": "Which one."}


def test_items_of_a_list_have_rules_of_their_own():
    one = properties(Section)["names"]
    assert one["items"] == {"type": "string", "minLength": 1}
    assert "minLength" not in one


def test_only_annotated_fields_are_keys():
    assert [*properties(Section)] == ["kind", "n_files", "names", "limit"]


def test_other_keys_stand_at_the_place_of_their_field_or_last():
    place, more = {"type": "string"}, {"type": "boolean"}
    found = properties(Section, more=more, place=place)
    assert [*found] == ["kind", "place", "n_files", "names", "limit", "more"]
    assert found["place"] == place
    assert found["more"] == more


def test_field_that_is_none_by_default_is_no_null_in_a_file():
    assert properties(Section)["limit"]["type"] == "integer"


def test_field_that_has_no_default_may_be_null():
    @dataclass
    class Given:
        limit: Annotated[int | None, from_to(0, 9), "The most."]

    assert properties(Given)["limit"]["type"] == ["integer", "null"]


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (None, ["kind", "place"]),
        (ALL, ["kind", "place", "n_files", "names", "limit"]),
        (NONE, None),
    ],
)
def test_keys_that_a_file_must_have(needed, expected):
    schema = section_schema([Section], needed, {"place": {"type": "string"}})
    assert schema.get("required") == expected


def test_number_or_dataclass_has_the_keys_of_the_latter():
    @dataclass
    class Either:
        rate: Annotated[float | Rates, from_to(0, 5), "A rate, or two."]

    one = section_schema([Either], ALL)["properties"]["rate"]
    assert one["type"] == ["number", "object"]
    assert one["maximum"] == 5
    assert one["required"] == ["read", "write"]
    assert one["additionalProperties"] is False


def test_keys_of_several_dataclasses_follow_each_other():
    assert [*properties(Rates, Section)][:3] == ["read", "write", "kind"]


class Inner(TypedDict):
    least: Annotated[int, from_to(1, 9), "The least."]


class Typed(TypedDict):
    inner: Inner
    others: Any
    whole: bool
    note: NotRequired[Annotated[str, "A note."]]
    by_name: Annotated[Mapping[Name, Inner], "By a name."]
    by_text: Annotated[Mapping[str, bool], "By any text."]
    words: Annotated[
        Literal["a", "b"] | Annotated[Sequence[Literal["a", "b"]], rules(minItems=1)],
        "A word, or a list of some.",
    ]


OTHERS = ("note", "by_name", "by_text", "words")


def test_typed_mapping_says_which_keys_it_needs():
    schema = section_schema([Typed])
    assert [*schema["properties"]] == ["inner", "whole", *OTHERS]
    assert schema["required"] == ["inner", "whole", *OTHERS[1:]]
    assert schema["properties"]["inner"] == section_schema([Inner])


def test_mapping_says_what_its_keys_and_values_are():
    by_name = properties(Typed)["by_name"]
    assert by_name["propertyNames"] == {"type": "string", "minLength": 1}
    assert by_name["additionalProperties"] == section_schema([Inner])
    by_text = properties(Typed)["by_text"]
    assert "propertyNames" not in by_text
    assert by_text["additionalProperties"] == {"type": "boolean"}


def test_word_of_a_list_meets_the_same_rules_without_the_list():
    assert properties(Typed)["words"] == {
        "type": ["string", "array"],
        "if": {"type": "string"},
        "then": {"enum": ["a", "b"]},
        "minItems": 1,
        "items": {"enum": ["a", "b"]},
        "description": "A word, or a list of some.",
    }


def parts_with_keys(schema):
    """Yield each part of a schema that names classes."""
    if isinstance(schema, Mapping):
        if "keys_of" in schema:
            yield schema
        schema = [*schema.values()]
    if isinstance(schema, list):
        for part in schema:
            yield from parts_with_keys(part)


def test_no_key_has_two_homes():
    read = [parse_fast(path.read_text("utf-8")) for path in SCHEMAS.glob("*.yaml")]
    parts = [part for schema in read for part in parts_with_keys(schema)]
    assert parts
    for part in parts:
        keys = section_schema([*map(resolve_name, part["keys_of"])])["properties"]
        assert keys, part["keys_of"]
        assert keys.keys() & part.get("properties", {}).keys() == set(), part["keys_of"]
