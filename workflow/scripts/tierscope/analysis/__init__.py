"""What tables say: breakdown, what-if, search, comparisons."""
