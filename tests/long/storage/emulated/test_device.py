"""Which calls of real processes emulated devices charge, and to which device.

How long a call takes is in `test_virtual_time.py`; here calls are counted.
"""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from long.storage.emulated.test_virtual_time import Launch, launch
from tierscope.storage.emulated.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    write_device_config,
)

__all__ = ["launch"]  # a fixture

GOOD_LINE = (
    "prefix=/d\topen_s=0\tclose_s=0\tmetadata_latency_s=0\tn_object_servers=1\t"
    "request_bytes=1\trequest_s=0\tread_latency_s=0"
)
PRELUDE = """
os.chdir(folder)
def read_whole(path):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 1 << 20): pass
    os.close(fd)
clock.barrier()
library.tierscope_clock_act(rank, Role.CONSUMER)
"""


class Machine(Launch):
    """A launch of one process, which works in the folder of the tiers."""

    @property
    def config(self):
        return Path(self.environment[DEVICES_VARIABLE])

    @property
    def state(self):
        return Path(self.environment[STATE_VARIABLE])

    def count(self, code):
        """Run code whose calls are the consumer's; return what each device counts.

        `now_s` is the instant at the end.
        """
        report = f"""
counts = clock.counts({len(self.devices)})
print(json.dumps([one | {{"now_s": clock.now_s()}} for one in counts]))
"""
        (found,) = self.run(PRELUDE + textwrap.dedent(code) + report)
        return [SimpleNamespace(**one) for one in found]


@pytest.fixture
def machine(tmp_path, device_library):
    """Return a function that emulates devices; their ``/gfs`` is ``tmp_path/gfs``."""
    machines = []

    def make(*devices):
        devices = [
            replace(d, prefixes=tuple(f"{tmp_path}{p}" for p in d.prefixes))
            for d in devices
        ]
        machines.append(Machine(tmp_path, device_library, devices, 1))
        return machines[-1]

    yield make
    for one in machines:
        for child in one.children:
            child.kill()
            child.wait()


@pytest.fixture
def files(tmp_path):
    """Return a function that writes n files of a size into a folder of tmp_path."""

    def write(folder, n=1, size=1000):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        paths = [tmp_path / folder / f"f{number:04d}.bin" for number in range(n)]
        for path in paths:
            path.write_bytes(bytes(size))
        return paths

    return write


# ---- what is charged ----------------------------------------------------------


def test_writing_is_free(machine, files):
    devices = machine(Device(("/gfs",), open_s=1, close_s=1, request_s=1))
    files("gfs")
    (gfs,) = devices.count("""
        for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDWR):
            fd = os.open("gfs/f0000.bin", flags)
            os.write(fd, b"x" * 100000)
            os.close(fd)
        fd = os.open("gfs/f0000.bin", os.O_RDWR)
        assert os.read(fd, 100) == b"x" * 100
        os.close(fd)
    """)
    assert (gfs.n_opens, gfs.n_requests, gfs.now_s) == (0, 0, 0)


def test_background_writing_is_charged_like_reading(machine, files, tmp_path):
    devices = machine(Device(("/gfs",), open_s=0.001, close_s=0.001, request_bytes=400))
    files("gfs")
    (tmp_path / "gfs.bg.ep3").symlink_to("gfs")
    (gfs,) = devices.count("""
        fd = os.open("gfs.bg.ep3/new5.bin", os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(900))
        os.pwrite(fd, bytes(100), 900)
        os.close(fd)
        read_whole("gfs.bg.ep3/new5.bin")
        fd = os.open("gfs/plain.bin", os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(900))
        os.close(fd)
    """)
    assert (gfs.n_opens, gfs.n_closes) == (2, 2)
    assert gfs.n_requests == 3 + 1 + 3
    assert gfs.n_bytes == 2000
    assert gfs.now_s == pytest.approx(0.004, abs=1e-12)


