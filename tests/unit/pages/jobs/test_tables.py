import job_tables
import pytest
from job_tables import tables_of
from tierscope.core.tables import TableError, write_table
from tierscope.pages.jobs.tables import read_job_tables


@pytest.fixture
def paths(tmp_path):
    tables = tables_of(job_tables.exact_job())
    paths = {name: tmp_path / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        write_table(tables[name], path, name)
    return paths


def test_tables_are_read_and_other_files_left_out(paths):
    tables = read_job_tables(paths | {"style": "page.css"}, anonymous=False)
    assert tables.keys() == paths.keys()
    assert tables["jobs"]["user"].tolist() == ["alice"]


def test_anonymous_tables_name_nobody(paths):
    tables = read_job_tables(paths, anonymous=True)
    assert tables["jobs"]["user"].tolist() == ["user-1"]
    assert tables["fleet"]["user"].tolist() == ["user-1"]


def test_a_table_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TableError, match="no such file"):
        read_job_tables({"jobs": tmp_path / "jobs.parquet"}, anonymous=False)
