"""Write the settings that determine the measurements of a scenario."""

import json

from tierscope.core.files import write_text

if __name__ == "__main__":
    text = json.dumps(snakemake.params.description, indent=1)
    write_text(snakemake.output[0], text + "\n")
