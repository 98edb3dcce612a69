import job_tables
import pandas as pd
import pytest
from job_tables import MPI_IO, tables_of
from tierscope.core.tables import empty_table
from tierscope.figures.logs.processes import WHOLE_JOB, with_io
from tierscope.pages.logs.job_tables import (
    breakdown_table,
    combinations_table,
    epochs_table,
    estimates_table,
    files_table,
    logs_table,
    processes_table,
    ranks_words,
    run_part_words,
    sizes_table,
)


def breakdown_of(job, **changes):
    tables = tables_of(job)
    rows = tables["job_breakdown"].query("epoch == -1")
    times = tables["job_times"].assign(**changes)
    slowest = tables["job_slowest"].query("epoch == -1").iloc[0]
    return breakdown_table(rows, times, slowest).set_index("Class")


def test_a_class_has_the_slowest_process_and_all():
    table = breakdown_of(job_tables.exact_job())
    assert table.loc["gfs META", "Slowest process"] == "4.00 s"
    assert table.loc["gfs META", "All processes"] == "6.00 s"
    assert table.index[0] == "gfs READ"
    assert table.loc["gfs READ", ["Operations", "Bytes", "Files"]].tolist() == [
        "20",
        "1 GiB",
        "7",
    ]


def test_bounds_are_written_as_bounds():
    table = breakdown_of(job_tables.bounded_job())
    assert table["Slowest process"].tolist() == ["1.00 to 2.00 s"] * 2
    table = breakdown_of(job_tables.partial_job())
    assert table["Slowest process"].tolist() == ["at least 1.00 s", "at least 2.00 s"]


def test_mpi_io_is_listed_and_said_not_to_count():
    job = job_tables.exact_job()
    job.times[-1, MPI_IO] = [5, 5]
    table = breakdown_of(job)
    (name,) = (name for name in table.index if "MPI-IO" in name)
    assert "not counted" in name
    assert table.loc[name, "Slowest process"] == "\N{EN DASH}"
    assert table.loc[name, "All processes"] == "10.0 s"


def test_a_process_of_several_logs_has_its_largest_log_beside_the_sum():
    job = job_tables.exact_job()
    halves = tables_of(job)["job_times"]["least_s"] / 2
    table = breakdown_of(job, largest_s=halves)
    assert table.loc["gfs META", "Its largest log"] == "2.00 s"
    assert "Its largest log" not in breakdown_of(job)


def test_of_a_job_with_epochs_the_largest_log_is_not_known():
    assert "Its largest log" not in breakdown_of(job_tables.epochs_job(), largest_s=0.0)


def test_epochs_have_their_slowest_process():
    table = epochs_table(tables_of(job_tables.epochs_job())["job_slowest"])
    assert table["Epoch"].tolist() == ["0", "1", "2"]
    assert table.iloc[1].tolist() == ["1", "5.00 s", "5.00 %", "rank 0", "gfs READ"]


@pytest.mark.parametrize(
    ("n", "ranks", "words"),
    [
        (1, "7", "rank 7"),
        (2, "7, 9", "one of ranks 7, 9"),
        (64, "any of 64", "any of 64"),
        (12, "0, 1 and 10 more", "one of ranks 0, 1 and 10 more"),
    ],
)
def test_the_slowest_process_may_be_one_of_several(n, ranks, words):
    assert ranks_words({"n_slowest": n, "slowest_ranks": ranks}) == words


def test_the_part_of_an_unknown_run_time_is_unknown():
    nan = float("nan")
    row = {"run_least_percent": nan, "run_most_percent": nan}
    assert run_part_words(row) == "unknown"
    assert run_part_words({"run_least_percent": 2.0, "run_most_percent": nan}) == (
        "at least 2.00 %"
    )


def test_processes_are_listed_with_their_bounds():
    processes = with_io(tables_of(job_tables.bounded_job())["job_processes"], WHOLE_JOB)
    table = processes_table(processes, is_lost=False)
    assert table.iloc[0].tolist() == ["rank 0", "2.00 to 4.00 s", "yes"]


def test_of_lost_records_the_table_does_not_say_who_can_be_the_slowest():
    processes = with_io(tables_of(job_tables.partial_job())["job_processes"], WHOLE_JOB)
    table = processes_table(processes, is_lost=True)
    assert table.columns.tolist() == ["Process", "I/O time"]
    assert table.iloc[0].tolist() == ["rank 0", "at least 3.00 s"]


def test_files_and_folders_have_tables_of_their_own():
    files = tables_of(job_tables.exact_job())["job_files"]
    assert files_table(files, "file")["File"].tolist() == [
        f"/gfs/alice/data/{n}.h5" for n in range(3)
    ]
    folder = files_table(files, "folder").iloc[0]
    assert folder["Folder"] == "/gfs/alice/data"
    assert folder["Read"] == "40 MiB"


