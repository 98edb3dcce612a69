"""Real processes on emulated devices.

Times have lower bounds only, which follow from the model whatever the machine does;
what the devices count is compared exactly.
"""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from tierscope.tiers.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    DeviceStatistics,
    create_state,
    lateness_share,
    object_server_of,
    read_statistics,
    reset_statistics,
    write_device_config,
)

GOOD_LINE = (
    "prefix=/d\topen_s=0\tclose_s=0\tmetadata_latency_s=0\tn_object_servers=1\t"
    "request_bytes=1\trequest_s=0\tread_latency_s=0"
)
PRELUDE = """
import os, sys, threading, time
def read_whole(path):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 1 << 20): pass
    os.close(fd)
"""


class Machine:
    """Runs Python children whose calls pass the emulated devices."""

    def __init__(self, folder, library, devices):
        self.folder = folder
        self.config, self.state = folder / "devices.tsv", folder / "state"
        self.environment = dict(
            os.environ,
            LD_PRELOAD=str(library),
            **{DEVICES_VARIABLE: str(self.config), STATE_VARIABLE: str(self.state)},
        )
        if devices:
            write_device_config(devices, self.config)
            create_state(self.state, devices)

    def start(self, code, *arguments):
        """Start a child in the folder; its arguments are `sys.argv[1:]`."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PRELUDE + textwrap.dedent(code)]
            + [str(argument) for argument in arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code, *arguments):
        """Run a child to its end and return what it printed."""
        return finish(self.start(code, *arguments))

    @property
    def statistics(self):
        return read_statistics(self.state)


def finish(process):
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    return output.strip()


@pytest.fixture
def machine(tmp_path, device_library):
    """Return a function that emulates devices; their ``/gfs`` is ``tmp_path/gfs``."""

    def make(*devices):
        devices = [
            replace(d, prefixes=tuple(f"{tmp_path}{p}" for p in d.prefixes))
            for d in devices
        ]
        return Machine(tmp_path, device_library, devices)

    return make


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


# ---- time and its sums -------------------------------------------------------


def test_opens_of_two_processes_wait_in_one_queue(machine, files):
    devices = machine(Device(("/gfs",), open_s=0.005))
    (path,) = files("gfs")
    code = """
        start = time.monotonic()
        for _ in range(20): os.close(os.open(sys.argv[1], os.O_RDONLY))
        print(start, time.monotonic())
    """
    children = [devices.start(code, path) for _ in range(2)]
    times = [[float(t) for t in finish(child).split()] for child in children]
    # 40 opens of 5 ms, and the queue starts with the first call at the earliest.
    assert max(t[1] for t in times) - min(t[0] for t in times) >= 0.2
    (gfs,) = devices.statistics
    assert gfs.n_opens == 40
    assert gfs.n_closes == 40
    assert gfs.n_waits == 40  # closes without service do not wait
    assert gfs.metadata_busy_s == pytest.approx(0.2, abs=1e-12)


def test_latency_is_waited_for_by_each_caller_and_by_no_other(machine, files):
    devices = machine(Device(("/gfs",), open_s=0.001, metadata_latency_s=0.05))
    (path,) = files("gfs")
    devices.run(
        """
        threads = [threading.Thread(target=os.open, args=(sys.argv[1], os.O_RDONLY))
                   for _ in range(4)]
        start = time.monotonic()
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert time.monotonic() - start >= 0.054
        """,
        path,
    )
    (gfs,) = devices.statistics
    assert gfs.metadata_busy_s == pytest.approx(0.004, abs=1e-12)
    longest_s = 0.051 + 0.052 + 0.053 + 0.054  # all come at once
    assert 4 * 0.051 - 1e-9 <= gfs.wait_s <= longest_s + 1e-9


def test_busy_time_is_the_sum_of_services(machine, files):
    # Requests of 400, 400 and 200 bytes: 3 x 1 ms + 1000 bytes at 1 MB/s = 4 ms.
    device = Device(
        ("/gfs",),
        open_s=0.002,
        close_s=0.001,
        n_object_servers=2,
        request_bytes=400,
        request_s=0.001,
        bandwidth_bytes_per_s=1e6,
        link_bytes_per_s=2e6,
    )
    devices = machine(device)
    paths = files("gfs", n=5)
    children = [
        devices.start("for path in sys.argv[1:]: read_whole(path)", *paths)
        for _ in range(2)
    ]
    for child in children:
        finish(child)
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_closes) == (10, 10)
    assert (gfs.n_requests, gfs.n_bytes) == (30, 10_000)
    assert gfs.metadata_busy_s == pytest.approx(0.030, abs=1e-12)
    # Files 0, 2 and 4 are on server 0, files 1 and 3 on server 1.
    assert gfs.object_server_busy_s == pytest.approx((0.024, 0.016), abs=1e-12)
    assert gfs.link_busy_s == pytest.approx(10_000 / 2e6, abs=1e-12)
    assert gfs.wait_s >= 0.030 + 0.040 + 0.005


def test_requests_of_one_read_follow_one_another(machine, files):
    devices = machine(Device(("/lfs",), request_bytes=100, read_latency_s=0.01))
    (path,) = files("lfs")
    devices.run(
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        start = time.monotonic()
        assert len(os.pread(fd, 5000, 0)) == 1000
        assert time.monotonic() - start >= 0.1
        """,
        path,
    )
    (lfs,) = devices.statistics
    assert (lfs.n_requests, lfs.n_waits) == (10, 10)
    assert lfs.wait_s == pytest.approx(0.1, abs=1e-9)


