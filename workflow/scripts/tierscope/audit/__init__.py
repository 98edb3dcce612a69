"""Check a run before believing it."""
