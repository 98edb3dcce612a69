import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import tierscope.data.tfrecord
import tierscope.storage.parallel.lustre
import yaml
from generate_dataset import generate
from lustre.standin import lustre_environment
from sample_ids import read_sample_ids
from tierscope.core.machine import Tier, TierError
from tierscope.core.scenario import Dataset
from tierscope.core.tables import check_table
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.data.tfrecord import DatasetError, generate_dataset
from tierscope.experiment.system import read_system
from tierscope.storage.parallel.lustre import Layout, StripedFolder

DATASET = Dataset("tiny", n_files=32, file_size_bytes=64, batch_size=1)
NAMES = [DATASET.file_name(i) for i in range(DATASET.n_files)]
RESOURCES = Path(__file__).parents[4] / "resources"
TIER = Tier("gfs", "lustre", "$LUSTRE", n_osts=4, pools={2: [2, 0]})


@pytest.fixture
def lustre(tmp_path, monkeypatch):
    """Return a function that makes a folder a (stand-in) Lustre file system."""

    def mount(**settings):
        variables = lustre_environment(tmp_path, **settings)
        for name, value in (variables | {"LUSTRE": str(tmp_path)}).items():
            monkeypatch.setenv(name, value)
        return tmp_path

    mount()
    return mount


def make(n_osts, tier=TIER, dataset=DATASET):
    """Generate the dataset and return its folder and manifest."""
    manifest = generate(dataset, tier, n_osts, None, n_workers=1)
    return tier.data_root() / dataset.directory(n_osts), manifest


def osts_of(folder):
    """Return what lfs says of the OST of each file."""
    command = ["lfs", "getstripe", *sorted(map(str, folder.glob("*.tfrecord")))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line.split()[1]) for line in text.splitlines() if "_offset" in line]


def test_files_of_one_ost_lie_on_the_first(lustre):
    folder, manifest = make(1)
    assert osts_of(folder) == list(manifest["ost"]) == [0] * 32


@pytest.mark.parametrize("pools", [{1: [3]}, {"1": [3]}])
def test_list_says_which_ost_is_the_one(lustre, pools):
    folder, manifest = make(1, replace(TIER, pools=pools))
    assert osts_of(folder) == list(manifest["ost"]) == [3] * 32


