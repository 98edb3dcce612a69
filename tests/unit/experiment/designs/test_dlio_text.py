"""Files of DLIO that are written, and read in again."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tierscope.experiment.designs.dlio_text import workload_text
from tierscope.experiment.designs.workloads import Workload, read_workloads


@st.composite
def workloads(draw):
    """Return any workload that a loader of DLIO reads."""
    loader = draw(st.sampled_from(["pytorch", "tensorflow"]))
    workers = draw(st.integers(0 if loader == "pytorch" else 1, 16))
    batch_size = draw(st.integers(1, 512))
    ahead = draw(st.integers(1, 8))
    if workers == 0 or (loader == "tensorflow" and workers == 1):
        ahead = 0 if workers == 0 else draw(st.integers(0, 8))
    buffers = st.just(0) if loader == "pytorch" else st.integers(1, 1 << 30)
    return Workload(
        name="mine",
        n_files=draw(st.integers(1, 10**9)),
        file_size_bytes=draw(st.integers(64, 1 << 40)),
        file_size_stdev_bytes=draw(st.integers(0, 1 << 40)),
        batch_size=1 if loader == "tensorflow" and workers > 1 else batch_size,
        compute_time_s=draw(st.floats(1e-9, 86400)),
        compute_time_stdev_s=draw(st.floats(0, 86400)),
        loader=loader,
        workers=workers,
        prefetch_factor=ahead,
        buffer_bytes=draw(buffers),
        utilisation_percent=round(draw(st.floats(1, 100)), 6),
        source="",
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workload=workloads())
def test_a_file_that_was_written_is_read_as_the_same_workload(tmp_path, workload):
    path = tmp_path / "mine.yaml"
    path.write_text(workload_text(workload, "", 1, {}))
    (found,) = read_workloads([str(path)], {}, [])
    assert replace(found, source="") == workload
    words = found.source.partition("; computation varies by ")[0]
    assert words == f"{path}, workload file of DLIO"  # nothing is assumed


def test_comments_say_what_is_assumed():
    workload = Workload(
        name="on",
        n_files=64,
        file_size_bytes=100,
        batch_size=4,
        compute_time_s=0.5,
        loader="tensorflow",
        workers=1,
        prefetch_factor=3,
        utilisation_percent=90,
        source="",
    )
    said = {"dataset.format": "assumed", "train.computation_time": "a mean"}
    lines = workload_text(workload, "Mine.\nSecond.", 3, said).splitlines()
    assert lines[:4] == ["# Mine.", "# Second.", "framework: tensorflow", "model:"]
    assert '  name: "on"' in lines  # which would be true without quotes
    assert '  format: "tfrecord"  # assumed' in lines
    assert "  computation_time: 0.5  # a mean" in lines
    assert {"  record_length: 100", "  record_length_bytes: 100"} <= {*lines}
    assert {"  prefetch_size: 3", "  epochs: 3", "  au: 0.9"} <= {*lines}
