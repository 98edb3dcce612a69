"""Values of configurations and system files that would like to be shell commands."""

import copy
from pathlib import Path

import pytest
from snakemake.utils import update_config
from tierscope.core.validation import (
    SCHEMAS,
    ConfigError,
    check,
    read_schema,
    read_yaml,
)
from tierscope.experiment.config import read_experiment

ROOT = Path(__file__).parents[3]
RESOURCES = ROOT / "resources"
HOSTILE = [
    "x; touch pwned",
    "x & touch pwned",
    "x | sh",
    "$(touch pwned)",
    "`touch pwned`",
    "x' y",
    'x" y',
    "x\n",
]
# Shell lines by design; the README and the schema say so.
SHELL = {"job.setup", "job.launcher"}
# Texts that no shell reads: they are printed, or name a file to Python and C.
INERT = {
    "description",
    "gfs.root",
    "lfs.root",
    "job.darshan",
    "devices.origin",
    "darshan.runtime",
}


def leaves(value, path=""):
    """Yield the path and value of each text in a YAML file."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path)
    elif isinstance(value, str):
        yield path, value


def replaced(value, path, new):
    """Return a copy of nested mappings with the texts at a path replaced."""
    value = copy.deepcopy(value)
    *parents, key = path.split(".")
    target = value
    for parent in parents:
        target = target[parent]
        target = target[0] if isinstance(target, list) else target
    target[key] = [new] if isinstance(target[key], list) else new
    return value


def paths_of(values):
    """Return the paths of all texts."""
    return sorted({path for path, _ in leaves(values)})


DEFAULT = read_yaml(ROOT / "config" / "config.yaml")
POLICIES = copy.deepcopy(DEFAULT)
update_config(POLICIES, read_yaml(ROOT / "config" / "policies.yaml"))


def system_of(name):
    """Return the checked content of a system file."""
    values = read_yaml(RESOURCES / "systems" / f"{name}.yaml")
    check(values, "system", name)
    return values


@pytest.mark.parametrize("config", [DEFAULT, POLICIES], ids=["config", "policies"])
@pytest.mark.parametrize("value", HOSTILE)
def test_text_of_a_configuration_is_refused_or_read_by_no_shell(config, value):
    for path in set(paths_of(config)) - INERT:
        with pytest.raises(ConfigError):
            read_experiment(replaced(config, path, value), RESOURCES)


@pytest.mark.parametrize("name", ["fugaku", "cluster"])
@pytest.mark.parametrize("value", HOSTILE)
def test_text_of_a_system_is_refused_or_read_by_no_shell(name, value):
    values = {**system_of(name), "network_interface": "ib0"}
    for path in set(paths_of(values)) - SHELL - INERT:
        if not path.startswith("devices.sources."):
            with pytest.raises(ConfigError, match=path.rpartition(".")[2]):
                check(replaced(values, path, value), "system", "here")


@pytest.mark.parametrize(
    "extra", ["--exclusive", "--ntasks-per-node={processes_per_node}", "-w n[1-4],n7"]
)
def test_usual_options_of_schedulers_are_accepted(extra):
    values = system_of("cluster")
    values["job"]["resources"]["run_benchmark"]["slurm_extra"] = extra
    values["job"]["resources"]["run_benchmark"]["constraint"] = "(gold|silver)&ib"
    check(values, "system", "here")


def patterns(schema):
    """Yield the regular expressions of a schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from schema.get("patternProperties", {})
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from patterns(part)


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.yaml")), ids=lambda f: f.stem)
def test_patterns_reach_to_the_very_end(file):
    for pattern in patterns(read_schema(file.name.removesuffix(".schema.yaml"))):
        assert pattern.startswith("^")
        assert pattern.endswith("\\Z")  # `$` would let a line break pass
        assert "$" not in pattern


@pytest.mark.parametrize("value", HOSTILE)
def test_resources_of_a_site_take_no_hostile_names_and_constraints(value):
    values = system_of("cluster")
    for hostile in ({value: "x"}, {"constraint": value}, {"qos": value}):
        values["job"]["resources"] = {"run_benchmark": hostile}
        with pytest.raises(ConfigError, match=r"job\.resources\.run_benchmark"):
            check(values, "system", "here")
