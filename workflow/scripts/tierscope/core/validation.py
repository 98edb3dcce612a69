"""Checks of YAML files against our schemas.

A wrong key, type, unit or range raises a ConfigError of one line that names the key
path, the value and what was expected.

The packages are imported where they are used: each rank of a launch imports this
module, and none checks a file.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

if TYPE_CHECKING:
    import jsonschema

Made = TypeVar("Made")
# In the project, or where the package is installed.
SCHEMAS = Path(__file__).parents[3] / "schemas"
if not SCHEMAS.is_dir():
    SCHEMAS = Path(__file__).parents[1] / "schemas"
UNKNOWN_KEY, MISSING_KEY = "additionalProperties", "required"
_MOST_LETTERS = 200  # of a value in a message


def _is_integer(_: object, value: object) -> bool:
    """Return whether a value is written as an integer: 3, not 3.0 or true."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    """Return whether a value is a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


@cache
def _validator() -> type:
    """Return the class that checks values as our schemas mean them."""
    import jsonschema

    draft = jsonschema.Draft202012Validator
    kinds = draft.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    )
    return jsonschema.validators.extend(draft, type_checker=kinds)


class ConfigError(ValueError):
    """A configuration value is wrong; the message names key, value and expectation."""


def read_json(path: str | Path) -> Any:
    """Return what a JSON file of ours holds.

    Raises
    ------
    ConfigError
        If it is empty or damaged, as after a power cut; it says what to delete.
    """
    return parse_json(Path(path).read_bytes(), path)


def parse_json(text: str | bytes, path: str | Path) -> Any:
    """Return what a text from a file of ours holds; errors as of `read_json`."""
    try:
        return json.loads(text)
    except ValueError as error:
        what = "its folder" if Path(path).name == "run.json" else "it"
        raise ConfigError(
            f"{path}: is damaged ({error}); delete {what} and start again, to make it "
            "again."
        ) from error


def dataclass_of_json(kind: type[Made], text: str | bytes) -> Made:
    """Return a dataclass from JSON that another user may have written.

    A ValueError says that it is none, or that a field is missing, unknown or of another
    type than its annotation.
    """
    try:
        made = kind(**json.loads(text))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for field in fields(made):
        if not _has_type(getattr(made, field.name), field.type):
            raise ValueError(f"{field.name} has another type")
    return made


def _has_type(value: object, kind: Any) -> bool:
    """Return whether a value has a type; of a mapping, texts for texts."""
    if get_origin(kind) is Mapping:
        is_mapping = isinstance(value, Mapping)
        return is_mapping and all(isinstance(one, str) for one in value.values())
    return isinstance(value, kind)


def read_yaml(path: str | Path) -> dict[Any, Any]:
    """Read a file of keys with values; a malformed one is a ConfigError (one line)."""
    from tierscope.core.given.yaml_files import UnreadableError, read_mapping

    try:
        return read_mapping(path)
    except UnreadableError as error:
        raise ConfigError(str(error)) from error


