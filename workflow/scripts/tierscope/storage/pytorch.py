"""PyTorch, which loader `pytorch` needs on real tiers and our environment may lack."""

import sys
from importlib.util import find_spec
from pathlib import Path

from tierscope.core.validation import ConfigError

# Made by `make programs-env`.
OPTIONAL = Path(__file__).parents[4] / ".venv-programs"


def find_pytorch(environment: Path = OPTIONAL) -> list[str]:
    """Return what `sys.path` lacks for `import torch`: at most one folder.

    PyTorch may be in the environment of this process, or in an optional one.

    Raises
    ------
    ConfigError
        If it is in neither; the line says how to install it.
    """
    if find_spec("torch"):
        return []
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    if not (packages / "torch" / "__init__.py").exists():
        raise ConfigError(
            f"config: sweep.loaders: got pytorch, expected PyTorch in {sys.prefix} or "
            f"{environment}: make programs-env installs it"
        )
    return [str(packages)]


def use_pytorch() -> None:
    """Let this process import `torch`; all other packages remain the same."""
    sys.path += find_pytorch()