@pytest.mark.parametrize("osts", [[2, 0], [3, 1, 2, 0]])
def test_list_puts_files_on_its_osts_in_turn(lustre, osts):
    folder, manifest = make(len(osts), replace(TIER, pools={len(osts): osts}))
    assert osts_of(folder) == list(manifest["ost"]) == osts * (32 // len(osts))
    assert sorted(os.listdir(folder)) == NAMES
    assert read_sample_ids(folder / name for name in NAMES) == list(range(32))
    check_table(manifest, "manifest")


def test_all_osts_are_lustres_choice(lustre):
    folder, manifest = make(4)
    assert osts_of(folder) == list(manifest["ost"])
    assert set(manifest["ost"]) == {0, 1, 2, 3}


def test_pool_is_lustres_choice_among_its_osts(lustre):
    folder, manifest = make(2, replace(TIER, pools={"2": "pair"}))
    assert osts_of(folder) == list(manifest["ost"])
    assert set(manifest["ost"]) == {1, 3}


def test_osts_outside_the_sample_are_not_known(lustre, monkeypatch):
    monkeypatch.setattr(tierscope.storage.parallel.lustre, "SAMPLE_SIZE", 16)
    folder, manifest = make(4)
    assert list(manifest["ost"]).count(-1) == 16
    pairs = zip(manifest["ost"], osts_of(folder), strict=True)
    assert all(known in (-1, real) for known, real in pairs)


def test_list_is_known_of_every_file(lustre, monkeypatch):
    monkeypatch.setattr(tierscope.storage.parallel.lustre, "SAMPLE_SIZE", 16)
    assert list(make(2)[1]["ost"]) == [2, 0] * 16


def test_count_without_pool_or_list_is_refused(lustre):
    with pytest.raises(TierError, match=r"3 OSTs need an OST pool or a list.*\[2, 0\]"):
        make(3)


@pytest.mark.parametrize("n_osts", [1, 2, 4])
def test_generation_goes_on_where_it_stopped(lustre, n_osts):
    folder, _ = make(n_osts)
    for name in NAMES[8:]:
        (folder / name).unlink()
    before = {name: os.stat(folder / name).st_ino for name in NAMES[:8]}
    for ost in (1, 2):
        (folder / f".ost-{ost}").mkdir()
        (folder / f".ost-{ost}" / f".writing-1-{NAMES[9]}").write_text("half")
    _, manifest = make(n_osts)
    assert osts_of(folder) == list(manifest["ost"])
    assert sorted(os.listdir(folder)) == NAMES
    assert before == {name: os.stat(folder / name).st_ino for name in NAMES[:8]}


def test_failed_generation_leaves_whole_files_only(lustre, monkeypatch):
    def full(descriptor, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tierscope.data.tfrecord.os, "write", full)
    with pytest.raises(DatasetError, match="No space left"):
        make(2)
    assert os.listdir(TIER.data_root() / DATASET.directory(2)) == []


def test_foreign_file_among_the_temporaries_is_kept_and_named(lustre):
    folder, _ = make(2)
    (folder / ".ost-2").mkdir()
    (folder / ".ost-2" / "precious").write_text("mine")
    with pytest.raises(TierError, match=r"\.ost-2: cannot remove it: Directory not em"):
        make(2)
    assert (folder / ".ost-2" / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ([2, 0], [0, 2], "reports stripe count 1, OST 2, no pool; expected .* OST 0"),
        ([2, 0], "pair", "OST 2, no pool; expected .* OST 2, pool pair"),
        ("pair", [1, 3], "OST [13], pool pair; expected .* no pool"),
        ("pair", "impair", "pool pair; expected .* pool impair"),
    ],
)
def test_files_with_another_layout_are_refused(lustre, old, new, words):
    lustre(pools={"pair": [1, 3], "impair": [0, 2]})
    folder, _ = make(2, replace(TIER, pools={2: old}))
    (folder / NAMES[5]).unlink()
    with pytest.raises(TierError, match=f"{words}.*remove its folder"):
        make(2, replace(TIER, pools={2: new}))
    assert not (folder / NAMES[5]).exists()


def test_folder_whose_default_was_lost_is_refused(lustre):
    folder, _ = make(1, replace(TIER, pools={1: [3]}))
    os.removexattr(folder, "system.posix_acl_default")
    with pytest.raises(TierError, match=r"1ost: .*any OST, no pool; expected .* OST 3"):
        make(1, replace(TIER, pools={1: [3]}))


def test_files_striped_over_several_osts_are_refused(lustre):
    folder = TIER.data_root() / DATASET.directory(4)
    folder.mkdir(parents=True)
    subprocess.run(["lfs", "setstripe", "-c", "2", "-i", "-1", folder], check=True)
    generate_dataset(folder, NAMES, 64, n_workers=1)
    with pytest.raises(
        TierError, match=r"reports stripe count 2.*expected stripe count 1"
    ):
        make(4)


def test_pool_of_more_osts_than_said_is_refused(lustre):
    lustre(pools={"pair": [0, 1, 3]})
    with pytest.raises(TierError, match="32 files lies on 3 OSTs, expected 2 to 2"):
        make(2, replace(TIER, pools={2: "pair"}))


def test_pool_of_far_fewer_osts_than_said_is_refused(lustre):
    lustre(n_osts=60, pools={"pair": [1, 3]})
    with pytest.raises(TierError, match="32 files lies on 2 OSTs, expected 12 to 60"):
        make(60, replace(TIER, n_osts=60, pools={60: "pair"}))


