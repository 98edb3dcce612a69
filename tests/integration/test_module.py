"""The workflow as a module of somebody else's, in a folder of its own."""

import shutil
from pathlib import Path

import pytest
import warm_python
import yaml

ROOT = Path(__file__).parents[2]
SNAKEFILE = """\
configfile: "config.yaml"


module tierscope:
    snakefile:
        {snakefile!r}
    config:
        config


use rule * from tierscope as storage_*


rule mine:
    default_target: True
    input:
        rules.storage_{target}.input,
    output:
        "mine.txt",
    shell:
        "echo {{input}} > {{output}}"
"""


@pytest.fixture
def importing(tmp_path):
    """Return a function that makes a Snakefile that imports ours, and starts it."""
    (tmp_path / "resources" / "systems").mkdir(parents=True)

    def start(target, *options, expect=0):
        snakefile = SNAKEFILE.format(
            snakefile=str(ROOT / "workflow" / "Snakefile"), target=target
        )
        (tmp_path / "Snakefile").write_text(snakefile)
        command = ["snakemake", "--cores", "2", "--show-failed-logs", *options]
        code, output = warm_python.run(
            command, tmp_path, warm_python.installed_environment()
        )
        assert code == expect, output
        return output

    return start


def test_experiment_with_a_system_of_the_importing_folder_runs(importing, tmp_path):
    data = ROOT / "tests" / "data"
    config = yaml.safe_load((data / "tiny.yaml").read_text())
    config["sweep"] |= {"n_osts": [60], "cache_rates_percent": [0, 100], "exclude": {}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    shutil.copy(data / "tiny-system.yaml", tmp_path / "resources/systems/tiny.yaml")
    importing("fig2")
    figure = "results/tiny/figures/fig2_breakdown.svg"
    assert figure in (tmp_path / "mine.txt").read_text()
    assert "emulated" in (tmp_path / figure).read_text()
    assert len([*tmp_path.glob("results/tiny/runs/*/*/*/audit.json")]) == 2
    assert "Nothing to be done" in importing("fig2", "--dry-run")


def test_only_what_differs_from_our_configuration_is_given(importing, tmp_path):
    (tmp_path / "config.yaml").write_text("{experiment: mine, simulate: true}\n")
    plan = importing("all", "--dry-run")
    assert "storage_simulate_scenario" in plan
    assert "results/mine/report.html" in plan


def test_key_that_the_importing_configuration_has_twice_is_refused(importing, tmp_path):
    (tmp_path / "config.yaml").write_text("simulate: true\ntraining:\n  {epochs: 3,\n")
    output = importing("all", "--dry-run", expect=1)
    assert "not valid JSON or YAML" in output  # by Snakemake, without our profile
    text = "simulate: true\nexperiment: mine\nsimulate: false\n"
    (tmp_path / "config.yaml").write_text(text)
    output = importing("all", "--dry-run", expect=1)
    assert "config.yaml, line 3: got key simulate twice (first in line 1)" in output


def test_value_of_the_command_line_has_the_kind_that_its_key_has(importing, tmp_path):
    (tmp_path / "config.yaml").write_text("experiment: mine\n")
    plan = importing("all", "--dry-run", "--config", "simulate=true", "experiment=2026")
    assert "storage_simulate_scenario" in plan
    assert "results/2026/report.html" in plan
