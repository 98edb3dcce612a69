"""Write the settings that determine the measurements of a scenario."""

import json
from pathlib import Path

if __name__ == "__main__":
    text = json.dumps(snakemake.params.description, indent=1)
    Path(snakemake.output[0]).write_text(text + "\n")