def test_object_servers_work_at_the_same_time(machine, files):
    device = Device(("/gfs",), n_object_servers=4, request_s=0.05)
    devices = machine(device)
    children = [
        devices.start("read_whole(sys.argv[1])", path) for path in files("gfs", n=4)
    ]
    for child in children:
        finish(child)
    (gfs,) = devices.statistics
    assert gfs.object_server_busy_s == pytest.approx((0.05,) * 4, abs=1e-12)
    assert gfs.wait_s == pytest.approx(0.2, abs=1e-9)  # nobody queued


def test_lateness_is_counted_and_statistics_can_be_reset(machine, files):
    devices = machine(Device(("/gfs",), open_s=0.002))
    (path,) = files("gfs")
    devices.run("for _ in range(5): read_whole(sys.argv[1])", path)
    (gfs,) = devices.statistics
    assert 0 < gfs.mean_lateness_s <= gfs.max_lateness_s <= gfs.lateness_s
    assert gfs.lateness_share == pytest.approx(gfs.lateness_s / 0.01, rel=1e-6)
    reset_statistics(devices.state)
    assert devices.statistics == [
        DeviceStatistics(0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,))
    ]
    devices.run("read_whole(sys.argv[1])", path)
    assert devices.statistics[0].n_opens == 1


# ---- what is charged ----------------------------------------------------------


def test_writing_is_free(machine, files):
    devices = machine(Device(("/gfs",), open_s=1, close_s=1, request_s=1))
    (path,) = files("gfs")
    devices.run(
        """
        for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDWR):
            fd = os.open(sys.argv[1], flags)
            os.write(fd, b"x" * 100000)
            os.close(fd)
        fd = os.open(sys.argv[1], os.O_RDWR)
        assert os.read(fd, 100) == b"x" * 100
        os.close(fd)
        """,
        path,
    )
    assert devices.statistics[0].n_waits == 0
    assert devices.statistics[0].n_opens == 0


def test_background_writing_is_charged_like_reading(machine, files, tmp_path):
    devices = machine(Device(("/gfs",), open_s=0.001, close_s=0.001, request_bytes=400))
    files("gfs")
    (tmp_path / "gfs.bg.ep3").symlink_to("gfs")
    devices.run("""
        start = time.monotonic()
        fd = os.open("gfs.bg.ep3/new5.bin", os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(900))
        os.pwrite(fd, bytes(100), 900)
        os.close(fd)
        assert time.monotonic() - start >= 0.002
        read_whole("gfs.bg.ep3/new5.bin")
        fd = os.open("gfs/plain.bin", os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(900))
        os.close(fd)
    """)
    (statistics,) = devices.statistics
    assert (statistics.n_opens, statistics.n_closes) == (2, 2)
    assert statistics.n_requests == 3 + 1 + 3
    assert statistics.n_bytes == 2000


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
    write = """
        fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(900))
        os.close(fd)
    """
    devices.run(write, f"{folder}/new.bg.ep3")
    devices.run(write, "gfs.bg.ep3/../gfs/new.bin")
    assert devices.statistics[0].n_opens == 0
    devices.run(write, f"gfs.bg.ep3/{folder.partition('/')[2]}/other.bin")
    assert devices.statistics[0].n_opens == 1


