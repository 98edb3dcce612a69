"""Darshan logs of any job: whose tier, which class, which process, what if."""
