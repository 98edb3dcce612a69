"""What follows training, on a hand-made table."""

import pandas as pd
from descriptions import SCENARIO
from tierscope.analysis.training.after_training import times_after_training
from tierscope.core.columns import AFTER_TRAINING


def epochs(*rows):
    """Return rows of table `epochs`: cache rate, repetition, rank, epoch, s, opens."""
    names = ["cache_rate_percent", "repetition", "rank", "epoch"]
    names += ["execution_time_s", "samples"]
    return pd.DataFrame(rows, columns=names).assign(**SCENARIO)


def by_rate(table):
    return times_after_training(table).droplevel(list(SCENARIO)).to_dict()


def test_time_after_training_is_that_of_the_longest_process_where_it_counts():
    after = AFTER_TRAINING
    table = epochs(
        *[(0, 0, 0, 1, 10.0, 5), (0, 0, 1, 1, 10.0, 5), (0, 1, 0, 1, 10.0, 5)],
        *[(0, 0, 0, after, 1.0, 0), (0, 0, 1, after, 3.0, 0), (0, 1, 0, after, 1.0, 0)],
        *[(50, 0, 0, 1, 10.0, 5), (50, 0, 0, after, 0.09, 0)],
        *[(100, 0, 0, 1, 10.0, 5), (100, 0, 0, after, 0.09, 2)],
    )
    assert by_rate(table) == {0: 2.0, 100: 0.09}


def test_time_after_training_is_compared_with_the_last_epoch():
    table = epochs(
        *[(0, 0, 0, 0, 1.0, 5), (0, 0, 0, 1, 10.0, 5)],
        (0, 0, 0, AFTER_TRAINING, 0.09, 0),
    )
    assert by_rate(table) == {}
    later = table.assign(execution_time_s=[10.0, 1.0, 0.09])
    assert by_rate(later) == {0: 0.09}


def test_run_without_rows_after_training_has_none():
    assert by_rate(epochs((0, 0, 0, 1, 10.0, 5))) == {}
