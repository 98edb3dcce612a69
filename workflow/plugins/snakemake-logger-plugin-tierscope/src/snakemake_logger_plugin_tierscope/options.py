"""Options of a command in place of the keys that it has written for them.

A command that writes the configuration and starts Snakemake names its options by keys
in the variable `TIERSCOPE_OPTIONS`, as JSON: `{"loader.minutes": "--minutes"}`.
"""

import json
import os
import re
from collections.abc import Mapping

VARIABLE = "TIERSCOPE_OPTIONS"


def given_options() -> dict[str, str]:
    """Return the options of the command that started us; jobs do not see them."""
    return json.loads(os.environ.pop(VARIABLE, "{}"))


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a text with options in place of keys, and of their file before them.

    A key of one word is an ordinary word elsewhere, so it counts where a line begins.
    """
    for key, option in options.items():
        file, name = r"(?:^(?:\S+\.ya?ml|config): )?", re.escape(key)
        found = rf"{file}(?<![\w.]){name}(?:\.\d+)*(?!\.?\w)"
        if key.isidentifier():
            found = rf"^{file}{name}(?=: )"
        text = re.sub(found, option, text, flags=re.MULTILINE)
    return text
