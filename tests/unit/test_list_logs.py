"""What rules and readers learn when logs are listed."""

from list_logs import facts_of, summary
from tierscope.logs.chunks.listing import MISSING, ListedLog, Listing

LISTING = Listing(
    {
        "2025": [ListedLog("/a", 10, 0), ListedLog("/b", 30, 0)],
        "2026": [ListedLog("/c", MISSING, 0)],
    },
    frozenset({"2026"}),
    2,
)


def test_chunks_without_tables_and_with_new_lists_have_changed(tmp_path):
    facts = facts_of(LISTING, tmp_path, is_new=False)
    assert (facts["n_changed"], facts["n_logs_changed"]) == (2, 3)
    (tmp_path / "2025").mkdir()
    (tmp_path / "2026").mkdir()
    facts = facts_of(LISTING, tmp_path, is_new=False)
    assert (facts["n_changed"], facts["n_logs_changed"]) == (1, 1)
    assert facts["chunks"] == {
        "2025": {"n_logs": 2, "largest_bytes": 30},
        "2026": {"n_logs": 1, "largest_bytes": 0},
    }
    assert facts_of(LISTING, tmp_path, is_new=True)["n_changed"] == 2


def test_the_summary_counts_logs_and_says_which_have_vanished(tmp_path):
    (tmp_path / "2025").mkdir()
    assert summary(facts_of(LISTING, tmp_path, is_new=False), 2).splitlines() == [
        "Logs in chunks that are new or changed: 1 of 3 (1 of 2 chunks). Of these only "
        "new logs are read.",
        "2 logs have vanished. What was read before stays (vanished: keep).",
    ]
    assert len(summary(facts_of(LISTING, tmp_path, is_new=False), 0).splitlines()) == 1
