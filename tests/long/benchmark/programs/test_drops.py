"""Pages of a file leave the page cache with its last close on the node."""

import os

import pytest
from tierscope.benchmark.programs.table import CLOSED
from tierscope.storage.page_cache import drop_pages, residency

FILE, ON_GFS = "train/2.png", "train/1.png"
READ = "def read(name): return open(f'{data}/{name}', 'rb').read()\n"


@pytest.fixture
def make(make_node):
    """Return a function that makes a node, if pages can be dropped here."""

    def made(*tiers):
        node = make_node(wants_closes=True, drops=tiers)
        path = str(node.folder / "lfs" / FILE)
        os.sync()
        drop_pages((path,))
        if residency((path,)).percent:
            pytest.skip("the file system of temporary files keeps their pages")
        return node

    return made


def resident(node, tier, name):
    """Return whether pages of a file are resident; `name` is below its tier."""
    return residency((str(node.folder / tier / name),)).resident > 0


def test_files_of_a_tier_are_dropped_and_others_stay(make):
    node = make("lfs")
    node.run(f"{READ}read({FILE!r}); read({ON_GFS!r})")
    assert not resident(node, "lfs", FILE)
    assert resident(node, "set", ON_GFS)
    node.table.drop_from_now_on("gfs")
    node.run(f"{READ}read({ON_GFS!r})")
    assert not resident(node, "set", ON_GFS)


@pytest.mark.parametrize(
    "holds",
    [
        "held = open(f'{data}/{name}', 'rb')",
        "held = os.dup(os.open(f'{data}/{name}', 0))",
    ],
)
def test_file_that_is_still_open_stays(make, holds):
    node = make("lfs", "gfs")
    code = f"name = {FILE!r}\n{READ}{holds}\nread(name)\nos.kill(os.getpid(), 9)"
    node.execute(node.command(code), check=False)
    assert resident(node, "lfs", FILE)
    node.table.release(node.table.names.index(FILE))  # as the keeper does
    node.run(f"{READ}read({FILE!r})")
    assert not resident(node, "lfs", FILE)


def test_child_that_closes_what_it_has_inherited_ends_no_read(make):
    node = make("lfs", "gfs")
    node.run(
        f"fd = os.open(f'{{data}}/{FILE}', 0)\nos.read(fd, 9)\n"
        "if os.fork() == 0: os.close(fd); os._exit(0)\n"
        "os.wait()\nassert os.fstat(fd)"
    )
    assert node.events(CLOSED) == []