def test_few_files_may_lie_on_one_ost_by_chance(lustre):
    lustre(pools={"pair": [1]})
    make(2, replace(TIER, pools={2: "pair"}), replace(DATASET, n_files=15))


@pytest.mark.parametrize(
    ("settings", "n_osts", "words"),
    [
        (
            {"mount": "/nowhere"},
            1,
            r"lfs setstripe -c 1 -i 0 \S+1ost: exit code 19: .*'\S+1ost' not on a "
            r"mounted Lustre filesystem.*No such device",
        ),
        (
            {"mount": "/nowhere", "dialect": "ioctl"},
            4,
            r"lfs setstripe -c 1 -i -1 \S+: exit code 25: error on ioctl 0x4008669a "
            r"for '\S+' \(3\): Inappropriate ioctl for device error: setstripe: create",
        ),
        ({"n_osts": 2}, 2, r"-i 2 \S+.ost-2: exit code 19: .*OST0002_UUID in system"),
        (
            {"pools": {}},
            3,
            r"-p trio \S+: exit code 22: .*'lustre.trio' does not exist",
        ),
        ({"fault": "permission"}, 2, r"exit code 13: .*ost-2': Permission denied"),
        ({"fault": "space"}, 1, r"exit code 28: .*No space left on device"),
        ({"fault": "ignored"}, 1, r"reports .*any OST, no pool; expected .*OST 0"),
        ({"fault": "hang"}, 1, r"setstripe \S+ \S+ \S+ \S+ \S+: no answer for 0.5 s"),
    ],
)
def test_failing_lfs_is_quoted_and_nothing_is_written(
    lustre, monkeypatch, settings, n_osts, words
):
    if settings.get("fault") == "hang":
        monkeypatch.setattr(tierscope.storage.parallel.lustre, "TIMEOUT_S", 0.5)
    lustre(**settings)
    with pytest.raises(TierError, match=words) as error:
        make(n_osts, replace(TIER, pools={2: [2, 0], 3: "trio"}))
    assert "\n" not in str(error.value)
    assert os.listdir(TIER.data_root() / DATASET.directory(n_osts)) == []


def test_missing_lfs_command_is_named(lustre, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        TierError, match="command lfs not found; kind lustre needs the Lustre"
    ):
        make(1)


def read_pools(folder, pools):
    """Return the pools of a system file that is fine otherwise."""
    system = read_yaml(RESOURCES / "systems" / "laptop.yaml")
    system["gfs"] |= {"kind": "lustre", "n_osts": 60, "pools": pools}
    (folder / "lustre.yaml").write_text(yaml.safe_dump(system))
    return read_system("lustre", folder).gfs.pools


def test_pools_are_names_and_lists(tmp_path):
    pools = {1: [59], 8: "eight", "2": [63, 0], 60: "all"}
    assert read_pools(tmp_path, pools) == pools


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        (
            {2: [0, 0]},
            r"gfs.pools.2: got \[0, 0\], expected a name .* or list",
        ),
        ({2: [0, -1]}, r"gfs.pools.2: got \[0, -1\], expected .* from 0 to"),
        ({2: [0, "1"]}, r"gfs.pools.2: got \[0, '1'\], expected .* each integer"),
        ({2: []}, r"gfs.pools.2: got \[\], expected .* at least 1 items"),
        ({2: "-p x"}, r"gfs.pools.2: got '-p x', expected a name of letters"),
        ({2: [0, 1, 2]}, r"gfs.pools.2: got \[0, 1, 2\], expected 2 OST indices"),
    ],
)
def test_wrong_pools_are_refused(tmp_path, pools, words):
    with pytest.raises(ConfigError, match=words):
        read_pools(tmp_path, pools)


