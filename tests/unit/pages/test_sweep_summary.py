"""What a sweep of a program has shown, in a few lines."""

import pandas as pd
import pytest
from summarise_sweep import workload_lines
from tierscope.core.tables import with_later_columns
from tierscope.pages.sweep_summary import summary_lines

SCENARIO = {
    "source": "measured",
    "system": "one-process",
    "dataset": "mine",
    "n_osts": 0,
    "policy": "pinning",
    "loader": "program",
}


def epochs(times_s, **scenario):
    """Return a table of epochs: by cache rate, the time of each repetition."""
    rows = [
        SCENARIO
        | {"cache_rate_percent": rate, "repetition": repetition, "rank": rank}
        | {"epoch": 1, "execution_time_s": time_s - rank}
        | scenario
        for rate, of_one in times_s.items()
        for repetition, time_s in enumerate(of_one)
        for rank in range(2)
    ]
    return pd.DataFrame(rows)


def statements(table, **answers):
    """Return table `statements`: each run of a table gives these answers."""
    runs = table.drop(columns=["rank", "execution_time_s"]).drop_duplicates()
    return pd.concat(
        runs.assign(statement=name, answer=answer, words=f"Words on {name}.")
        for name, answer in {"epochs": "yes", "tier": "yes", **answers}.items()
    )


def storage(table, ideal_s=1.0):
    """Return table `storage_time` of the points of a table."""
    points = table[table["rank"] == 0].groupby("cache_rate_percent").first()
    points = points.reset_index().drop(columns=["rank", "repetition"])
    points = points.assign(
        n_repetitions=2,
        compute_time_s=float("nan"),
        ideal_time_s=ideal_s,
        other_s=0.0,
        ideal_other_s=0.0,
        other_io="",
        beside_s=0.0,
        beside_io="",
        storage_s=points["execution_time_s"] - ideal_s,
        storage_interval_s=0.25,
        utilisation_percent=float("nan"),
        ideal_utilisation_percent=float("nan"),
    )
    return with_later_columns(points, "storage_time")


def lines_of(table, storage_time=None, **answers):
    """Return the summary of a table of epochs."""
    said = statements(table, **answers)
    return summary_lines(said, [], table, storage_time, 1, {})


def test_answers_are_what_the_program_did_the_best_rate_and_the_storage():
    table = epochs({0: (4.0, 4.1), 50: (3.0, 3.1), 100: (2.0, 2.1)})
    did, times, without, best = lines_of(table, storage(table))
    assert did == "The program: all statements on it are yes in 6 runs."
    assert times == (
        "Execution time of the second epoch: 4.05 s at cache rate 0 %, 3.05 s at 50 %, "
        "2.05 s at 100 %. Shortest at cache rate 100 % (n = 2)."
    )
    assert without.startswith("Of 4.00 s an epoch at cache rate 0 %, 3.00 ± 0.25 s are")
    assert best.startswith("Of 2.00 s an epoch at cache rate 100 %, 1.00 ± 0.25 s are")


def test_one_repetition_has_no_interval_and_no_ideal_run_tells_no_storage():
    _, times, storage_line = lines_of(epochs({0: (4.0,), 100: (2.0,)}))
    assert times.endswith("Shortest at cache rate 100 % (one repetition, no interval).")
    assert storage_line.startswith(
        "Storage or processor: only ideal runs tell, by --ide"
    )


def test_statements_that_are_not_true_come_first_and_few_have_a_line():
    answers = dict.fromkeys(("cover", "whole", "once", "rate"), "no")
    lines = lines_of(epochs({0: (4.0,), 50: (3.0,)}), **answers | {"seen": "yes"})
    assert lines[:4] == [
        "The program: the cache rate is met: no in 2 of 2 runs. Words on rate.",
        "The program: every file opened: no in 2 of 2 runs. Words on cover.",
        "The program: no file opened twice: no in 2 of 2 runs. Words on once.",
        "The program: 1 more is not yes, see table statements.",
    ]
    assert len(lines) == 6


def test_rates_of_which_none_is_shown_to_be_shorter_are_not_called_shortest():
    _, times, _ = lines_of(epochs({0: (4.0, 9.0), 50: (5.0, 4.0)}))
    assert times.endswith("4.50 s at 50 %. No rate can be told from another (n = 2).")


def test_program_without_marks_has_one_phase():
    table = epochs({0: (4.0,)})
    lines = lines_of(table, storage(table), epochs="no")
    assert lines[1].startswith("Execution time of the whole run: 4.00 s at cache rate")
    assert lines[1].endswith("at cache rate 0 % (one repetition, no interval).")
    assert lines[2].startswith("Of 4.00 s a run at cache rate 0 %, ")


def test_each_policy_has_a_line_and_many_rates_are_the_ends_and_the_best():
    many = {rate: (5.0 - (rate == 80),) for rate in range(0, 101, 10)}
    table = pd.concat([epochs({0: (9.0,)}, policy="none"), epochs(many)])
    _, none, pinning, _ = lines_of(table)
    assert none == (
        "none: Execution time of the second epoch: 9.00 s at cache rate 0 % "
        "(one repetition, no interval)."
    )
    assert "5.00 s at cache rate 0 %, 4.00 s at 80 %, 5.00 s at 100 %. Sho" in pinning
    assert pinning.startswith("pinning: ")


@pytest.mark.parametrize("wanted", [1, 7])
def test_epoch_is_that_of_the_figures_or_the_last(wanted):
    table = epochs({0: (4.0,)})
    later = table.assign(epoch=2, execution_time_s=8.0)
    both = pd.concat([table, later])
    lines = summary_lines(statements(both), [], both, None, wanted, {})
    assert f"{'4' if wanted == 1 else '8'}.00 s at cache rate 0 %" in lines[1]


def test_words_of_a_statement_are_of_the_epoch_of_the_other_lines():
    table = epochs({0: (4.0,)})
    both = pd.concat([table.assign(epoch=0), table])
    said = statements(both, cover="no")
    said["words"] = said["words"] + said["epoch"].astype(str)
    did, where, *_ = summary_lines(said, ["The program: a file"], both, None, 1, {})
    assert where == "The program: a file"
    assert did.startswith("The program: every file opened: no in 1 of 1 run. Words on ")
    assert "cover.1 (other runs or epochs: other numbers" in did


def test_workload_file_has_a_line_where_the_program_has_a_loader_that_is_known():
    texts = ["# The program: no workload file for DLIO: why\n", "# The program: x\ny"]
    plain, torch = ({"observed": {"loaders": some}} for some in ([], [{"batch": 1}]))
    assert workload_lines(texts, [plain, plain]) == []
    assert workload_lines(texts, [plain, torch]) == [
        "The program: no workload file for DLIO: why",
        "The program: x",
    ]
