"""What a start does before it reads rules."""

import os
from pathlib import Path

import pytest
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.opening import Opening
from tierscope.experiment.snakemake_internals import InterfaceError

WORKFLOW = Path(__file__).parents[4] / "workflow"
FILE = "experiment: mine\nsystem: laptop\n"


class Internals:
    """A Snakemake that answers what a test says."""

    def __init__(self, **answers):
        self.answers = {
            "is_remote_job": False,
            "is_job": False,
            "configuration_files": [],
            "command_line": ([], {}),
            "results_folder": "results",
            **answers,
        }

    def __getattr__(self, name):
        return lambda: self.answers[name]

    def place(self, path):
        return self.answers.get("prefix", "") + path


class Changed(Internals):
    """A Snakemake of another version, which does not answer."""

    def configuration_files(self):
        raise InterfaceError("configfiles: differs")

    command_line = results_folder = configuration_files


@pytest.fixture
def opening(tmp_path, monkeypatch):
    """Return a function that opens a start in an empty folder; it notes warnings."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)

    def begin(internals=None, workflow=WORKFLOW, **answers):
        warned = []
        found = Opening(internals or Internals(**answers), workflow, warned.append)
        found.warned = warned
        return found

    yield begin
    os.umask(before)


def test_results_lie_below_the_folder_that_an_importing_workflow_says(opening):
    one = opening(results_folder="../out")
    assert one.begin("mine", "measured") == "../out/mine"
    assert (one.name, one.source, one.results) == ("mine", "measured", "../out/mine")


def test_files_that_a_function_names_lie_in_the_results(opening):
    """A rule that imports ours knows no pathvar of ours, and asks the same function."""
    one = opening()
    one.begin("mine", "measured")
    assert one.placed("<experiment>/a.svg") == "results/mine/a.svg"
    assert one.placed(["<experiment>/b", "c"]) == ["results/mine/b", "c"]
    assert one.placed("<tables>/a.parquet") == "results/mine/tables/a.parquet"
    assert one.placed("<logs>/{pair}.log") == "results/mine/logs/{pair}.log"


def test_a_prefix_is_refused_but_not_to_a_job(opening):
    with pytest.raises(ConfigError, match="module: prefix or replace_prefix: got one"):
        opening(prefix="sub/").begin("mine", "measured")
    assert opening(prefix="sub/", is_job=True).begin("mine", "measured")


def test_what_another_snakemake_does_not_answer_is_told(opening):
    one = opening(Changed())
    assert one.contents == []
    assert one.given == ([], {})
    assert one.begin("mine", "measured") == "results/mine"
    assert one.warned == ["configfiles: differs"] * 3


def test_files_of_the_configuration_are_read_again(opening, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(FILE)
    one = opening(configuration_files=[file, tmp_path / "missing.yaml"])
    assert one.contents == [{"experiment": "mine", "system": "laptop"}]
    file.write_text(f"{FILE}system: cluster\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        opening(configuration_files=[file])


def test_defaults_and_what_the_command_line_gives_as_the_schema_says(opening):
    one = opening(command_line=(["experiment=1"], {"experiment": 1}))
    assert one.defaults()["experiment"] == "scale-model"
    config = one.as_schema_says({"experiment": 1}, "config")
    assert config["experiment"] == "1"


def test_a_clone_whose_path_others_take_apart_is_refused(opening, tmp_path):
    with pytest.raises(ConfigError, match="got a clone with"):
        opening(workflow=tmp_path / "a:b" / "workflow")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_what_another_user_has_prepared_is_refused(opening, tmp_path):
    tmp_path.chmod(0o1777)
    (tmp_path / "results").symlink_to("/tmp")
    os.chown("results", 4321, 4321, follow_symlinks=False)
    with pytest.raises(ConfigError, match="results: belongs to user 4321"):
        opening()


def test_files_that_others_may_write_are_not_made(opening):
    os.umask(0)
    opening()
    assert os.umask(0) == 0o002


def test_paths_are_relative_to_the_folder_of_the_start(opening, tmp_path):
    one = opening()
    assert one.from_here(tmp_path / "a" / "b") == "a/b"
    assert one.of_workflow("templates/x") == f"{WORKFLOW}/templates/x"
    assert one.of_clone("resources/x") == f"{WORKFLOW.parent}/resources/x"
    assert one.resources == [Path("resources"), WORKFLOW.parent / "resources"]


def test_code_is_a_script_with_all_that_it_imports(opening, monkeypatch):
    monkeypatch.chdir(WORKFLOW.parent)
    one = opening()
    script, *modules = one.library("break_down_io_time")
    assert script == "workflow/scripts/break_down_io_time.py"
    assert "workflow/scripts/tierscope/core/columns/__init__.py" in modules
    figure = one.code(WORKFLOW / "scripts/tierscope/figures/breakdown.py")
    assert figure[0] == "workflow/scripts/tierscope/figures/breakdown.py"
    assert "workflow/scripts/tierscope/figures/style.py" in figure


def test_a_page_is_rendered_from_its_template_and_those_of_all(opening):
    names = [Path(path).name for path in opening().templates("report")]
    assert names[:2] == ["report.html.j2", "page.html.j2"]
    assert {"parts.html.j2", "page.css", "scorecard.css", "search.js"} < set(names)
    assert all((WORKFLOW / "templates" / name).is_file() for name in names)
