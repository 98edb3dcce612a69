import base64

import docutils.utils
import jinja2
import pandas as pd
import pytest
from tierscope.core.output.version import VERSION
from tierscope.core.words import PASSED
from tierscope.pages.content import Cell, Section, Table, Words, page_context
from tierscope.pages.document import TEMPLATES, Picture, caption_html, render


def page_of(*items):
    """Return a page with one section of these items."""
    section = Section("a", "A", items)
    return render("logs.html.j2", page_context("T", "L", [section], footer="<b>"))


def rows_of(table):
    """Return the rows of the body of a table in a page, as HTML."""
    body = page_of(table).split("<tbody>\n")[1].split("\n</tbody>")[0]
    return [row.split("\n</tr>")[0] for row in body.split("<tr")[1:]]


def test_texts_are_escaped_and_the_style_is_not():
    page = page_of(Words("x"))
    assert "<footer>&lt;b&gt; Made by" in page
    assert "main > section > h3 {" in page


def test_page_names_the_version_that_made_it():
    assert f"Made by tierscope {VERSION}.</footer>" in page_of(Words("x"))


def test_a_text_that_is_not_there_is_refused():
    with pytest.raises(jinja2.UndefinedError):
        render("logs.html.j2", {})


def test_cells_are_texts_with_links_and_numbers():
    frame = pd.DataFrame({"Name": ["<a>", "b"], "Time": ["1 s", "2 s"]})
    table = Table("Times", frame, numbers=["Time"], links={1: "b.html"})
    assert rows_of(table) == [
        '>\n<td>&lt;a&gt;</td>\n<td class="number">1 s</td>',
        '>\n<td><a href="b.html">b</a></td>\n<td class="number">2 s</td>',
    ]


def test_lines_of_cells_are_coloured_by_their_marks():
    frame = pd.DataFrame({"Audit": [f"{PASSED} passed\nall"]})
    table = Table("Audits", frame, labelled=["Audit"], has_lines=True)
    assert rows_of(table) == [
        f'>\n<td data-label="Audit"><div><span class="good">{PASSED} passed</span>'
        "\nall</div></td>"
    ]
    (plain,) = rows_of(Table("Names", frame))
    assert plain == f">\n<td>{PASSED} passed\nall</td>"


def test_cells_may_have_a_style_and_small_print():
    cells = [Cell("C1", ["Sec. 4", ""], "strong"), Cell("holds", style="status")]
    frame = pd.DataFrame([[*cells, Cell("x", ["<i>"])]], columns=["claim", "is", "x"])
    (row,) = rows_of(Table("Claims", frame, row_styles=["good"]))
    assert row == (
        ' class="good">\n<td><strong>C1</strong><small>Sec. 4</small></td>\n'
        '<td><span class="status">holds</span></td>\n<td>x<small>&lt;i&gt;</small></td>'
    )


def test_each_part_of_a_page_is_in_one_template():
    parts = TEMPLATES / "parts.html.j2"
    for part in ("<table", "<dl>", "<figure", "<!DOCTYPE"):
        found = [p for p in TEMPLATES.glob("*.j2") if part in p.read_text()]
        whole = part == "<!DOCTYPE"
        assert found == [TEMPLATES / "page.html.j2" if whole else parts]


def test_a_picture_is_an_address_that_holds_it():
    picture = Picture("a", "A", b"<svg/>", "*Look.*")
    kind, _, data = picture.uri.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == b"<svg/>"
    assert "<em>Look.</em>" in picture.caption_html


def test_a_mistake_in_a_caption_is_an_error():
    with pytest.raises(docutils.utils.SystemMessage):
        caption_html("`unclosed")


def test_a_picture_is_made_of_its_files(tmp_path):
    svg, caption = tmp_path / "a.svg", tmp_path / "a.rst"
    svg.write_bytes(b"<svg/>")
    caption.write_text("**Look** at 5 \N{MICRO SIGN}s.", encoding="utf-8")
    picture = Picture.of_files("a", "A", svg, caption)
    assert picture == Picture("a", "A", b"<svg/>", "**Look** at 5 \N{MICRO SIGN}s.")