@pytest.mark.parametrize(
    "folder",
    ["gfs/x.bg.ep", "gfs/x.bg.epochs", "gfs/x.bg.ep3", "gfs/x.bg.ep3/y", "gfs.ep3/x"],
)
def test_writing_below_other_names_with_the_suffix_is_no_background(
    machine, tmp_path, folder
):
    devices = machine(Device(("/gfs",), open_s=0.001, request_s=0.001))
    (tmp_path / "gfs").mkdir()
    (tmp_path / "gfs.ep3").symlink_to("gfs")
    (tmp_path / "gfs.bg.ep3").symlink_to("gfs")
    (tmp_path / folder).mkdir(parents=True)

    def n_opens(*paths):
        (gfs,) = devices.count(f"""
            for path in {paths}:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT)
                os.write(fd, bytes(900))
                os.close(fd)
        """)
        return gfs.n_opens

    assert n_opens(f"{folder}/new.bg.ep3", "gfs.bg.ep3/../gfs/new.bin") == 0
    assert n_opens(f"gfs.bg.ep3/{folder.partition('/')[2]}/other.bin") == 1


def test_reads_for_peers_are_charged_to_the_devices_of_their_directory(
    machine, files, tmp_path
):
    devices = machine(Device(("/lfs/node-1",), open_s=0.001, request_bytes=400))
    files("lfs/node-1")
    (tmp_path / "lfs.peer.ep2").symlink_to("lfs")
    (lfs,) = devices.count('read_whole("lfs.peer.ep2/node-1/f0000.bin")')
    assert (lfs.n_opens, lfs.n_bytes) == (1, 1000)


def test_failing_open_end_of_file_stat_and_directories_are_free(machine, files):
    devices = machine(Device(("/gfs",), open_s=1, close_s=1, request_s=1))
    files("gfs")
    (gfs,) = devices.count("""
        try: os.open("gfs/none", os.O_RDONLY)
        except FileNotFoundError: pass
        os.stat("gfs/f0000.bin"), os.listdir("gfs")
        os.close(os.open("gfs", os.O_RDONLY | os.O_DIRECTORY))
        os.close(os.open("gfs/f0000.bin", os.O_PATH))
    """)
    assert (gfs.n_opens, gfs.n_closes, gfs.now_s) == (0, 0, 0)


def test_zero_byte_read_is_no_request(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001))
    files("gfs", size=0)
    (gfs,) = devices.count('read_whole("gfs/f0000.bin")')
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (1, 0, 1)


def test_every_kind_of_read_is_charged(machine, files):
    devices = machine(Device(("/gfs",), request_s=1e-6))
    files("gfs")
    (gfs,) = devices.count("""
        fd = os.open("gfs/f0000.bin", os.O_RDONLY)
        buffer = bytearray(100)
        os.read(fd, 100), os.pread(fd, 100, 0)
        os.readv(fd, [buffer]), os.preadv(fd, [buffer], 0)
        out = os.open("out", os.O_WRONLY | os.O_CREAT)
        os.sendfile(out, fd, 0, 100)
        with open("gfs/f0000.bin", "rb", buffering=0) as file: file.readinto(buffer)
    """)
    assert (gfs.n_opens, gfs.n_requests, gfs.n_bytes) == (2, 6, 600)


# ---- descriptors, processes ---------------------------------------------------


def test_reused_descriptor_means_the_new_file(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001))
    files("gfs"), files("bare")
    (gfs,) = devices.count("""
        inside, outside = "gfs/f0000.bin", "bare/f0000.bin"
        fd = os.open(inside, os.O_RDONLY)
        os.close(fd)
        end, other_end = os.pipe()
        assert end == fd
        os.write(other_end, b"x"), os.read(end, 1)
        os.close(end), os.close(other_end)
        assert os.open(outside, os.O_RDONLY) == fd
        os.read(fd, 100)
        os.close(fd)
        assert os.open(inside, os.O_RDONLY) == fd
        os.closerange(fd, fd + 1)
        assert os.open(outside, os.O_WRONLY) == fd
        os.close(fd)
    """)
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (2, 0, 1)


