"""What watches the tiers of a launch."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from descriptions import describe_scenario
from tierscope.benchmark.observations import watch
from tierscope.benchmark.observations.watch import Unwatched, Watch


class OfCache:
    """A page cache that returns which paths it was told of."""

    def __init__(self, description, processes, roots):
        self.roots, self.seen = roots, []

    def begin_epoch(self, paths):
        self.seen.append(paths)

    def end_epoch(self, paths):
        return {"paths": [*self.seen, paths]}

    def describe(self):
        return {"tiers": sorted(self.roots)}


class OfSentinel:
    """A sentinel that takes one second longer each time."""

    def __init__(self, processes, gfs_paths, cold):
        self.paths, self.time_s = gfs_paths, 0.0

    def place(self, folder, dataset):
        self.folder = folder

    def measure(self):
        self.time_s += 1.0
        return {"gfs": self.time_s}


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(watch, "PageCache", OfCache)
    monkeypatch.setattr(watch, "Sentinel", OfSentinel)
    run = describe_scenario()
    return lambda *hosts: Watch(run, SimpleNamespace(hosts=hosts), lambda: ["a"])


def test_nothing_is_looked_at_on_emulated_devices():
    nothing = Unwatched()
    nothing.begin_point(Path("node"))
    nothing.begin_epoch(pytest.fail)  # the list of paths would take its time
    assert nothing.end_epoch(pytest.fail) == {}
    assert nothing.end_point() == {"page_cache": None, "sentinel": None}


def test_page_cache_hears_of_what_is_read_before_and_after(make):
    watched, paths = make("a", "b"), iter(["before", "after"])
    watched.begin_epoch(lambda: next(paths))
    assert watched.end_epoch(lambda: next(paths)) == {"paths": ["before", "after"]}


@pytest.mark.parametrize(
    ("hosts", "sentinel"),
    [
        (["a", "a"], {"before_s": {"gfs": 1.0}, "after_s": {"gfs": 2.0}}),
        (["a", "b"], None),
    ],
)
def test_sentinel_reads_where_all_processes_are_on_one_machine(make, hosts, sentinel):
    watched = make(*hosts)
    watched.begin_point(Path("node"))
    seen = watched.end_point()
    assert seen == {"page_cache": {"tiers": ["gfs", "lfs"]}, "sentinel": sentinel}
