"""How a source of files begins, and how it fills the LFS."""

from types import SimpleNamespace

import pytest
from tierscope.benchmark.sources import files
from tierscope.core.description import LoaderSettings
from tierscope.core.scenario import Dataset, Scenario
from tierscope.storage.clock import RealClock


def started(monkeypatch, *, reads_in_epochs_only):
    """Return what the loader was asked, and how many files it has read, at a start."""
    asked, read = {}, []

    def make_loader(name, **settings):
        asked.update(settings, name=name)
        return SimpleNamespace(
            epoch=lambda paths: iter(read.append(len(paths)) or [(len(paths), 1)]),
            reads_in_epochs_only=reads_in_epochs_only,
        )

    monkeypatch.setattr(files, "make_loader", make_loader)
    description = SimpleNamespace(
        scenario=Scenario("small", 1, "pinning", "tensorflow"),
        dataset=Dataset("small", 8, 100, 4),
        loader=LoaderSettings(1, 2, 256),
    )
    site = SimpleNamespace(
        description=description,
        real_clock=RealClock(lambda: None),
        devices=SimpleNamespace(clock="the clock of the launch"),
    )
    files.FileSource(site).start()
    return asked, read


@pytest.mark.parametrize(("in_epochs_only", "n_read"), [(False, [5]), (True, [])])
def test_loader_has_the_clock_and_reads_outside_of_epochs_if_it_can(
    monkeypatch, in_epochs_only, n_read
):
    asked, read = started(monkeypatch, reads_in_epochs_only=in_epochs_only)
    assert (asked["name"], asked["clock"]) == ("tensorflow", "the clock of the launch")
    assert read == n_read
