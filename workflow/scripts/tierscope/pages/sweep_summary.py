"""Say in a few lines what a sweep of a program has shown, to be read on a terminal."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from tierscope.analysis.breakdown import select_epoch, shown_epoch
from tierscope.analysis.comparing.ideal import storage_sentences
from tierscope.analysis.intervals import NO_INTERVAL, best_rates
from tierscope.analysis.origin import is_whole_run
from tierscope.analysis.training.limit import IDEAL_HINT
from tierscope.core.certificate import YES
from tierscope.core.columns import RUN_EPOCH, RUN_KEYS, SCENARIO
from tierscope.core.provenance import Origin
from tierscope.core.words import count_words, in_seconds, scenario_titles
from tierscope.pages.report.program import statements_table

_MOST_STATEMENTS = 3  # that have a line
_MOST_RATES = 6  # that are all named
_NO_IDEAL = f"Storage or processor: {IDEAL_HINT}."


def summary_lines(
    statements: pd.DataFrame,
    workloads: Sequence[str],
    epochs: pd.DataFrame,
    storage_time: pd.DataFrame | None,
    epoch: int,
    dataset_titles: Mapping[str, str],
) -> list[str]:
    """Return what the program did, its best cache rate, and which part is storage.

    Parameters
    ----------
    statements, epochs : DataFrame
        These tables, of all runs of the sweep.
    workloads : sequence of str
        What is said of the program's workload files.
    storage_time : DataFrame or None
        This table, if there are ideal runs.
    epoch : int
        The epoch of the figures, counted from 0; the last one if there are fewer.
    dataset_titles : mapping of str to str
        What to call each dataset.
    """
    epoch = shown_epoch(epochs, epoch)
    origin = Origin("", is_program=True, is_whole_run=is_whole_run(statements))
    # Words of the other lines' epoch come first.
    first = statements.sort_values("epoch", key=lambda one: one != epoch, kind="stable")
    lines = [*_statement_lines(first), *workloads]
    lines += _rate_lines(epochs, epoch, origin)
    if storage_time is None:
        return [*lines, _NO_IDEAL]
    return lines + storage_sentences(storage_time, epoch, True, origin, dataset_titles)


def _statement_lines(statements: pd.DataFrame) -> Iterator[str]:
    """Yield the statements that are not true of all runs, the first ones in words."""
    n_runs = len(statements[list(RUN_KEYS)].drop_duplicates())
    runs = count_words(n_runs, "run")
    others = statements[statements["answer"] != YES]
    if others.empty:
        yield f"The program: all statements on it are yes in {runs}."
        return
    rows = statements_table(others).to_dict("records")
    for row in rows[:_MOST_STATEMENTS]:
        answer = row["Answer"].partition(" ")[2]
        where = f"in {row['Runs']} of {runs}"
        yield f"The program: {row['Statement']}: {answer} {where}. {row['In words']}"
    if (left := len(rows) - _MOST_STATEMENTS) > 0:
        more = count_words(left, "more is", "more are")
        yield f"The program: {more} not yes, see table statements."


def _rate_lines(epochs: pd.DataFrame, epoch: int, origin: Origin) -> Iterator[str]:
    """Yield for each scenario its times by cache rate, and the best rate."""
    times = select_epoch(epochs, epoch).groupby(RUN_EPOCH)["execution_time_s"]
    times = times.max().reset_index()
    titles = scenario_titles(times)
    for scenario in titles.to_dict("records"):
        keys = pd.Series({key: scenario[key] for key in SCENARIO})
        head = f"{scenario['policy']}: " if len(titles) > 1 else ""
        of_one = times[(times[SCENARIO] == keys).all(axis=1)]
        yield head + _times_words(of_one, origin.epoch_words(epoch))


def _times_words(times: pd.DataFrame, epoch: str) -> str:
    """Return the execution time at each cache rate, or at the best and the ends."""
    found = best_rates(times, "execution_time_s")
    shown = found.swept
    if len(shown) > _MOST_RATES:
        shown = sorted({shown[0], found.best, shown[-1]})
    means_s = times.groupby("cache_rate_percent")["execution_time_s"].mean()
    named = [f"{in_seconds(means_s[rate])} at {rate} %" for rate in shown]
    words = ", ".join(named).replace(" at ", " at cache rate ", 1)
    words = f"Execution time of the {epoch}: {words}"
    if len(found.swept) == 1:
        return f"{words} ({NO_INTERVAL})." if found.n == 1 else f"{words}."
    if found.rates == found.swept:
        return f"{words}. No rate can be told from another (n = {found.n})."
    return f"{words}. Shortest at cache rate {found.words} ({found.reason})."
