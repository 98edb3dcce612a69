"""The two tiers: their folders, clocks and leases."""
