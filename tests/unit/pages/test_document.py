import base64

import docutils.utils
import jinja2
import pytest
from tierscope.pages.document import Picture, caption_html, render


def test_texts_are_escaped_and_the_style_is_not():
    template = "<style>{{ style | safe }}</style>{{ text }}"
    page = render(template, {"text": "<b>"}, "a > b {}")
    assert page == "<style>a > b {}</style>&lt;b&gt;"


def test_a_text_that_is_not_there_is_refused():
    with pytest.raises(jinja2.UndefinedError):
        render("{{ absent }}", {})


def test_a_picture_is_an_address_that_holds_it():
    picture = Picture("a", "A", b"<svg/>", "*Look.*")
    kind, _, data = picture.uri.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == b"<svg/>"
    assert "<em>Look.</em>" in picture.caption_html


def test_a_mistake_in_a_caption_is_an_error():
    with pytest.raises(docutils.utils.SystemMessage):
        caption_html("`unclosed")
