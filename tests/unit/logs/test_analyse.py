"""What may be given as logs."""

import re

import pytest
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
