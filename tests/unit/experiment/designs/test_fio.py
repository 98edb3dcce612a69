"""What fio wrote, and what others write in its place."""

import json
from pathlib import Path

import pytest
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.designs.fio import devices_of_fio, read_fio

ROOT = Path(__file__).parents[4]
# Of fio 3.33: a job that reads 1 MiB at a time, then four of them together.
REAL = ROOT / "tests" / "data" / "fio-reads.json"
DEVICES = read_yaml(ROOT / "resources" / "systems" / "nvme-servers.yaml")["devices"]
MIB = 1 << 20


def job(group=0, n=1000, mib_per_s=1000, size=MIB, latency_s=0.001, **read):
    """Return a job of fio that read so."""
    bw_bytes = mib_per_s * MIB
    read = {
        "total_ios": n,
        "io_bytes": n * size,
        "bw_bytes": bw_bytes,
        "iops": bw_bytes / size,
        "lat_ns": {"mean": latency_s * 1e9},
    } | read
    return {"groupid": group, "read": read}


@pytest.fixture
def fio(tmp_path):
    """Return a function that writes a file of jobs, and returns its path."""

    def write(*jobs, before=""):
        path = tmp_path / "fio.json"
        path.write_text(before + json.dumps({"jobs": jobs}))
        return str(path)

    return write


def lfs_of(path):
    return devices_of_fio(DEVICES, {"lfs": path})


def test_a_file_of_fio_is_read_as_it_is():
    one, four = read_fio(str(REAL))
    assert (one.request_bytes, four.request_bytes) == (MIB, MIB)
    assert one.depth == pytest.approx(1, abs=0.01)  # by Little's law
    assert four.depth == pytest.approx(4, abs=0.02)
    assert one.bytes_per_s == 1264982013
    lfs = lfs_of(str(REAL))["lfs"]
    assert lfs["request_s"] == pytest.approx(MIB / 1413071043)
    assert lfs["latency_s"] == pytest.approx(one.latency_s - lfs["request_s"])


def test_jobs_of_a_group_ran_together_and_others_alone(fio):
    alone = job(group=0, latency_s=0.001)
    together = [job(group=1, latency_s=0.002) for _ in range(4)]
    found = lfs_of(fio(alone, *together, before="fio: a warning\n"))
    assert found["lfs"] == DEVICES["lfs"] | {
        "request_bytes": MIB,
        "request_s": pytest.approx(1 / 4000),
        "latency_s": pytest.approx(0.001 - 1 / 4000),
    }
    assert found["sources"]["lfs"]["request_s"].startswith("measured by fio (")
    assert found["sources"]["gfs"] == DEVICES["sources"]["gfs"]
    assert found["origin"].startswith("declared; LFS measured by fio (")


def test_without_a_job_that_reads_alone_the_latency_stays(fio):
    lfs = lfs_of(fio(job(mib_per_s=4000, latency_s=0.002)))["lfs"]
    assert lfs["latency_s"] == DEVICES["lfs"]["latency_s"]


def test_servers_of_the_gfs_share_the_rate(fio):
    """A read of 4 MiB is one request: 1 ms of service, 5.8 us of links, the rest."""
    alone = job(group=0, size=4 * MIB, latency_s=0.005, mib_per_s=800)
    many = job(group=1, size=4 * MIB, mib_per_s=16000, latency_s=0.1)
    gfs = devices_of_fio(DEVICES, {"gfs": fio(alone, many)})["gfs"]
    assert gfs["ost_bandwidth_bytes_per_s"] == 4000 * MIB
    link_s = 4 * MIB / DEVICES["gfs"]["link_bytes_per_s"]
    assert gfs["read_latency_s"] == pytest.approx(0.005 - 0.001 - link_s)
    assert gfs["request_bytes"] == DEVICES["gfs"]["request_bytes"]


@pytest.mark.parametrize(
    ("tier", "mib_per_s", "declared"),
    [("lfs", 7000, "6.55e+09"), ("gfs", 1.5e5, "8.8e+10")],
)
def test_more_than_the_declared_device_gives_is_said_to_be_a_cache(
    fio, tier, mib_per_s, declared
):
    found = devices_of_fio(DEVICES, {tier: fio(job(mib_per_s=mib_per_s))})
    assert f"more than the {declared}" in found["origin"]
    assert found["origin"].endswith("B/s of the declared one, as if from a cache")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got no jobs of fio"),
        ("[" * 100_000, "got no jobs of fio"),
        ("\x00\x01", "got no jobs of fio"),
        ('{"jobs": 3}', "got no jobs of fio"),
        ('{"jobs": []}', "got jobs without reads"),
        ('{"jobs": [{"read": {"total_ios": 0}, "groupid": 0}]}', "without reads"),
        ('{"jobs": [{"read": {"total_ios": "9"}, "groupid": 0}]}', "got no jobs"),
        ('{"jobs": [{"read": [], "groupid": {}}]}', "got no jobs of fio"),
        ('{"jobs": {"a": 1}}', "got no jobs of fio"),
        ("a: 1", "got no jobs of fio"),
    ],
)
def test_what_is_not_of_fio_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "fio.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as error:
        lfs_of(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"bw_bytes": float("inf")},
        {"bw_bytes": float("nan")},
        {"bw_bytes": 0},
        {"bw_bytes": -5.0},
        {"io_bytes": 10**400},
        {"io_bytes": 0},
        {"total_ios": -1},
        {"lat_ns": {"mean": "fast"}},
        {"lat_ns": {"mean": -1000.0}},
        {"lat_ns": None},
    ],
)
def test_impossible_numbers_are_refused_in_one_line(fio, change):
    with pytest.raises(ConfigError) as error:
        lfs_of(fio(job(**change)))
    assert "\n" not in str(error.value)


def test_no_file_and_a_large_one_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="got 'none', expected what `fio"):
        lfs_of("none")
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(ConfigError, match="got 68157440 bytes, expected"):
        lfs_of(str(path))
