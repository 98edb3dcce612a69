"""Read pages of HTML in tests."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

TEMPLATES = Path(__file__).parents[1] / "workflow" / "templates"
TEMPLATE = "logs.html.j2"
_SINGLE = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """A page: its text, elements, links, and the elements that others end."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words, self.addresses, self.open = [], [], [], []
        self.handlers = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        if tag not in _SINGLE:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("href", "src"):
                self.addresses.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def embedded(page):
    """Return the data that an explorer computes with."""
    return json.loads(re.search(r'(?s)id="data">(.*?)</script>', page)[1])
