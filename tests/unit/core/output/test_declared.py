"""Declarations are read from the text of modules that are not imported."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.core.output.declared import Declared, PlainFigures, declared_figures

MODULE = """
import no_such_module
{before}
FIGURE = Declared(
    file={file!r},
    title="Figure 9: what {{pair}} bring",
    tables=("io_time", "spread"),
    of="logs",
)


def draw(given):
    return no_such_module.figure(given)
"""
PAIRS = {"gfs_read_lfs_read": ("gfs_read", "lfs_read"), "b": ("gfs_meta", "lfs_meta")}


@pytest.fixture
def declare(tmp_path):
    """Return a function that writes a module, and returns all that is declared."""

    def write(name, file, before=""):
        (tmp_path / "room").mkdir(exist_ok=True)
        path = tmp_path / "room" / f"{name}.py"
        path.write_text(MODULE.format(file=file, before=before))
        return declared_figures("logs", tmp_path)

    return write


def test_a_module_declares_without_being_imported(declare):
    (one,) = declare("late", "fig9_late")
    assert (one.name, one.rule, one.log) == ("late", "plot_late", "plot_late")
    assert one.tables == ("io_time", "spread")
    assert list(one.titles(PAIRS)) == ["fig9_late"]
    assert "no_such_module" not in sys.modules


def test_a_figure_of_pairs_has_files_and_titles_of_each(declare):
    (one,) = declare("both", "fig9_{pair}")
    assert one.titles(PAIRS) == {
        "fig9_gfs_read_lfs_read": "Figure 9: what GFS-READ and LFS-READ bring",
        "fig9_b": "Figure 9: what GFS-META and LFS-META bring",
    }
    assert one.log == "plot_both/{pair}"


def test_figures_come_in_order_of_their_files_and_by_subject(declare):
    declare("first", "fig8")
    found = declare("second", "fig2", before='NOTE = "FIGURE"')
    assert [one.file for one in found] == ["fig2", "fig8"]


def test_only_literals_are_declared(declare):
    (one,) = declare("computed", "fig9")
    one.path.write_text(one.path.read_text().replace("'fig9'", "str(9)"))
    with pytest.raises(ValueError, match="malformed"):
        declared_figures("logs", one.path.parent)


def test_plain_figures_have_what_they_declare():
    one = Declared(file="fleet", title="All jobs", tables=("fleet", "logs"))
    figures = PlainFigures("{}.parquet".format, {"provenance": "logs"}, {"fit": ["a"]})
    tables = {"fleet": "fleet.parquet", "logs": "logs.parquet"}
    assert figures.inputs(one) == tables
    assert figures.inputs(replace(one, inputs=("fit",))) == tables | {"fit": ["a"]}
    assert figures.settings(one) == {"provenance": "logs"}
    assert figures.titles(one) == {"fleet": "All jobs"}
    for key in ("inputs", "settings"):
        unknown = replace(one, **{key: ("no such name",)})
        with pytest.raises(ValueError, match=f"FIGURE: {key}: got 'no such name', exp"):
            getattr(figures, key)(unknown)


@pytest.mark.parametrize(("key", "word"), [("in_report", "never"), ("of", "log")])
def test_a_word_by_which_nobody_finds_a_figure_is_refused(key, word):
    with pytest.raises(
        ValueError, match=f"x.py: FIGURE: {key}: got '{word}', expected"
    ):
        Declared(file="x", title="X", path=Path("x.py"), **{key: word})
