"""Which loader reads files."""

from types import SimpleNamespace

import pytest
from tierscope.benchmark.sources import files
from tierscope.core.description import LoaderSettings
from tierscope.core.scenario import Dataset, Scenario
from tierscope.storage.clock import RealClock


@pytest.mark.parametrize("is_virtual", [False, True])
def test_loader_knows_whether_the_launch_runs_in_virtual_time(monkeypatch, is_virtual):
    asked = {}

    def make_loader(name, **settings):
        asked.update(settings, name=name)
        return SimpleNamespace(epoch=lambda paths: iter([(len(paths), 1)]))

    monkeypatch.setattr(files, "make_loader", make_loader)
    description = SimpleNamespace(
        scenario=Scenario("small", 1, "pinning", "tensorflow"),
        dataset=Dataset("small", 8, 100, 4),
        loader=LoaderSettings(1, 2, 256),
        reads_by_workers=False,
    )
    site = SimpleNamespace(
        description=description,
        is_virtual=is_virtual,
        real_clock=RealClock(lambda: None),
        clock=object(),
    )
    files.FileSource(site).start()
    assert (asked["clock"] is not None) is is_virtual
    assert asked["name"] == "tensorflow"
