"""What pages are made of: sections of words, facts, tables and figures.

Templates in `workflow/templates` place them and escape all texts; `parts.html.j2` has
one macro for each. Texts from logs go through `seen` first, so that each of their
characters is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd

from tierscope.core.words import printable, shortened
from tierscope.pages.document import TEMPLATES, Picture
from tierscope.pages.web_page import content_policy

NAME_LETTERS, PATH_LETTERS, TEXT_LETTERS = 80, 160, 1000


@dataclass(frozen=True)
class Words:
    """A paragraph, with links at its end."""

    kind: ClassVar[str] = "words"
    text: str
    style: str = ""
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than a text: one with a style, and small print.

    Parameters
    ----------
    text : str
        What stands first.
    small : sequence of str
        Lines of small print; empty ones are left out.
    style : str
        ``strong``, or a class of the style sheet.
    """

    text: str
    small: Sequence[str] = ()
    style: str = ""


@dataclass(frozen=True)
class Table:
    """A table of words.

    Parameters
    ----------
    label : str
        What it is, for screen readers.
    frame : DataFrame of str or Cell
        The cells.
    numbers : sequence of str
        Columns that are aligned to the right.
    links : mapping of int to str
        Address that the first cell of a row leads to, by the row's position.
    title : str
        Its heading, if any.
    style : str
        A class of the style sheet.
    row_styles : sequence of str
        A class of each row, if rows have one.
    labelled : sequence of str
        Columns whose name stands in each cell where the page is narrow.
    has_lines : bool
        Whether cells are lines, of which those that begin with a mark get its colour.
    search : str
        What stands before an input that finds rows by their words; none if empty.
    n_first : int
        The rows that are shown at first if there is such an input.
    """

    kind: ClassVar[str] = "table"
    label: str
    frame: pd.DataFrame
    numbers: Sequence[str] = ()
    links: Mapping[int, str] = field(default_factory=dict)
    title: str = ""
    style: str = "jobs"
    row_styles: Sequence[str] = ()
    labelled: Sequence[str] = ()
    has_lines: bool = False
    search: str = ""
    n_first: int = 0


@dataclass(frozen=True)
class Facts:
    """Groups of names and words."""

    kind: ClassVar[str] = "facts"
    groups: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption."""

    kind: ClassVar[str] = "picture"
    picture: Picture


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading; `name` is that of links to it."""

    name: str
    title: str
    items: Sequence[Words | Table | Facts | Drawing]


def seen(text: str, most_letters: int = TEXT_LETTERS) -> str:
    """Return a text from a log with each character visible, shortened if long."""
    return shortened(printable(text), most_letters)


def page_context(
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    footer: str,
    warnings: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return everything that the template shows; sections without items are left out.

    Parameters
    ----------
    title, lead, footer : str
        Heading, the line below it, and the last line.
    sections : sequence of Section
        The parts of the page.
    warnings : sequence of str, optional
        What a reader must know before all else.
    links : mapping of str to str, optional
        Other pages: words and addresses.
    """
    tables = [one for part in sections for one in part.items if one.kind == "table"]
    has_search = any(table.search for table in tables)
    script = (TEMPLATES / "search.js").read_text(encoding="utf-8") if has_search else ""
    return {
        "policy": content_policy([script] if script else ()),
        "script": script,
        "title": title,
        "lead": lead,
        "warnings": warnings,
        "links": links or {},
        "sections": [section for section in sections if section.items],
        "footer": footer,
    }