def test_duplicate_reads_through_the_device_and_closes_for_free(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    files("gfs"), files("bare")
    (gfs,) = devices.count("""
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        high = min(hard, 1 << 20) - 1
        fd = os.open("gfs/f0000.bin", os.O_RDONLY)
        twin = os.dup(fd)                        # fcntl(F_DUPFD_CLOEXEC)
        os.dup2(fd, high)
        os.close(fd)
        for number in (twin, high):
            assert len(os.pread(number, 10, 0)) == 10
        os.dup2(os.open("bare/f0000.bin", os.O_RDONLY), twin)   # another file now
        os.read(twin, 10)
        os.close(twin), os.close(high)
    """)
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (1, 2, 1)


def test_forked_child_pays_for_nothing_and_the_parent_for_its_close(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    files("gfs")
    (gfs,) = devices.count("""
        fd = os.open("gfs/f0000.bin", os.O_RDONLY)
        if (child := os.fork()) == 0:
            os.pread(fd, 10, 0)
            os.close(fd)
            read_whole("gfs/f0000.bin")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os.pread(fd, 10, 0)
        os.close(fd)
    """)
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (1, 1, 1)


def test_starting_a_program_leaves_the_parents_files_alone(machine, files):
    # subprocess may use vfork: the child then closes in its parent's memory.
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    files("gfs")
    (gfs,) = devices.count("""
        import subprocess
        fd = os.open("gfs/f0000.bin", os.O_RDONLY)
        subprocess.run(["true"], check=True, close_fds=True)
        os.pread(fd, 10, 0)
        os.close(fd)
    """)
    assert (gfs.n_requests, gfs.n_closes) == (1, 1)


# ---- which device --------------------------------------------------------------


def test_longest_prefix_wins_and_components_are_whole(machine, files):
    devices = machine(Device(("/a",)), Device(("/a/b", "/c")), Device(("/a/b/d/e",)))
    for folder, n in [("a", 1), ("ab", 1), ("a/b", 2), ("a/b/d", 3), ("a/b/d/e", 4)]:
        files(folder, n=n)
    files("c", n=5)
    counts = devices.count("""
        for folder, _, names in os.walk("."):
            for name in names:
                if name.startswith("f"):
                    os.close(os.open(os.path.abspath(folder + "/" + name), os.O_RDONLY))
    """)
    assert [device.n_opens for device in counts] == [1, 2 + 3 + 5, 4]


def test_epoch_aliases_of_a_prefix_are_the_prefix(machine, files, tmp_path):
    devices = machine(Device(("/gfs",)), Device(("/gfs/node.ep0", "/gfs/node.ep1")))
    files("gfs"), files("gfs/node")
    for alias in ("gfs.ep0", "gfs.ep12", "gfs.epx"):
        (tmp_path / alias).symlink_to("gfs")
    counts = devices.count("""
        for folder in ("gfs.ep0", "gfs.ep12", "gfs.epx", "gfs.ep0/node"):
            os.close(os.open(os.path.abspath(folder) + "/f0000.bin", os.O_RDONLY))
    """)
    assert [device.n_opens for device in counts] == [2, 1]


def test_relative_paths_and_directory_descriptors_are_followed(machine, files):
    devices = machine(Device(("/gfs",)))
    files("gfs"), files("bare")
    (gfs,) = devices.count("""
        gfs = os.open("gfs", os.O_RDONLY | os.O_DIRECTORY)
        os.open("f0000.bin", os.O_RDONLY, dir_fd=gfs)
        os.open("./bare/..//gfs/./f0000.bin", os.O_RDONLY)
        os.open("gfs/../bare/f0000.bin", os.O_RDONLY)           # not the device's
        os.chdir("bare")
        os.open("f0000.bin", os.O_RDONLY)                       # nor this
        os.open("../gfs/f0000.bin", os.O_RDONLY)
        os.open(os.getcwd() + "/f0000.bin", os.O_RDONLY, dir_fd=gfs)
    """)
    assert gfs.n_opens == 3


def test_paths_with_spaces_and_other_letters_work(machine, files):
    devices = machine(Device(("/der große speicher = 1",)))
    files("der große speicher = 1")
    (counts,) = devices.count('read_whole("der große speicher = 1/f0000.bin")')
    assert counts.n_opens == 1


def test_thousands_of_devices_are_found(machine, files):
    devices = machine(*(Device((f"/node{n}",)) for n in range(4096)))
    files("node4095")
    counts = devices.count('read_whole("node4095/f0000.bin")')
    assert [device.n_opens for device in counts[-2:]] == [0, 1]


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("f0007.tfrecord", 2),
        ("run2-f0011.bin", 1),
        ("0012", 2),
        ("part.7.bin", 2),
        (".3", 3),
        ("plain", 2),  # hashed, as is the next one: no digits in its stem
        ("ü.x5", 3),
    ],
)
def test_last_number_in_a_name_says_which_object_server_has_the_file(
    launch, tmp_path, name, server
):
    both = launch(2, Device(("/gfs",), n_object_servers=5, request_s=0.001))
    (tmp_path / "gfs" / name).write_bytes(b"x")
    found = set()
    for number in range(5):
        both = type(both)(both.folder, both.library, both.devices, 2)
        code = f"""
            path = f"{{folder}}/gfs/" + ({name!r} if rank else "f{number}.bin")
            clock.barrier()
            library.tierscope_clock_act(rank, Role.CONSUMER)
            descriptor = os.open(path, os.O_RDONLY)
            os.pread(descriptor, 1, 0)
            print(json.dumps(clock.now_s()))
            library.tierscope_clock_act(-1, 0)
            clock.barrier()
        """
        if both.run(code)[1] > 0.0015:  # it waited for the numbered file's read
            found.add(number)
    assert found == {server}