def test_sizes_have_a_column_for_each_tier_and_operation():
    sizes = tables_of(job_tables.exact_job())["job_sizes"]
    table = sizes_table(sizes)
    assert table.columns.tolist() == ["Bytes of a call", "gfs READ"]
    assert table["gfs READ"].tolist() == ["1", "10", "100", "1,000"]
    assert sizes_table(sizes.assign(calls=0)).empty
    assert sizes_table(empty_table("job_sizes")).empty


def test_an_improvement_is_a_row_and_a_percentage_a_column():
    estimates = tables_of(job_tables.exact_job())["job_estimates"]
    table, n_left = estimates_table(estimates)
    assert table.columns.tolist()[1:] == ["+25 %", "+50 %", "+100 %", "+200 %"]
    best = table.iloc[0]
    assert best["More throughput of"] == "gfs META"
    assert best["+100 %"] == "6.00 s\nsaves 2.00 s"  # of 8 s, 4 s of them META
    assert n_left == 0


def test_pairs_are_named_without_their_percentages():
    row = tables_of(job_tables.exact_job())["job_estimates"].head(1)
    pair = row.assign(improvement="gfs READ +50 %, gfs META +50 %")
    table, _ = estimates_table(pair)
    assert table["More throughput of"].tolist() == ["gfs READ, gfs META"]


def test_improvements_that_say_the_same_of_a_tier_are_one_row():
    row = tables_of(job_tables.exact_job())["job_estimates"].head(1)
    gains = {  # seconds, classes
        "everything on gfs": (2.0, 2),
        "gfs READ, gfs META": (2.0, 2),
        "home READ": (2.0, 1),  # as much, but of another tier
        "gfs META": (1.0, 1),
        "metadata server of gfs": (1.0, 1),
        "gfs META, lfs META": (1.0, 2),
        "gfs READ": (0.5, 1),
        "everything on lfs": (0.25, 2),
        "metadata server of lfs": (0.25, 2),
        "lfs META": (0.25, 1),  # as much, but not all of it
        "lfs META, lfs STDIO META": (0.25, 2),
    }
    rows = pd.concat(
        row.assign(
            improvement=f"{name} +25 %",
            saved_least_s=gain,
            saved_most_s=gain,
            n_classes=n_classes,
        )
        for name, (gain, n_classes) in gains.items()
    )
    table, n_left = estimates_table(rows)
    assert table["More throughput of"].tolist() == [
        "everything on gfs (gfs READ, gfs META)",
        "home READ",
        "metadata server of gfs (gfs META)",
        "gfs META, lfs META",
        "gfs READ",
        "metadata server of lfs (lfs META, lfs STDIO META)",
        "lfs META",
    ]
    assert n_left == 0


def test_many_improvements_are_cut_and_counted():
    row = tables_of(job_tables.exact_job())["job_estimates"].head(1)
    many = pd.concat([row.assign(improvement=f"class {n} +25 %") for n in range(20)])
    table, n_left = estimates_table(many)
    assert (len(table), n_left) == (15, 5)
    assert estimates_table(empty_table("job_estimates"))[0].empty


def test_a_combination_says_whether_it_is_certain():
    rows = tables_of(job_tables.exact_job())["job_combinations"]
    assert combinations_table(rows).iloc[0].tolist() == [
        "gfs META +100 %",
        "2.00 to 4.00 s",
        "100",
        "yes",
    ]
    perhaps = combinations_table(rows.assign(certain=False))
    assert perhaps["Meets the goal"].tolist() == ["perhaps (bounds)"]


def test_logs_say_who_read_them_and_what_they_lost():
    table = logs_table(tables_of(job_tables.partial_job())["logs"])
    assert table["Lost records of"].tolist() == ["POSIX"]
    assert table["Process"].tolist() == ["all"]
    of_rank = tables_of(job_tables.partial_job())["logs"].assign(process=3)
    assert logs_table(of_rank)["Process"].tolist() == ["rank 3"]
    mapped = of_rank.assign(n_mappings=3, mapped_bytes=float(5 << 20))
    words = [
        logs_table(one)["Mapped, not measured"].item() for one in (of_rank, mapped)
    ]
    assert words == ["nothing", "3 mappings (5 MiB)"]
    unknown = logs_table(mapped.assign(mapped_bytes=float("nan")))
    assert unknown["Mapped, not measured"].item() == "3 mappings (size unknown)"
    table = logs_table(tables_of(job_tables.exact_job())["logs"])
    assert table["Lost records of"].tolist() == ["none"]
