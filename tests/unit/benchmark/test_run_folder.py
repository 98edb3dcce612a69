import json

import pytest
from descriptions import describe_scenario
from tierscope.benchmark.run_folder import is_complete

PROGRAM = {"command": ["train", "{dataset}"], "in_place": False}


@pytest.mark.parametrize("sections", [{}, {"program": PROGRAM}])
def test_run_is_complete_with_its_log_or_logs_and_this_description(tmp_path, sections):
    description = describe_scenario(**sections)
    (tmp_path / "run.json").write_text(json.dumps({"hash": description.hash}))
    names = ["epochs", *(("opens", "marks", "program_processes") if sections else ())]
    for name in names:
        (tmp_path / f"{name}.parquet").touch()
    assert not is_complete(tmp_path, description)
    if sections:
        (tmp_path / "logs").mkdir()
    else:
        (tmp_path / "log.darshan").touch()
    assert is_complete(tmp_path, description)
    other = describe_scenario(**sections, training={"seed": 2})
    assert not is_complete(tmp_path, other)
