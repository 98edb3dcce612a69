from tierscope.pages.content import (
    TEXT_LETTERS,
    Section,
    Words,
    page_context,
    seen,
)


def test_texts_from_logs_are_seen_and_not_too_long():
    assert seen("a\u202eb") == "a\\u202eb"
    assert len(seen("x" * 9999)) == TEXT_LETTERS
    assert len(seen("x" * 9999, 10)) == 10


def test_sections_without_items_are_left_out():
    full, empty = Section("a", "A", [Words("x")]), Section("b", "B", [])
    context = page_context("T", "L", [full, empty], footer="F")
    assert context["sections"] == [full]
    assert "script-src 'none'" in context["policy"]
