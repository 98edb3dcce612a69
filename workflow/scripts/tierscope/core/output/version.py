"""The version of tierscope, in a clone and in an installed package.

It stands in a file that is no module: what a rule depends on does not change with it.
"""

from pathlib import Path

VERSION = (Path(__file__).parents[2] / "VERSION").read_text("utf-8").strip()
