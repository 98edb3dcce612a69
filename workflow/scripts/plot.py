"""Draw the figure of a module, and say it in words if the module can."""

from importlib import import_module

from tierscope.core.files import log_to, write_text
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    module, output = import_module(snakemake.params.module), snakemake.output
    given = module.Given(snakemake)  # of runs, or of anything
    save_figure(module.draw(given), [output[kind] for kind in ("svg", "png", "pdf")])
    if hasattr(module, "describe"):
        text = module.describe(given)
        if "text" in output.keys():  # noqa: SIM118 (Snakemake's names)
            write_text(output.text, text)
        print(text)
