"""Find the jobs whose part of I/O is far from that of others, and write table fleet."""

from collections.abc import Sequence
from pathlib import Path

from tierscope.analysis.logs.asking import JobTables
from tierscope.core.tables import empty_table, write_table

FEWEST_LIKE = 5  # jobs of one program with which a job is compared
_FAR = 3.5  # deviations from the median (Iglewicz and Hoaglin's modified z-score)
_MAD_TO_SD = 1.4826
_LEAST_POINTS = 5.0  # of the run time: less is no outlier, however alike the others are
_ALIKE = f"""
CREATE TABLE alike AS
WITH medians AS (
    SELECT exe, n_processes, count(*) AS n_alike, median(io_least_percent) AS middle
    FROM fleet WHERE io_least_percent IS NOT NULL
    GROUP BY exe, n_processes HAVING count(*) >= {FEWEST_LIKE}
)
SELECT exe, n_processes, n_alike, middle,
    {_MAD_TO_SD} * median(abs(io_least_percent - middle)) AS deviation
FROM fleet JOIN medians USING (exe, n_processes)
WHERE io_least_percent IS NOT NULL
GROUP BY ALL
"""
_COMPARED = f"""
SELECT fleet.* REPLACE (CASE WHEN greatest(
        io_least_percent - middle,
        middle - coalesce(io_most_percent, 'infinity')
    ) > greatest({_FAR} * deviation, {_LEAST_POINTS})
    THEN format('{{:.0f}} % of the run time is I/O, {{:.0f}} % in the median of {{}} '
        || 'such jobs', io_least_percent, middle, n_alike)
    ELSE '' END AS outlier)
FROM fleet LEFT JOIN alike USING (exe, n_processes)
"""


def write_fleet(chunks: Sequence[str | Path], folder: Path) -> None:
    """Write table ``fleet`` of all jobs, with outliers: a file of each month.

    An outlier's part of the run time that is I/O is far from the median of the jobs of
    the same program and number of processes, in units of the median absolute deviation.
    If the part is known within bounds, all of them must be far away. In a file, the
    jobs with the most hours come first.

    Parameters
    ----------
    chunks : sequence of path
        The files of table ``fleet`` of some jobs each; their outliers do not count.
    folder : Path
        Where to write ``<month>/all.parquet``.
    """
    tables = JobTables({"fleet": chunks})
    tables.do(_ALIKE)
    months = tables.ask("SELECT DISTINCT month FROM fleet ORDER BY month")["month"]
    for month in months:
        question = f"{_COMPARED} WHERE month = ? ORDER BY io_hours DESC, job"
        path = folder / month / "all.parquet"
        write_table(tables.ask(question, month), path, "fleet")
    if months.empty:
        write_table(empty_table("fleet"), folder / "all" / "all.parquet", "fleet")
