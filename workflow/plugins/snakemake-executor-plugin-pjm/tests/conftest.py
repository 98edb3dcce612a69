"""Find the plugin's source where it is not installed."""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("snakemake_executor_plugin_pjm") is None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
