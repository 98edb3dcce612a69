"""Sum up the sweep of a program, as soon as its last run is audited."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from collect_epochs import joined_epochs
from tierscope.analysis.comparing.ideal import storage_time
from tierscope.analysis.run_facts import list_facts, refuse_mixed_runs
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_tables
from tierscope.core.validation import read_json
from tierscope.pages.sweep_summary import summary_lines


def workload_lines(
    texts: Iterable[str], runs: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the first lines of workload files, if the program has a known loader.

    Others expect none; the files say why there is none.
    """
    if not any(run["observed"]["loaders"] for run in runs):
        return []
    return [text.partition("\n")[0].removeprefix("# ") for text in texts]


if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    paths = map(Path, (*given.runs, *given.ideal_runs))
    listed = {str(one.parent): read_json(one) for one in paths}
    refuse_mixed_runs(list_facts(listed), params.allow_mixed)
    epochs = joined_epochs(given.epochs, given.runs)
    storage = None
    if given.ideal_runs:
        ideal = joined_epochs(given.ideal_epochs, given.ideal_runs)
        other, ideal_other = (
            read_tables(paths, "other_time")
            for paths in (given.other_time, given.ideal_other_time)
        )
        storage = storage_time(epochs, ideal, other, ideal_other)
    statements = read_tables(given.statements, "statements")
    workloads = [Path(one).read_text(encoding="utf-8") for one in given.workloads]
    said = workload_lines(workloads, listed.values())
    lines = summary_lines(
        statements, said, epochs, storage, params.epoch, params.dataset_titles
    )
    text = "".join(f"{line}\n" for line in lines)
    write_text(snakemake.output[0], text)
    print(text, end="")
