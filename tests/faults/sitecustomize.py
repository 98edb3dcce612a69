"""Let modules of tierscope run a fault of a test as soon as they are loaded.

On PYTHONPATH of a launch, Python imports this at its start. The folder FAULTS holds
code by the name of a module; it runs in that module, and can replace what the module
defines.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class Faults:
    """Finds modules that have a fault, before Python does."""

    def __init__(self, folder: Path):
        self._folder = folder

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        """Return how to load a module and its fault, None if it has none."""
        fault = self._folder / f"{name}.py"
        if not fault.is_file() or not (found := PathFinder.find_spec(name, path)):
            return None
        load = found.loader.exec_module

        def load_with_fault(module):
            load(module)
            exec(compile(fault.read_text(), fault, "exec"), vars(module))

        found.loader.exec_module = load_with_fault
        return found


sys.meta_path.insert(0, Faults(Path(os.environ["FAULTS"])))