def test_reads_for_peers_are_charged_to_the_devices_of_their_directory(
    machine, files, tmp_path
):
    devices = machine(Device(("/lfs/node-1",), open_s=0.001, request_bytes=400))
    files("lfs/node-1")
    (tmp_path / "lfs.peer.ep2").symlink_to("lfs")
    name = sorted(path.name for path in (tmp_path / "lfs/node-1").iterdir())[0]
    n_bytes = (tmp_path / "lfs/node-1" / name).stat().st_size
    devices.run(f'read_whole("lfs.peer.ep2/node-1/{name}")')
    (statistics,) = devices.statistics
    assert (statistics.n_opens, statistics.n_bytes) == (1, n_bytes)


def test_failing_open_end_of_file_stat_and_directories_are_free(machine, files):
    devices = machine(Device(("/gfs",), open_s=1, close_s=1, request_s=1))
    files("gfs")
    devices.run(
        """
        try: os.open("gfs/none", os.O_RDONLY)
        except FileNotFoundError: pass
        os.stat("gfs/f0000.bin"), os.listdir("gfs")
        os.close(os.open("gfs", os.O_RDONLY | os.O_DIRECTORY))
        os.close(os.open("gfs/f0000.bin", os.O_PATH))
        """
    )
    assert devices.statistics[0].n_waits == 0


def test_zero_byte_read_is_no_request(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001))
    (path,) = files("gfs", size=0)
    devices.run("read_whole(sys.argv[1])", path)
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (1, 0, 1)


