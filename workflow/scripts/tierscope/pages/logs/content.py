"""What a page of jobs is made of: sections of words, facts, tables and figures.

The template `workflow/templates/logs.html.j2` places them and escapes all texts. Texts
from logs go through `seen` first, so that each of their characters is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd

from tierscope.core.words import printable, shortened
from tierscope.pages.document import Picture
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
class Table:
    """A table of words.

    Parameters
    ----------
    label : str
        What it is, for screen readers.
    frame : DataFrame of str
        The cells.
    numbers : sequence of str
        Columns that are aligned to the right.
    links : mapping of int to str
        Address that the first cell of a row leads to, by the row's position.
    title : str
        Its heading, if any.
    """

    kind: ClassVar[str] = "table"
    style: ClassVar[str] = "jobs"
    label: str
    frame: pd.DataFrame
    numbers: Sequence[str] = ()
    links: Mapping[int, str] = field(default_factory=dict)
    title: str = ""


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
    return {
        "policy": content_policy(),
        "title": title,
        "lead": lead,
        "warnings": warnings,
        "links": links or {},
        "sections": [section for section in sections if section.items],
        "footer": footer,
    }
