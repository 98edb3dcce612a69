"""Write the pages that are generated from schemas and contracts.

`config/README.md` lists all configuration keys, `docs/tables.md` all columns of tables.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tierscope.core.columns import COLUMNS, allowed_values
from tierscope.core.files import write_text
from tierscope.core.validation import SCHEMAS, expectation, read_schema, read_yaml

ROOT = SCHEMAS.parents[1]
INTRODUCTION = """\
# Configuration

`config.yaml` is the default experiment and complete; other files, such as
`paper.yaml`, hold differences only and are laid over it:
`snakemake --profile local --configfile config/paper.yaml`.
A key that is not listed here is refused.

This page is generated from `workflow/schemas/`: `make docs`.
"""

TABLES_INTRODUCTION = """\
# Tables

Every table is Parquet. What is set in percent (cache rates, improvements, goals) is an
integer, what comes out in percent or points a float64. Times are seconds in float64,
sizes are bytes. A table is checked when it is written and when it is read.

`tierscope.core.tables.read_table(path, name)` reads one.

This page is generated from `workflow/scripts/tierscope/core/columns/`: `make docs`.
"""


def key_rows(
    schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, str]]:
    """Yield (key path, accepted values, meaning) of every key of a schema."""
    children = dict(schema.get("properties", {}))
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        children["<name>"] = extra
    for pattern in schema.get("patternProperties", {}):
        children.setdefault("<name>", schema["patternProperties"][pattern])
    if "items" in schema and schema["items"].get("type") == "object":
        yield from key_rows(schema["items"], (*path[:-1], path[-1] + "[]"))
    for key, child in children.items():
        here = (*path, key)
        if child.get("description") or child.get("type") != "object":
            yield (
                ".".join(here),
                expectation(child),
                child.get("description", "").strip(),
            )
        yield from key_rows(child, here)


def default_of(config: Any, path: str) -> str:
    """Return the default of a key path as it would be written, or a dash."""
    for key in path.split("."):
        if not isinstance(config, Mapping) or key not in config:
            return "-"
        config = config[key]
    if isinstance(config, Mapping):
        return "-"
    return "null" if config is None else str(config)


def table(rows: list[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells) + "\n"


def config_readme() -> str:
    """Return the text of config/README.md."""
    default, schema = read_yaml(ROOT / "config" / "config.yaml"), read_schema("config")
    config = [
        (f"`{path}`", kind, default_of(default, path), meaning)
        for path, kind, meaning in key_rows(schema)
    ]
    parts = [
        INTRODUCTION,
        "\n## `config/*.yaml`\n",
        table(config, ("key", "accepts", "default", "meaning")),
    ]
    for name, title in (
        ("logs", "`config/logs.yaml`"),
        ("designs", "`config/designs.yaml`"),
        ("datasets", "`resources/datasets.yaml`"),
        ("workloads", "`resources/workloads.yaml`"),
        ("dlio", "Workload files of DLIO"),
        ("system", "`resources/systems/<name>.yaml`"),
    ):
        schema = read_schema(name)
        rows = [
            (f"`{path}`", kind, meaning) for path, kind, meaning in key_rows(schema)
        ]
        parts += [f"\n## {title}\n", table(rows, ("key", "accepts", "meaning"))]
    return "\n".join(parts)


def tables_page() -> str:
    """Return the text of docs/tables.md."""
    parts = [TABLES_INTRODUCTION]
    header = ("column", "type", "unit", "values", "meaning")
    for name, columns in COLUMNS.items():
        rows = [
            (
                f"`{column}`",
                one.kind,
                one.unit,
                ", ".join(allowed_values(name, column)),
                one.meaning,
            )
            for column, one in columns.items()
        ]
        parts += [f"\n## `{name}`\n", table(rows, header)]
    return "\n".join(parts)


if __name__ == "__main__":
    write_text(ROOT / "config" / "README.md", config_readme())
    write_text(ROOT / "docs" / "tables.md", tables_page())