def test_every_kind_of_read_is_charged(machine, files):
    devices = machine(Device(("/gfs",), request_s=1e-6))
    (path,) = files("gfs")
    devices.run(
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        buffer = bytearray(100)
        os.read(fd, 100), os.pread(fd, 100, 0)
        os.readv(fd, [buffer]), os.preadv(fd, [buffer], 0)
        out = os.open("out", os.O_WRONLY | os.O_CREAT)
        os.sendfile(out, fd, 0, 100)
        with open(sys.argv[1], "rb", buffering=0) as file: file.readinto(buffer)
        """,
        path,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_bytes) == (2, 6, 600)


# ---- descriptors, threads, processes ------------------------------------------


def test_reused_descriptor_means_the_new_file(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001))
    (inside,), (outside,) = files("gfs"), files("bare")
    devices.run(
        """
        inside, outside = sys.argv[1:]
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
        """,
        inside,
        outside,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (2, 0, 1)


def test_duplicate_reads_through_the_device_and_closes_for_free(machine, files):
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    (inside,), (outside,) = files("gfs"), files("bare")
    devices.run(
        """
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        high = min(hard, 1 << 20) - 1
        fd = os.open(sys.argv[1], os.O_RDONLY)
        twin = os.dup(fd)                        # fcntl(F_DUPFD_CLOEXEC)
        os.dup2(fd, high)
        os.close(fd)
        for number in (twin, high):
            assert len(os.pread(number, 10, 0)) == 10
        os.dup2(os.open(sys.argv[2], os.O_RDONLY), twin)   # twin is another file now
        os.read(twin, 10)
        os.close(twin), os.close(high)
        """,
        inside,
        outside,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (1, 2, 1)


def test_forked_child_reads_its_parents_file_and_the_parent_pays_its_close(
    machine, files
):
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    (path,) = files("gfs")
    devices.run(
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        if (child := os.fork()) == 0:
            os.pread(fd, 10, 0)
            os.close(fd)
            read_whole(sys.argv[1])              # its own: open, read and close
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os.pread(fd, 10, 0)
        os.close(fd)
        """,
        path,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (2, 3, 2)


def test_starting_a_program_leaves_the_parents_files_alone(machine, files):
    # subprocess may use vfork: the child then closes in its parent's memory.
    devices = machine(Device(("/gfs",), request_s=0.001, close_s=0.001))
    (path,) = files("gfs")
    devices.run(
        """
        import subprocess
        fd = os.open(sys.argv[1], os.O_RDONLY)
        subprocess.run(["true"], check=True, close_fds=True)
        os.pread(fd, 10, 0)
        os.close(fd)
        """,
        path,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_requests, gfs.n_closes) == (1, 1)


def test_threads_are_counted_exactly(machine, files):
    devices = machine(Device(("/gfs",), open_s=10e-6, request_s=20e-6, close_s=5e-6))
    paths = files("gfs", n=50)
    devices.run(
        """
        def read_all():
            for path in sys.argv[1:]: read_whole(path)
        threads = [threading.Thread(target=read_all) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        *paths,
    )
    (gfs,) = devices.statistics
    assert (gfs.n_opens, gfs.n_requests, gfs.n_closes) == (200, 200, 200)
    assert gfs.n_waits == 600
    assert gfs.metadata_busy_s == pytest.approx(0.003, abs=1e-12)
    assert gfs.object_server_busy_s == pytest.approx((0.004,), abs=1e-12)


# ---- which device --------------------------------------------------------------


def test_longest_prefix_wins_and_components_are_whole(machine, files):
    devices = machine(Device(("/a",)), Device(("/a/b", "/c")), Device(("/a/b/d/e",)))
    for folder, n in [("a", 1), ("ab", 1), ("a/b", 2), ("a/b/d", 3), ("a/b/d/e", 4)]:
        files(folder, n=n)
    files("c", n=5)
    devices.run(
        """
        for folder, _, names in os.walk("."):
            for name in names:
                if name.startswith("f"):
                    os.close(os.open(os.path.abspath(folder + "/" + name), os.O_RDONLY))
        """
    )
    assert [device.n_opens for device in devices.statistics] == [1, 2 + 3 + 5, 4]


def test_epoch_aliases_of_a_prefix_are_the_prefix(machine, files, tmp_path):
    devices = machine(Device(("/gfs",)), Device(("/gfs/node.ep0", "/gfs/node.ep1")))
    files("gfs"), files("gfs/node")
    for alias in ("gfs.ep0", "gfs.ep12", "gfs.epx"):
        (tmp_path / alias).symlink_to("gfs")
    devices.run(
        """
        for folder in ("gfs.ep0", "gfs.ep12", "gfs.epx", "gfs.ep0/node"):
            os.close(os.open(os.path.abspath(folder) + "/f0000.bin", os.O_RDONLY))
        """
    )
    assert [device.n_opens for device in devices.statistics] == [2, 1]


def test_relative_paths_and_directory_descriptors_are_followed(machine, files):
    devices = machine(Device(("/gfs",)))
    files("gfs"), files("bare")
    devices.run(
        """
        gfs = os.open("gfs", os.O_RDONLY | os.O_DIRECTORY)
        os.open("f0000.bin", os.O_RDONLY, dir_fd=gfs)
        os.open("./bare/..//gfs/./f0000.bin", os.O_RDONLY)
        os.open("gfs/../bare/f0000.bin", os.O_RDONLY)           # not the device's
        os.chdir("bare")
        os.open("f0000.bin", os.O_RDONLY)                       # nor this
        os.open("../gfs/f0000.bin", os.O_RDONLY)
        os.open(os.getcwd() + "/f0000.bin", os.O_RDONLY, dir_fd=gfs)
        """
    )
    assert devices.statistics[0].n_opens == 3


def test_paths_with_spaces_and_other_letters_work(machine, files):
    devices = machine(Device(("/der große speicher = 1",)))
    (path,) = files("der große speicher = 1")
    devices.run("read_whole(sys.argv[1])", path)
    assert devices.statistics[0].n_opens == 1


def test_thousands_of_devices_are_found(machine, files):
    devices = machine(*(Device((f"/node{n}",)) for n in range(4096)))
    (path,) = files("node4095")
    devices.run("read_whole(sys.argv[1])", path)
    assert [d.n_opens for d in devices.statistics[-2:]] == [0, 1]


NAMES = [
    "f0007.tfrecord",
    "run2-f0011.bin",
    "0012",
    "part.7.bin",
    ".3",
    "plain",
    "ü.x5",
]


def test_python_and_the_library_agree_on_object_servers(machine, tmp_path):
    devices = machine(Device(("/gfs",), n_object_servers=5, request_s=1e-6))
    (tmp_path / "gfs").mkdir()
    for name in NAMES:
        path = tmp_path / "gfs" / name
        path.write_bytes(b"x")
        reset_statistics(devices.state)
        devices.run("read_whole(sys.argv[1])", path)
        busy_s = devices.statistics[0].object_server_busy_s
        assert [n for n, s in enumerate(busy_s) if s] == [object_server_of(path, 5)]


def test_numbered_files_go_round_robin():
    servers = [object_server_of(f"/x9/part1-{n:05d}.mp4", 3) for n in range(5)]
    assert servers == [0, 1, 2, 0, 1]


# ---- configuration ---------------------------------------------------------------


def test_without_environment_the_library_does_nothing(machine, files):
    devices = machine(Device(("/gfs",), open_s=1))
    (path,) = files("gfs")
    del devices.environment[DEVICES_VARIABLE], devices.environment[STATE_VARIABLE]
    devices.run("read_whole(sys.argv[1])", path)
    assert devices.statistics[0].n_opens == 0


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
    devices = machine()
    first = GOOD_LINE.replace("/d", "/first")
    devices.config.write_text(f"{first}\n{line}\n")
    child = devices.start("print('ran')")
    output, errors = child.communicate(timeout=30)
    assert child.returncode == 2
    assert output == ""
    assert f"{devices.config}:2: " in errors
    assert message in errors


def spoil_nothing(devices):
    devices.config.unlink()


def forget_state_variable(devices):
    del devices.environment[STATE_VARIABLE]


def remove_state(devices):
    devices.state.unlink()


def shorten_state(devices):
    os.truncate(devices.state, 40)


def state_of_other_servers(devices):
    one = devices.folder
    create_state(
        devices.state,
        [Device((f"{one}/a",)), Device((f"{one}/b",), n_object_servers=2)],
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_nothing, "devices.tsv: cannot be read: No such file"),
        (forget_state_variable, "TIERSCOPE_DEVICE_STATE is not set, expected both"),
        (remove_state, "state: state cannot be opened: No such file"),
        (shorten_state, "state has 40 bytes, expected 272"),
        (state_of_other_servers, "device 1 has 1 object servers, expected 2"),
    ],
)
def test_process_does_not_run_without_its_devices(machine, spoil, message):
    devices = machine(Device(("/a",), n_object_servers=2), Device(("/b",)))
    spoil(devices)
    child = devices.start("print('ran')")
    output, errors = child.communicate(timeout=30)
    assert (child.returncode, output) == (2, "")
    assert message in errors


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
        create_state(tmp_path / "state", [])


def test_foreign_state_file_is_refused(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(b"12345678" * 4)
    with pytest.raises(ValueError, match="starts with 0x3837363534333231, expected"):
        read_statistics(path)
    path.write_bytes(b"123")
    with pytest.raises(ValueError, match="has 3 bytes, expected a multiple of 8"):
        read_statistics(path)


def test_lateness_share_is_that_of_all_waits_together():
    none = DeviceStatistics(0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
    fast = replace(none, n_waits=1, wait_s=1.0, lateness_s=0.5)
    slow = replace(none, n_waits=1, wait_s=9.0, lateness_s=0.5)
    assert lateness_share([fast, slow, none]) == 0.1
    assert (none.lateness_share, none.mean_lateness_s) == (0, 0)
    assert replace(none, lateness_s=1.0).lateness_share == float("inf")
