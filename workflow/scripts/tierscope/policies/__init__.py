"""Policies: which files are held on the LFS."""

from tierscope.policies.pinning import Pinning

__all__ = ["Pinning"]
