"""Pages for readers: scorecard, report, explorer."""
