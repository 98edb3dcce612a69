"""Which jobs differ from others of their program."""

import numpy as np
import pandas as pd
import pytest
from job_tables import exact_job, tables_of
from tierscope.analysis.logs.outliers import write_fleet
from tierscope.core.tables import empty_table, read_table, write_table


def rows_of(percents, exe="train.py", most=None):
    """Return rows of table fleet with these parts of I/O."""
    return [
        {
            "exe": exe,
            "n_processes": 4,
            "io_least_percent": float(percent),
            "io_most_percent": float(percent if most is None else most),
        }
        for percent in percents
    ]


def outliers(folder, rows):
    """Return the outlier of each row of table fleet, as it is written."""
    fleet = pd.concat([tables_of(exact_job())["fleet"]] * len(rows), ignore_index=True)
    fleet = fleet.assign(**pd.DataFrame(rows))
    names = [f"job-{number:04}" for number in range(len(rows))]
    write_table(fleet.assign(job=names), folder / "chunk.parquet", "fleet")
    write_fleet([folder / "chunk.parquet"], folder / "fleet.parquet")
    written = read_table(folder / "fleet.parquet", "fleet").set_index("job")
    return written.loc[names, "outlier"].tolist()


def outliers_in_python(rows):
    """Return the outliers job by job."""
    words = []
    for row in rows:
        alike = [one for one in rows if one["exe"] == row["exe"]]
        percents = np.array([one["io_least_percent"] for one in alike])
        percents = percents[~np.isnan(percents)]
        words.append("")
        if len(percents) < 5 or np.isnan(row["io_least_percent"]):
            continue
        median = np.median(percents)
        deviation = 1.4826 * np.median(np.abs(percents - median))
        most = np.nan_to_num(row["io_most_percent"], nan=np.inf)
        distance = max(row["io_least_percent"] - median, median - most)
        if distance > max(3.5 * deviation, 5):
            words[-1] = (
                f"{row['io_least_percent']:.0f} % of the run time is I/O, "
                f"{median:.0f} % in the median of {len(percents)} such jobs"
            )
    return words


def test_sql_finds_the_same_jobs_with_the_same_words_as_a_loop(tmp_path):
    draw = np.random.default_rng(3)
    rows = []
    for exe in "abcdef":
        n = int(draw.integers(3, 60))
        least = draw.gamma(2, 8, n).round(2)
        least[draw.random(n) < 0.1] = np.nan
        most = least + draw.gamma(1, 3, n)
        most[draw.random(n) < 0.1] = np.nan
        for percent, end in zip(least, most, strict=True):
            rows += rows_of([percent], exe, end)
    draw.shuffle(rows)
    found = outliers(tmp_path, rows)
    assert found == outliers_in_python(rows)
    assert 5 < sum(map(bool, found)) < len(rows) / 2


@pytest.mark.parametrize(
    ("percents", "expected"),
    [
        ([10, 10, 10, 10, 90], "90 % of the run time is I/O, 10 % in the median of 5"),
        ([10, 10, 10, 90], ""),
        ([10, 10, 10, 10, 15], ""),
        ([10, 20, 30, 40, 50], ""),
        ([10, 10, 10, 10, 10, np.nan], ""),
    ],
)
def test_an_outlier_is_far_from_at_least_four_others(tmp_path, percents, expected):
    found = outliers(tmp_path, rows_of(percents))[-1]
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def test_a_fleet_of_no_job_is_an_empty_table(tmp_path):
    write_table(empty_table("fleet"), tmp_path / "chunk.parquet", "fleet")
    write_fleet([tmp_path / "chunk.parquet"], tmp_path / "fleet.parquet")
    assert read_table(tmp_path / "fleet.parquet", "fleet").empty


def test_a_fleet_has_a_file_of_each_month_with_outliers_over_all(tmp_path):
    """Five jobs in two chunks and months; one of them reads for much longer."""
    jobs = [
        exact_job(f"job-{n}", started_s=1_760_000_000.0 + 30 * 86400 * (n % 2))
        for n in range(4)
    ]
    far = exact_job("far", run_time_s=10.0)
    chunks = []
    for number, part in enumerate((jobs[:3], [jobs[3], far])):
        path = tmp_path / "chunks" / str(number) / "fleet.parquet"
        write_table(tables_of(*part)["fleet"], path, "fleet")
        chunks.append(path)
    folder = tmp_path / "fleet.parquet"
    write_fleet(chunks, folder)
    files = sorted(path.relative_to(folder).parts for path in folder.rglob("*.parquet"))
    assert files == [("2025-10", "all.parquet"), ("2025-11", "all.parquet")]
    fleet = read_table(folder, "fleet")
    words = "80 % of the run time is I/O, 8 % in the median of 5 such jobs"
    assert fleet.set_index("job")["outlier"].to_dict() == {
        "far": words,
        "job-0": "",
        "job-2": "",
        "job-1": "",
        "job-3": "",
    }
    assert fleet["job"].tolist() == ["far", "job-0", "job-2", "job-1", "job-3"]
