"""Parts that all pages share, so that they run only our own scripts."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any


def content_policy(scripts: Sequence[str] = ()) -> str:
    """Return the content security policy of a page that needs no other file.

    Even if a text of a configuration or of a log entered the page as HTML, a browser
    would not run it and would load nothing for it.

    Parameters
    ----------
    scripts : sequence of str
        The page's own scripts, exactly as in their elements.
    """
    allowed = [f"'sha256-{_digest(script)}'" for script in scripts]
    directives = {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "img-src": "data: blob:",
        "style-src": "'unsafe-inline'",
        "script-src": " ".join(allowed) or "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def script_json(value: Any) -> str:
    """Return compact JSON that can stand in a script element.

    No text in it can end the element (``</script>``) or begin a comment (``<!--``).
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _digest(script: str) -> str:
    """Return a script's SHA-256 as browsers compare it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
