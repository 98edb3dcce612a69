"""What may be given as logs."""

import re

import pytest
from job_logs import write_job_log
from tierscope.core.validation import ConfigError
from tierscope.logs.analyse import analyse


@pytest.mark.parametrize("wrong", [120, None, {"a": 1}, 3.5, [None], ["/none", 5]])
def test_what_is_no_path_is_refused_by_its_own_name(wrong):
    named = wrong[-1] if isinstance(wrong, list) else wrong
    line = f"analyse: logs: got {named!r}, expected a path"
    with pytest.raises(ConfigError, match=re.escape(line)):
        analyse(wrong)


@pytest.mark.parametrize("logs", [b"/none", [b"/none"], iter(["/none"])])
def test_bytes_and_iterators_are_paths(logs):
    with pytest.raises(ConfigError, match="got '/none', which does not exist"):
        analyse(logs)


def test_folder_to_keep_must_be_a_path(tmp_path):
    (tmp_path / "a.darshan").write_text("")
    with pytest.raises(ConfigError, match="keep: got 5, expected a path"):
        analyse(tmp_path, keep=5)


def test_bytes_of_mapped_files_are_missing_where_no_log_tells_them(tmp_path):
    """Darshan itself counts mappings only."""
    rows = [("POSIX", 0, "/gfs/a", {"opens": 1, "MMAPS": 3})]
    write_job_log(tmp_path / "anna_train_id7.darshan", rows)
    logs = analyse(tmp_path, {"gfs": "/gfs"})["logs"]
    assert logs["n_mappings"].tolist() == [3]
    assert logs["mapped_bytes"].isna().tolist() == [True]
