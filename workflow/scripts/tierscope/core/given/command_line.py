"""Values of `--config KEY=VALUE`, of which Snakemake makes texts: true, {epochs: 2}."""

from collections.abc import Iterable, Mapping
from typing import Any

from tierscope.core.given.yaml_files import UnreadableError, read_value
from tierscope.core.validation import accepts, read_schema


def with_kinds(
    config: Mapping[str, Any],
    entries: Iterable[str],
    made: Mapping[str, Any],
    schema: str,
) -> dict[str, Any]:
    """Return a configuration whose values of the command line have YAML's kinds.

    Parameters
    ----------
    config : mapping
        The merged configuration.
    entries : iterable of str
        What follows ``--config``: texts ``KEY=VALUE``.
    made : mapping
        What Snakemake has made of them.
    schema : str
        Name of the configuration's schema, which decides: `experiment=2026` is a text.
    """
    config = dict(config)
    schemas = read_schema(schema)["properties"]
    # Of several entries of a key Snakemake takes the last.
    last = {key: text for key, _, text in (entry.partition("=") for entry in entries)}
    for key, text in last.items():
        if key not in made or key not in config or key not in schemas:
            continue
        value = config[key]
        try:
            read = _replaced(value, made[key], read_value(text))
        except UnreadableError:
            read = value
        # Snakemake leaves texts in mappings and lists only.
        kept = [read, value] if isinstance(made[key], Mapping | list) else [value, read]
        kept += [text] if value == made[key] else []
        config[key] = next((one for one in kept if accepts(one, schemas[key])), read)
    return config


def _replaced(value: Any, made: Any, read: Any) -> Any:
    """Return a value with the parts that Snakemake has made replaced by those read."""
    if isinstance(read, Mapping) and isinstance(value, Mapping):
        if not isinstance(made, Mapping):
            return value
        parts = {
            key: _replaced(value[key], made[key], part)
            for key, part in read.items()
            if key in value and key in made
        }
        return {**value, **parts}
    return read if value == made else value