# Printed by real clients; found in public notes and documentation.
EXPANSE_FILE = """\
{path}
lmm_stripe_count:  1
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 5
\tobdidx\t\t objid\t\t objid\t\t group
\t     5\t      19156534\t    0x1244e36\t   0x800000400

"""
JANUS_FILE = """\
{path}
lmm_stripe_count:   3
lmm_stripe_size:    33554432
lmm_stripe_offset:  18
\tobdidx\t\t objid\t\tobjid\t\t group
\t    18\t      12787913\t     0xc320c9\t             0
"""
EXPANSE_FOLDER = (
    "stripe_count:  1 stripe_size:   1048576 pattern:       0 stripe_offset: -1\n"
)
JANUS_FOLDER = "/d\nstripe_count:   3 stripe_size:    33554432 stripe_offset:  -1 \n"
COMPOSITE_FILE = """\
{path}
  lcm_layout_gen:    2
  lcm_mirror_count:  1
  lcm_entry_count:   2
    lcme_id:             1
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
      lmm_stripe_count:  1
      lmm_stripe_offset: 0
    lcme_id:             2
      lmm_stripe_count:  4
      lmm_stripe_offset: -1
"""


def test_blocks_of_real_clients_are_read(monkeypatch):
    paths = [Path("/d/a"), Path("/d/b")]
    text = EXPANSE_FILE.format(path="/d/a") + JANUS_FILE.format(path="/d/b")
    monkeypatch.setattr(
        tierscope.storage.parallel.lustre, "_lfs", lambda *_, paths: text
    )
    assert tierscope.storage.parallel.lustre._read_layouts(paths) == [
        Layout(1, 5),
        Layout(3, 18),
    ]


@pytest.mark.parametrize(
    ("text", "layout"), [(EXPANSE_FOLDER, Layout(1, -1)), (JANUS_FOLDER, Layout(3, -1))]
)
def test_lines_of_real_clients_are_read(text, layout):
    assert tierscope.storage.parallel.lustre._parse_layout(text, Path("/d")) == layout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (COMPOSITE_FILE.format(path="/d/a"), "lcm_layout_gen: 2"),
        ("/d/a has no stripe info\n", "has no stripe info"),
        ("", "''"),
    ],
)
def test_anything_but_a_plain_layout_is_refused(text, words):
    with pytest.raises(TierError, match=rf"/d/a: lfs getstripe reports .*{words}"):
        tierscope.storage.parallel.lustre._parse_layout(text, Path("/d/a"))


def test_sample_takes_one_command(lustre, monkeypatch):
    calls = []
    real = tierscope.storage.parallel.lustre._lfs
    monkeypatch.setattr(
        tierscope.storage.parallel.lustre,
        "_lfs",
        lambda *words, paths: (
            calls.append((*words, len(paths))) or real(*words, paths=paths)
        ),
    )
    make(4)
    assert calls == [
        ("setstripe", "-c", "1", "-i", "-1", 1),
        ("getstripe", "-d", 1),
        ("getstripe", 32),
    ]


def test_paths_of_one_command_are_counted_in_its_error(lustre, tmp_path):
    folder, _ = make(4)
    lustre(mount="/nowhere")
    with pytest.raises(TierError, match=r"getstripe \S+ \(and 31 more\): exit code 25"):
        StripedFolder(folder, TIER, 4).find_osts(NAMES)


@pytest.mark.parametrize(("n_osts", "count", "ost"), [(1, 1, 0), (4, 4, -1)])
def test_database_is_striped_over_as_many_osts(lustre, monkeypatch, n_osts, count, ost):
    set_layouts = []
    monkeypatch.setattr(
        tierscope.storage.parallel.lustre,
        "_set_layout",
        lambda folder, layout: set_layouts.append(layout),
    )
    StripedFolder(TIER.data_root(), TIER, n_osts).stripe_files()
    assert set_layouts == [Layout(count, ost)]
    with pytest.raises(TierError, match=r"over the OSTs \[2, 0\] needs an OST pool"):
        StripedFolder(TIER.data_root(), TIER, 2).stripe_files()
