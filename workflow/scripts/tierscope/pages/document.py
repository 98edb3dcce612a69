"""Make pages of HTML that need no other file, from a template and its content.

A figure becomes an image of its own inside the page, so the ids and styles of its SVG
cannot affect another figure.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jinja2
from docutils.core import publish_parts

from tierscope.core.output.version import VERSION

TEMPLATES = Path(__file__).parents[3] / "templates"
_RST = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "halt_level": 2,
    "report_level": 5,
    "_disable_config": True,
}


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Parameters
    ----------
    name : str
        Its name in links.
    title : str
        Its heading.
    svg : bytes
        Content of an SVG file.
    caption : str
        How to read it, in reStructuredText.
    """

    name: str
    title: str
    svg: bytes
    caption: str

    @classmethod
    def of_files(
        cls, name: str, title: str, svg: Path | str, caption: Path | str
    ) -> Self:
        """Return the figure whose SVG and caption these files hold."""
        words = Path(caption).read_text(encoding="utf-8")
        return cls(name, title, Path(svg).read_bytes(), words)

    @property
    def uri(self) -> str:
        """Return the picture as an address that holds it."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()

    @property
    def caption_html(self) -> str:
        """Return the caption as HTML."""
        return caption_html(self.caption)


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the page; texts are escaped unless the template marks them as HTML.

    Parameters
    ----------
    template : str
        Name of a file in `workflow/templates`.
    context : mapping of str to object
        What the template shows; a name that is missing is refused.

    Raises
    ------
    jinja2.UndefinedError
        If the template needs what the context lacks.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["version"] = VERSION
    return environment.get_template(template).render(context)


def caption_html(caption: str) -> str:
    """Return reStructuredText as HTML; a mistake in it raises docutils' error."""
    parts = publish_parts(caption, writer="html5", settings_overrides=_RST)
    return parts["body"]
