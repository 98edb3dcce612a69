"""Values of configurations and system files that would like to be shell commands."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config
from snakemake_executor_plugin_slurm import validation
from tierscope.core.validation import (
    SCHEMAS,
    ConfigError,
    check,
    read_schema,
    read_yaml,
)
from tierscope.experiment.checks import SET_BY_SLURM_PLUGIN
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


# Texts that plugins take apart: as sbatch or pjsub would read them.
TAKEN_APART = {
    "slurm_account": ["my account", "a,b", "-x", "a\tb", "a'b"],
    "slurm_partition": ["a b", "a, b", "-p"],
    "qos": ["high low", "--help"],
    "clusters": ["a b"],
    "slurm_cluster": ["a b"],
    "constraint": ["-x", "a b"],
    "slurm_extra": ["exclusive", "a --exclusive"],
    "mem_mb": ["4 GB", "4GB", "-1", -1],
    "cpus_per_task": ["two", 1.5],
    "gres": ["gpu 2", "gpu:a:b:c", "gpu,ib"],
    "gpu_model": ["a b", "a:2"],
    "pjm_group": ["a,b", "-g", "a b", ""],
    "pjm_rscgrp": ["small,elapse=1", "-L"],
    "pjm_node": ["8x6x16x2", "0.5", "a", "1 2"],
    "pjm_gfscache": ["/a,/b", "/a:/b:", "vol"],
    "pjm_transfer": ["-r", "a b"],
    "pjm_extra": ["job.sh", "x -L"],
    "pjm_localtmp_mib": ["1 GiB", "{lfs_mib}M"],
    "other": ["a b", "-a", 10**13, -1],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in TAKEN_APART.items() for value in values],
)
def test_text_that_a_plugin_would_take_apart_is_refused(name, value):
    values = system_of("cluster")
    for rule in ("run_benchmark", "generate_dataset"):
        values["job"]["resources"] = {rule: {name: value}}
        with pytest.raises(ConfigError, match=rf"job\.resources\.{rule}\.{name}: got "):
            check(values, "system", "here")


@pytest.mark.parametrize(
    "resources",
    [
        {"slurm_account": "", "slurm_partition": "", "qos": "", "slurm_extra": ""},
        {"slurm_account": "p-1.a_b@c", "slurm_partition": "a,b", "clusters": "x,y"},
        {
            "slurm_account": 4711,
            "runtime": "2h",
            "mem_mb": "4000",
            "gres": "gpu:a100:2",
        },
        {"pjm_node": "{nodes}", "pjm_rscgrp": "small-s1", "pjm_gfscache": "/a/b:/c"},
        {"pjm_node": 4, "pjm_extra": "-m e", "pjm_transfer": "/a/b.c:d"},
    ],
)
def test_usual_resources_are_accepted(resources):
    values = system_of("cluster")
    values["job"]["resources"] = {"run_benchmark": resources}
    check(values, "system", "here")


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"slurm_extra": "--exclusive -A other"}, "got '-A', expected a resource"),
        ({"slurm_extra": "-Aother"}, "got '-Aother', .* the executor plugin sets -A"),
        ({"slurm_extra": "--mem=4G"}, "got '--mem=4G', expected a resource for it"),
        ({"tasks_per_node": 2}, "got tasks_per_node, expected --ntasks-per-node="),
    ],
)
def test_options_that_the_slurm_plugin_sets_are_refused(tmp_path, resources, words):
    values = yaml.safe_load((RESOURCES / "systems" / "cluster.yaml").read_text())
    values["job"]["resources"]["run_benchmark"] |= resources
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "mine.yaml").write_text(yaml.safe_dump(values))
    config = copy.deepcopy(DEFAULT) | {"system": "mine"}
    with pytest.raises(ConfigError, match=words):
        read_experiment(config, tmp_path, RESOURCES)


def test_options_are_those_that_the_slurm_plugin_refuses():
    refused = "|".join(validation.get_forbidden_slurm_options())
    assert {*re.findall(r"--?[A-Za-z-]+", refused)} == SET_BY_SLURM_PLUGIN


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
