"""Designs of a storage: the configuration, its workloads and devices."""