def parse_fast(text: str) -> Any:
    """Parse YAML ten times as fast as `yaml.safe_load`, whose errors say more."""
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def read_schema(name: str) -> dict[str, Any]:
    """Return the schema of this name (see `check`), its references filled in."""
    schema = parse_fast((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"))
    return _resolved(schema, schema)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return a schema with its references to `$defs` and dataclasses filled in."""
    if isinstance(schema, list):
        return [_resolved(item, root) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    schema = dict(schema)
    if "$ref" in schema:
        target = root["$defs"][schema.pop("$ref").rsplit("/", 1)[1]]
        schema = {**target, **schema}
    if "keys_of" in schema:
        schema = _with_keys(**schema)
    return {key: _resolved(value, root) for key, value in schema.items()}


def _with_keys(
    keys_of: Iterable[str],
    needed: str | None = None,
    properties: Mapping[str, Any] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return a schema with the keys of the dataclasses that it names."""
    from pkgutil import resolve_name

    from tierscope.core.given.keys import section_schema

    sections = [*map(resolve_name, keys_of)]
    return {**section_schema(sections, needed, properties), **others}


def expectation(schema: Mapping[str, Any]) -> str:
    """Return in words what a schema accepts."""
    if "expected" in schema:
        return schema["expected"]
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if "oneOf" in schema:
        return " or ".join(expectation(option) for option in schema["oneOf"])
    if "then" in schema:  # a single item has to meet the same schema as items of a list
        return f"{expectation(schema['then'])}, or list of at least one of them"
    kinds = schema.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {"object": "mapping", "array": "list", "string": "text"}
    words["boolean"] = "true or false"
    bounds = _bounds(schema)
    words |= {"integer": f"integer{bounds}", "number": f"number{bounds}"}
    text = " or ".join(words.get(kind, kind) for kind in kinds)
    if "minItems" in schema and schema["minItems"] == schema.get("maxItems"):
        text += f" of {schema['minItems']} items"
    elif "minItems" in schema:
        text += f" of at least {schema['minItems']} items"
    if schema.get("uniqueItems"):
        text += " without duplicates"
    if "pattern" in schema:
        text += f" matching {schema['pattern']}"
    if "items" in schema:
        text += f", each {expectation(schema['items'])}"
    return text


def _bounds(schema: Mapping[str, Any]) -> str:
    """Return the bounds of a number in words, with a blank before them."""
    if "minimum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}, at most {schema['maximum']}"
    return ""


def read_presets(folders: Iterable[str | Path], name: str) -> dict[str, Any]:
    """Return what files ``NAME.yaml`` hold by key; earlier folders take precedence.

    A ConfigError says in one line what does not follow the schema of that name.
    """
    presets: dict[str, Any] = {}
    for folder in folders:
        if (path := Path(folder, f"{name}.yaml")).exists():
            found = read_yaml(path)
            check(found, name, str(path))
            presets = found | presets
    return presets


def check(
    value: Any, schema_name: str, origin: str, section: str | None = None
) -> None:
    """Check a value against one of our schemas.

    Parameters
    ----------
    value : mapping
        The content that was read.
    schema_name : str
        ``config``, ``datasets``, ``system``, ``claims`` or ``policy_claims``.
    origin : str
        File or thing named in the message.
    section : str, optional
        The one key that is needed and known; default: as the schema says.

    Raises
    ------
    ConfigError
        One line: origin, key path, value, expectation.
    """
    schema = read_schema(schema_name)
    if section is not None:
        known = {section: schema["properties"][section]}
        schema = {**schema, "required": [section], "properties": known}
    for path, key in _keys_of_other_kinds(value, schema):
        where = ".".join(map(str, path)) or "top level"
        raise ConfigError(f"{origin}: {where}: got key {key}, expected text: '{key}'")
    validator = _validator()(schema)
    errors = sorted(
        validator.iter_errors(value),
        key=lambda error: list(map(str, error.absolute_path)),
    )
    if errors:
        raise ConfigError(f"{origin}: {_explain(errors[0])}")


def without_defaults(
    config: Mapping[str, Any], known: set[str], defaults: Mapping[str, Any], what: str
) -> dict[str, Any]:
    """Return the keys of a configuration that is not one of an experiment.

    Parameters
    ----------
    config : mapping
        What Snakemake has laid over the default experiment.
    known : set of str
        Keys that mean something; others stay if they are not those of the default.
    defaults : mapping
        The default experiment.
    what : str
        What the configuration is of, for messages.

    Raises
    ------
    ConfigError
        If it has the name of the default experiment.
    """
    own = {
        key: value
        for key, value in config.items()
        if key in known or key not in defaults or value != defaults[key]
    }
    if own.get("experiment") == defaults["experiment"]:
        raise ConfigError(
            f"config: experiment: got {own['experiment']!r}, which is the default "
            f"experiment, expected a name for this {what}"
        )
    return own


def _keys_of_other_kinds(
    value: Any, schema: Mapping[str, Any], path: tuple = ()
) -> Iterator[tuple[tuple, Any]]:
    """Yield path and key of each key that is no text, on which jsonschema breaks."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _keys_of_other_kinds(
                item, schema.get("items", {}), (*path, number)
            )
    if not isinstance(value, Mapping):
        return
    accepted = str
    if "integer" in schema.get("propertyNames", {}).get("type", ()):
        accepted = str | int  # OST counts
    others = schema.get("additionalProperties")
    others = others if isinstance(others, Mapping) else {}
    for key, part in value.items():
        if not isinstance(key, accepted) or isinstance(key, bool):
            yield path, key
        inner = schema.get("properties", {}).get(key, others)
        yield from _keys_of_other_kinds(part, inner, (*path, key))


def accepts(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value is valid, without the reason."""
    return _validator()(schema).is_valid(value)


def _explain(error: "jsonschema.ValidationError") -> str:
    """Return one line for a schema violation."""
    from tierscope.core.given.hints import hint, in_yaml

    path = ".".join(map(str, error.absolute_path)) or "top level"
    known = list(error.schema.get("properties", {}))
    if error.validator == UNKNOWN_KEY:
        patterns = list(error.schema.get("patternProperties", {}))
        unknown = sorted(set(map(str, error.instance)) - set(known))
        wanted = f"some of {', '.join(known)}" if known else f"names like {patterns[0]}"
        return f"{path}: got unknown key {', '.join(unknown)}, expected {wanted}"
    if error.validator == MISSING_KEY:
        missing = [key for key in error.validator_value if key not in error.instance]
        return f"{path}: missing key {', '.join(missing)}"
    if error.validator == "uniqueItems":
        twice = [one for one in error.instance if error.instance.count(one) > 1]
        times = f"{twice.count(twice[0])} times"
        return f"{path}: got {twice[0]!r} {times}, expected a list without duplicates"
    value = error.instance
    key = next(
        (one for one in reversed(error.absolute_path) if isinstance(one, str)), ""
    )
    proposal = hint(value, key, error.schema, lambda one: accepts(one, error.schema))
    got = repr(value) if isinstance(value, str) else in_yaml(value)
    if len(got) > _MOST_LETTERS:
        got = f"{got[:_MOST_LETTERS]}…"
    return f"{path}: got {got}, expected {expectation(error.schema)}{proposal}"
