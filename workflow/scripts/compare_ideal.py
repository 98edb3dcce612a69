"""Compare the runs of an experiment with ideal ones, whose storage costs nothing."""

from tierscope.analysis.breakdown import shown_epoch
from tierscope.analysis.comparing.ideal import storage_sentences, storage_time
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    epochs, ideal = (
        read_table(given[name], "epochs") for name in ("epochs", "ideal_epochs")
    )
    other, ideal_other = (
        read_table(path, "other_time") if (path := given[name]) else None
        for name in ("other_time", "ideal_other_time")
    )
    table = storage_time(epochs, ideal, other, ideal_other)
    write_table(table, snakemake.output.table, "storage_time")
    epoch = shown_epoch(table, params.epoch)
    origin, titles = origin_of(snakemake), params.dataset_titles
    lines = storage_sentences(table, epoch, params.may_hide, origin, titles)
    text = "".join(f"{line}\n" for line in lines)
    write_text(snakemake.output.text, text)
    print(text, end="")