# ---- configuration ---------------------------------------------------------------


def run_plainly(devices):
    """Run a process that knows nothing of virtual time."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", "print(open('gfs/f0000.bin').read(1))"],
        env=devices.environment,
        cwd=devices.folder,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_without_environment_the_library_does_nothing(machine, files):
    devices = machine(Device(("/gfs",), open_s=1))
    files("gfs")
    del devices.environment[DEVICES_VARIABLE], devices.environment[STATE_VARIABLE]
    assert run_plainly(devices).stdout == "\0\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD_LINE + "\tspeed=3", "2: unknown key 'speed'"),
        (
            GOOD_LINE + "\tbandwidth_bytes_per_s=",
            "'bandwidth_bytes_per_s=' has no value",
        ),
        (GOOD_LINE + "\tlink", "'link' has no value, expected key=value"),
        (
            GOOD_LINE + "\tlink_bytes_per_s=0",
            "is '0', expected a number from 1 to 1e+18",
        ),
        (GOOD_LINE + "\tlink_bytes_per_s=nan", "link_bytes_per_s is 'nan', expected a"),
        (GOOD_LINE + "\tlink_bytes_per_s=3x", "link_bytes_per_s is '3x', expected a"),
        (GOOD_LINE + "\topen_s=1", "open_s is given twice"),
        (GOOD_LINE + "\tprefix=relative", "prefix is 'relative', expected an absolute"),
        (GOOD_LINE + "\tprefix=/e/", "prefix is '/e/', expected an absolute path"),
        (GOOD_LINE + "\tprefix=/first", "prefix '/first' is given twice"),
        ("prefix=/e\topen_s=1", "2: close_s is missing"),
        (GOOD_LINE.replace("prefix=/d\t", ""), "prefix is missing"),
        (GOOD_LINE.replace("open_s=0", "open_s=-1"), "open_s is '-1', expected"),
        (GOOD_LINE.replace("servers=1", "servers=1.5"), "65536, whole"),
        ("", "2: '' has no value"),
    ],
)
def test_bad_line_ends_the_process_with_a_message(machine, line, message):
    devices = machine(Device(("/first",)))
    first = GOOD_LINE.replace("/d", "/first")
    devices.config.write_text(f"{first}\n{line}\n")
    result = run_plainly(devices)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{devices.config}:2: " in result.stderr
    assert message in result.stderr


def remove_config(devices):
    devices.config.unlink()


def forget_state_variable(devices):
    del devices.environment[STATE_VARIABLE]


def remove_state(devices):
    devices.state.unlink()


def shorten_state(devices):
    os.truncate(devices.state, 40)


def cut_the_end_of_the_state(devices):
    os.truncate(devices.state, devices.state.stat().st_size - 8)


def take_another_state(devices):
    content = devices.state.read_bytes()
    devices.state.write_bytes(b"tierdev1" + content[8:])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (remove_config, "devices.tsv: cannot be read: No such file"),
        (forget_state_variable, "TIERSCOPE_DEVICE_STATE is not set, expected both"),
        (remove_state, "state: state cannot be opened: No such file"),
        (shorten_state, "state has 40 bytes, expected at least"),
        (cut_the_end_of_the_state, "state: not a state of 2 devices"),
        (take_another_state, "state: not a state of 2 devices"),
    ],
)
def test_process_does_not_run_without_its_devices(machine, spoil, message):
    devices = machine(Device(("/a",), n_object_servers=2), Device(("/b",)))
    spoil(devices)
    result = run_plainly(devices)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_state_of_other_devices_is_refused(machine):
    devices = machine(Device(("/a",), n_object_servers=2), Device(("/b",)))
    other = machine(Device(("/a",)), Device(("/b",), n_object_servers=40))
    devices.environment[STATE_VARIABLE] = str(other.state)
    result = run_plainly(devices)
    assert (result.returncode, result.stdout) == (2, "")
    assert "state: not a state of 2 devices" in result.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prefixes": ()}, r"prefixes are \(\), expected a tuple of one or more"),
        ({"prefixes": "/gfs"}, "prefixes are '/gfs', expected a tuple"),
        ({"prefixes": ("gfs",)}, "prefix is 'gfs', expected an absolute"),
        ({"prefixes": ("/",)}, "prefix is '/', expected an absolute"),
        ({"prefixes": ("/a/../b",)}, "prefix is '/a/../b', expected an absolute"),
        ({"prefixes": ("/a\tb",)}, r"contains \['\\t'\], expected a path without"),
        ({"prefixes": ("/a\nb",)}, r"contains \['\\n'\], expected a path without"),
        ({"open_s": -1}, "open_s is -1, expected a number from 0 to 3600"),
        ({"open_s": float("nan")}, "open_s is nan, expected a number"),
        ({"open_s": "1"}, "open_s is '1', expected a number"),
        ({"open_s": None}, "open_s is None, expected a number"),
        ({"n_object_servers": 0}, "n_object_servers is 0, expected an integer from 1"),
        ({"n_object_servers": 1.5}, "n_object_servers is 1.5, expected an integer"),
        ({"bandwidth_bytes_per_s": 0}, "bandwidth_bytes_per_s is 0, expected a number"),
    ],
)
def test_impossible_device_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Device(**({"prefixes": ("/gfs",)} | values))


def test_directory_of_two_devices_is_refused(tmp_path):
    devices = [Device(("/a",)), Device(("/b", "/a.ep3"))]
    with pytest.raises(
        ValueError, match="'/a' belongs to devices 0 and 1, expected one"
    ):
        write_device_config(devices, tmp_path / "devices.tsv")
    with pytest.raises(ValueError, match="empty, expected one or more"):
        write_device_config([], tmp_path / "none.tsv")
