"""Load the hook that tells epochs, then the site's own ``sitecustomize``.

Python imports the first module of this name when it starts. The folder of this file
stands first in the PYTHONPATH of a program that is measured.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _own_spec():
    """Return the spec of the site's own ``sitecustomize``, None if there is none."""
    from importlib.machinery import PathFinder

    paths = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    return PathFinder.find_spec(__name__, paths)


def _load_own():
    """Import the site's own module in place of this one; its errors are its own."""
    spec = _own_spec()
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


# A program that marks its epochs itself may say TIERSCOPE_HOOK=off.
if os.environ.get("TIERSCOPE_REDIRECT") and os.environ.get("TIERSCOPE_HOOK") != "off":
    try:
        from epoch_hook import imports

        imports.watch()
    except Exception as error:  # the program must run on, and its run says no epochs
        from contextlib import suppress

        with suppress(AttributeError, OSError, ValueError):  # closed, full, unread
            sys.stderr.write(f"tierscope: no epochs of this process: {error!r}\n")
_load_own()
