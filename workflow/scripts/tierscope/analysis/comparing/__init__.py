"""Policies compared with reading from the GFS alone: what they save and cost."""
