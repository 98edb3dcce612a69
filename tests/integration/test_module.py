"""The workflow as a module of somebody else's, in a folder of its own."""

import shutil
import textwrap
from pathlib import Path

import pytest
import warm_python
import yaml
from tierscope.storage.lease import hold_lease

ROOT = Path(__file__).parents[2]
SNAKEFILE = """\
configfile: "config.yaml"


module tierscope:
    snakefile:
        {snakefile!r}
    config:
        config
    pathvars:
        results="{results}",


use rule * from tierscope as storage_*


rule mine:
    default_target: True
    input:
        {wanted},
    output:
        "mine.txt",
    shell:
        "echo {{input}} > {{output}}; {command}"


onstart:
    tierscope.onstart()


onsuccess:
    tierscope.onsuccess()


onerror:
    tierscope.onerror()
"""


@pytest.fixture
def importing(tmp_path):
    """Return a function that makes a Snakefile that imports ours, and starts it."""
    (tmp_path / "resources" / "systems").mkdir(parents=True)

    def start(target, *options, expect=0, **given):
        words = {"results": "results", "command": "true", **given}
        wanted = f"rules.storage_{target}.input" if target else []
        snakefile = SNAKEFILE.format(
            snakefile=str(ROOT / "workflow" / "Snakefile"), wanted=wanted, **words
        )
        (tmp_path / "Snakefile").write_text(snakefile)
        command = ["snakemake", "--cores", "2", "--show-failed-logs", *options]
        code, output = warm_python.run(
            command, tmp_path, warm_python.installed_environment()
        )
        assert code == expect, output
        return output

    return start


def test_experiment_with_a_system_of_the_importing_folder_runs_where_it_wants(
    importing, tmp_path
):
    data = ROOT / "tests" / "data"
    config = yaml.safe_load((data / "tiny.yaml").read_text())
    config["sweep"] |= {"n_osts": [60], "cache_rates_percent": [0, 100], "exclude": {}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    shutil.copy(data / "tiny-system.yaml", tmp_path / "resources/systems/tiny.yaml")
    output = importing("fig2", results="storage/out")
    figure = "storage/out/tiny/figures/fig2_breakdown.svg"
    assert figure in (tmp_path / "mine.txt").read_text()
    assert "emulated" in (tmp_path / figure).read_text()
    assert len([*tmp_path.glob("storage/out/tiny/runs/*/*/*/audit.json")]) == 2
    assert not (tmp_path / "results" / "tiny").exists()
    assert "Nothing to be done" in importing("fig2", "--dry-run", results="storage/out")
    # `onsuccess`:
    assert "Figures: storage/out/tiny/figures" in output
    assert not (tmp_path / "storage/out/tiny/staging").exists()


def test_only_what_differs_from_our_configuration_is_given(importing, tmp_path):
    (tmp_path / "config.yaml").write_text("{experiment: mine, simulate: true}\n")
    plan = importing("all", "--dry-run")
    assert "storage_simulate_scenario" in plan
    assert "results/mine/report.html" in plan


def test_second_start_of_an_imported_experiment_is_refused(importing, tmp_path):
    """By `onstart`."""
    (tmp_path / "config.yaml").write_text("{experiment: mine, simulate: true}\n")
    (tmp_path / "results" / "mine").mkdir(parents=True)
    hold_lease(tmp_path / "results" / "mine" / ".lease", "the first start")
    output = importing("all", expect=1)
    assert "the first start" in output
    assert not (tmp_path / "mine.txt").exists()


def test_failure_in_an_importing_workflow_ends_with_how_to_go_on(importing, tmp_path):
    """By `onerror`."""
    (tmp_path / "config.yaml").write_text("{experiment: mine, simulate: true}\n")
    output = importing(None, command="exit 1", expect=1)
    assert "Finished files are kept. Remove the cause, then the same command" in output


def test_lines_of_the_docs_import_the_workflow(tmp_path):
    """All of them, as they stand there."""
    page = (ROOT / "docs" / "own-experiment.md").read_text()
    _, _, rest = page.partition("## In a workflow of your own")
    example, _, _ = rest.partition("\n`config`")
    lines = textwrap.dedent(example).replace("/path/to/tierscope", str(ROOT))
    assert "onerror: tierscope.onerror()" in lines
    config = 'config |= {"experiment": "mine", "simulate": True}\n'
    (tmp_path / "Snakefile").write_text(config + lines)
    command = ["snakemake", "--cores", "1", "--dry-run", "storage_fig2"]
    environment = warm_python.installed_environment()
    code, output = warm_python.run(command, tmp_path, environment)
    assert code == 0, output
    assert "storage/mine/figures/fig2_breakdown.svg" in output


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
