"""Draw Fig. 6: computation, processor and stall over the cache rate."""

from tierscope.analysis.breakdown import select_scenarios, shown_epoch
from tierscope.analysis.comparing.ideal import storage_sentences
from tierscope.analysis.origin import origin_of
from tierscope.analysis.training.after_training import times_after_training
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.figures.style import save_figure
from tierscope.figures.training.stalls import plot_stalls

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    table = read_table(given.storage_time, "storage_time")
    table = select_scenarios(table, params.scenarios)
    stalls = read_table(given.stalls, "class_stalls") if given.stalls else None
    epoch = shown_epoch(table, params.epoch)
    origin, titles = origin_of(snakemake), params.dataset_titles
    is_goal = params.goal["of"] == "utilisation"
    figure = plot_stalls(
        table,
        stalls,
        epoch,
        provenance=origin,
        sentences=storage_sentences(table, epoch, params.may_hide, origin, titles),
        goal_percent=params.goal.get("percent") if is_goal else None,
        dataset_titles=titles,
        after_s=times_after_training(
            read_table(given.epochs, "epochs", after_training=True)
        ),
    )
    save_figure(figure, snakemake.output)
