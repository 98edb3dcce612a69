"""The launcher with a stand-in for MPI and ranks that do what the test says."""

import ast
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import launch
import pytest
import sessions
from launch import move_finished
from sessions import HANG_S
from stops import stopped
from tierscope.benchmark.run_folder import mark_complete
from tierscope.core.files import write_text

LAUNCHER = Path(__file__).parents[2] / "workflow" / "scripts" / "launch.py"
FILES = ("log.darshan", "epochs.parquet", "decisions.parquet", "run.json")
POINT = "cache-050/rep-0"
MPI = """\
#!/bin/sh
shift; n=$1; shift
for rank in $(seq 0 $((n - 1))); do RANK=$rank "$@" || exit 9; done
"""
RANKS = """\
import os, sys
from pathlib import Path
launch = sys.argv[sys.argv.index("--launch") + 1]
if "--prepare" in sys.argv:
    print(f'export START="start of {launch}"; exec "$@"')
    sys.exit()
assert os.environ["START"] == f"start of {launch}"
print("rank", os.environ["RANK"], *sys.argv[sys.argv.index("--launch") + 2 :])
exec(os.environ.get("DO", ""))
"""


class Site:
    """A working folder with a launcher, and runs that a launch leaves staged."""

    def __init__(self, folder):
        self.folder, self.scripts = folder, folder / "my scripts"
        self.log = folder / "launch.log"
        self.staging, self.runs = folder / "staging", folder / "my runs"
        self.staged, self.run = self.staging / POINT, self.runs / POINT
        self.marker = folder / "marker.txt"
        for path in (self.scripts, folder / "results", self.staged, self.runs):
            path.mkdir(parents=True)
        shutil.copy(LAUNCHER, self.scripts)
        (self.scripts / "tierscope").symlink_to(LAUNCHER.with_name("tierscope"))
        (self.scripts / "ranks.py").write_text(RANKS)
        (folder / "mpi").write_text(MPI)
        (folder / "mpi").chmod(0o755)
        self.children = []

    def command(self, *arguments, setup="true", options=()):
        """Return the command of a launch of two ranks."""
        places = ["--staging", self.staging, "--runs", self.runs]
        places += ["--marker", self.marker]
        command = [sys.executable, self.scripts / "launch.py", "--log", self.log]
        command += ["--setup", setup, "--mpi", "./mpi", "--tasks", "2", *places]
        return [*map(str, command), *options, "--", "ranks", *arguments]

    def start(self, command, **environment):
        """Start a launch."""
        child = sessions.start(
            command,
            self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def launch(self, *arguments, setup="true", **environment):
        """Run a launch to its end and return its exit code."""
        child = self.start(self.command(*arguments, setup=setup), **environment)
        child.communicate(timeout=300)
        return child.returncode

    def stage(self, *names, point=POINT):
        """Make files of a run as the ranks of a launch leave them."""
        (self.staging / point).mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.staging / point / name).write_text(name)

    def taken(self, point=POINT):
        """Return the names of the files that were moved to a run."""
        return sorted(path.name for path in (self.runs / point).glob("*"))


@pytest.fixture
def site(tmp_path):
    """Return a working folder; what was started there is ended."""
    made = Site(tmp_path)
    yield made
    for child in made.children:
        with suppress(ProcessLookupError):  # nobody of its session is left
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


STAGES = (
    f"Path('staging/{POINT}').mkdir(exist_ok=True, parents=True);"
    f" [Path('staging/{POINT}', name).touch() for name in {FILES}]"
)


def wait_for(condition):
    """Wait until something is so, or fail where a hang is assumed."""
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ranks_start_as_prepared_and_their_run_is_moved(site):
    assert site.launch("a b", "0/0", DO=STAGES) == 0
    assert site.log.read_text() == "rank 0 a b 0/0\nrank 1 a b 0/0\n"
    assert site.taken() == sorted(FILES)
    assert not site.staged.exists()
    assert site.marker.read_text() == "a b 0/0\n"


def test_run_that_an_earlier_launch_staged_is_moved_before_the_ranks_start(site):
    site.stage(*FILES)
    assert site.launch(DO=f"print(Path('my runs/{POINT}/run.json').exists())") == 0
    assert site.log.read_text() == "rank 0\nTrue\nrank 1\nTrue\n"
    assert site.taken() == sorted(FILES)


def test_run_that_is_staged_in_part_stays_for_the_ranks(site):
    site.stage("log.darshan")
    assert site.launch(DO=STAGES) == 0
    assert "rank 1" in site.log.read_text()
    assert site.taken() == sorted(FILES)


def test_finished_runs_of_a_launch_that_fails_are_moved_and_no_marker_is_written(site):
    points = [f"cache-{rate:03d}/rep-0" for rate in range(49)]
    for point in points[:39]:
        site.stage(*FILES, point=point)
    site.stage("log.darshan", point=points[39])
    assert site.launch(DO="sys.exit(3)") == 1
    assert [point for point in points if site.taken(point)] == points[:39]
    assert sorted(path.name for path in site.staging.rglob("*.darshan")) == [
        "log.darshan"
    ]
    assert not site.marker.exists()


def test_moved_run_is_write_protected(site):
    site.stage(*FILES)
    site.launch()
    assert {path.stat().st_mode & 0o222 for path in site.run.iterdir()} == {0}


@pytest.mark.parametrize("user", [0, 65534])
def test_run_with_a_missing_file_is_replaced_for_root_and_for_others(site, user):
    if os.getuid() not in (0, user):
        pytest.skip("only root can be both")
    site.stage(*FILES)
    site.launch()
    (site.run / "log.darshan").unlink()
    site.stage(*FILES)
    (site.staged / "epochs.parquet").write_text("new")
    for path in (site.folder, *site.folder.rglob("*")):
        os.chown(path, user, user)
    child = os.fork()
    if not child:  # the folders above are closed to others
        try:
            os.chdir(site.folder)
            os.setuid(user)
            move_finished(Path("staging"), Path("my runs"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert (site.run / "epochs.parquet").read_text() == "new"
    assert site.taken() == sorted(FILES)


def test_interrupted_move_is_ended_by_the_next_launch(site):
    site.stage(*FILES)
    site.run.mkdir(parents=True)
    (site.staged / "log.darshan").rename(site.run / "log.darshan")
    assert site.launch() == 0
    assert site.taken() == sorted(FILES)


@pytest.mark.parametrize("has_old", [False, True])
def test_run_is_whole_or_measured_again_wherever_its_writing_and_move_stop(
    tmp_path, has_old
):
    """What was complete once is there after the next start, also after a power cut."""
    staging, runs = tmp_path / "staging", tmp_path / "runs"
    for folder in (staging, runs):
        folder.mkdir()
    if has_old:  # with other settings, or one of its files was lost
        write_run(runs / POINT, "old", "run.json")
        (runs / POINT / "decisions.parquet").write_text("old")

    def measure_and_move():
        write_run(staging / POINT, "new", *FILES[:3])
        mark_complete(staging / POINT, {"hash": "new"})
        move_finished(staging, runs)

    n_whole = 0
    for how, has_ended in stopped(tmp_path, measure_and_move):
        move_finished(staging, runs)  # the next start
        run = runs / POINT
        if (run / "run.json").exists() and "new" in (run / "run.json").read_text():
            texts = {name: (run / name).read_text() for name in FILES[:3]}
            assert set(texts.values()) == {"new"}, how
            n_whole += 1
        else:
            assert not has_ended, how
    assert n_whole > 5


def write_run(folder, text, *names):
    """Write files of a run."""
    for name in names:
        write_text(folder / name, text)


OF_A_RUN = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(LAUNCHER.parent)!r})
from launch import move_finished
from tierscope.benchmark.run_folder import mark_complete
from tierscope.core.files import write_text
for name in {FILES[:3]}:
    write_text(Path("staging/{POINT}", name), "")
mark_complete(Path("staging/{POINT}"), {{}})
move_finished(Path("staging"), Path("runs"))
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_run_takes_three_syncs(tmp_path):
    calls = "fsync,fdatasync,sync,syncfs,sync_file_range,msync"
    strace = ["strace", "-f", "-o", "calls", "-e", f"trace={calls}"]
    command = [*strace, sys.executable, "-c", OF_A_RUN]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "runs" / POINT / "run.json").exists()
    lines = (tmp_path / "calls").read_text().splitlines()
    assert ["syncfs(" in line for line in lines if "sync" in line] == [True] * 3


def test_killed_launch_leaves_its_run_to_the_next(site):
    os.mkfifo(site.folder / "gate")
    child = site.start(site.command(), DO=of_first_rank(f"{STAGES}; {HELD}"))
    wait_for(lambda: (site.folder / "order").exists())
    child.kill()
    child.wait()
    assert site.taken() == []
    (site.folder / "gate").write_text("")
    assert site.launch() == 0  # waits until the ranks of the first have ended
    assert site.taken() == sorted(FILES)


def test_what_ranks_say_of_a_failure_ends_the_log(site):
    (site.folder / "launch.rank.9").write_text("tierscope: of an earlier launch\n")
    says = "Path('launch.rank.0').write_text('x\\ntierscope: broken\\n'); sys.exit(3)"
    assert site.launch(DO=says) == 1
    assert site.log.read_text() == "rank 0\ntierscope: broken\n"
    assert site.taken() == []


def test_log_that_cannot_take_what_ranks_say_is_the_cause(site):
    site.log, spare = Path("/dev/full"), site.folder / "spare"
    spare.touch()
    (site.folder / "link").symlink_to(spare)
    place = f"{site.folder / 'link'} {spare}"
    assert site.launch(DO="sys.exit(3)", TIERSCOPE_SPARE_LOG=place) == 1
    line = "tierscope: /dev/full: No space left on device.\n"
    assert json.loads(spare.read_text()) == ["/dev/full", line]


def test_line_of_the_set_up_that_fails_is_named_and_nothing_is_launched(site):
    setup = '{ { set +u && false\n} || { echo "tierscope: it failed" >&2; false; }; }'
    assert site.launch(setup=setup) == 1
    assert site.log.read_text().rstrip() == "tierscope: it failed"


def test_set_up_may_use_unset_names_and_sets_variables_of_the_ranks(site):
    setup = 'set +u && echo "got <$UNSET_NAME>" && export SITE=mine'
    assert site.launch(setup=setup, DO=f"print(os.environ['SITE']); {STAGES}") == 0
    assert site.log.read_text() == "got <>\nrank 0\nmine\nrank 1\nmine\n"


def test_emulated_devices_of_the_launch_are_removed_and_no_others(site):
    other = Path(f"/dev/shm/tierscope-test-other.{os.getpid()}")
    other.touch()
    made = "Path(f'/dev/shm/tierscope-{os.getuid()}-{launch}.x').touch(); print(launch)"
    try:
        assert site.launch(DO=f"{made}; sys.exit(1)") == 1
        launch = site.log.read_text().splitlines()[1]
        assert not Path(f"/dev/shm/tierscope-{os.getuid()}-{launch}.x").exists()
        assert other.exists()
    finally:
        other.unlink()


def has_ended(pid):
    """Return whether a process has ended; somebody may not have waited for it."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )
    except OSError:
        return True


HELD = (
    "open('order', 'a').write('begin '); open('gate').read();"
    " open('order', 'a').write('end ')"
)


def of_first_rank(code):
    """Return code that only the first rank runs."""
    return f"if os.environ['RANK'] == '0':\n    {code}"


def begin_held_launch(site):
    """Start a launch whose first rank waits at a gate, and return it."""
    os.mkfifo(site.folder / "gate")
    child = site.start(site.command(), DO=f"{HELD}; {STAGES}; sys.exit(4)")
    wait_for(lambda: (site.folder / "order").exists())
    return child


def start_second(site):
    """Start another launch, and wait until it says that it waits for the first."""
    log = site.folder / "second.log"
    command = site.command(options=["--log", str(log)])
    second = site.start(command, DO="open('order', 'a').write('second ')")
    wait_for(lambda: log.exists() and log.read_text())
    return second, log.read_text()


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PJM_JOBID", "NO_VARIABLE"])
def test_second_launch_waits_for_the_first_and_says_so(site, monkeypatch, name):
    monkeypatch.setenv(name, "7")  # of a job in which the user types
    first = begin_held_launch(site)
    second, said = start_second(site)
    assert said.startswith(
        f"waiting for another launch in this folder: that of process {first.pid}, since"
    )
    assert said.count("\n") == 1
    (site.folder / "gate").write_text("")
    assert first.wait() == 1
    assert second.wait() == 0
    assert (site.folder / "order").read_text() == "begin end second second "


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_lock_that_is_a_link_is_not_written_and_ends_the_launch(site, make):
    (site.folder / "mine").write_text("precious")
    make(site.folder / "results" / ".launch", site.folder / "mine")
    assert site.launch() == 1
    assert (site.folder / "mine").read_text() == "precious"
    assert site.log.read_text().startswith("tierscope: results/.launch: cannot be the")


def test_launch_waits_for_another_also_if_it_cannot_say_so(tmp_path, monkeypatch):
    answers = iter([False, False, True])
    monkeypatch.setattr(launch, "is_locked", lambda lock: next(answers))
    monkeypatch.setattr(launch, "_POLL_S", 0)
    lock = launch.open_lock(tmp_path / "lock")
    with open("/dev/full", "wb", buffering=0) as log:
        launch.take(lock, log)
    assert next(answers, None) is None
    assert os.pread(lock, 99, 0).startswith(f"that of process {os.getpid()}".encode())
    os.close(lock)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_launch_that_waits_for_another_ends_on_a_signal(site, signum):
    first = begin_held_launch(site)
    second, _ = start_second(site)
    second.send_signal(signum)
    assert second.wait(HANG_S) == 128 + signum
    (site.folder / "gate").write_text("")
    first.wait(HANG_S)
    assert "second" not in (site.folder / "order").read_text()


@pytest.mark.parametrize("is_submitted", [False, True])
def test_rank_does_not_take_the_number_of_a_launcher_around_snakemake(
    site, monkeypatch, is_submitted
):
    names = "PMI_RANK PMIX_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID SLURMD_NODENAME"
    kept = "OMPI_MCA_btl PMIX_MCA_gds SLURM_JOB_ID"
    for name in (*names.split(), *kept.split()):
        monkeypatch.setenv(name, "3")
    says = f"print([n for n in '{names} {kept}'.split() if n in os.environ])"
    options = ["--submitted"] if is_submitted else []
    child = site.start(site.command(options=options), DO=of_first_rank(says))
    assert child.wait(HANG_S) == 0
    found = ast.literal_eval(site.log.read_text().splitlines()[1])
    assert found == [*(names.split() if is_submitted else []), *kept.split()]


def test_step_of_the_set_up_ends_with_the_launch(site):
    site.marker.with_name("pid").write_text("")
    child = site.start(site.command(setup="sh -c 'echo $$ > pid; exec sleep 1000'"))
    wait_for(lambda: (site.folder / "pid").read_text())
    child.terminate()
    assert child.wait(HANG_S) == 128 + signal.SIGTERM
    pid = int((site.folder / "pid").read_text())
    wait_for(lambda: has_ended(pid))


def test_interrupted_launch_waits_for_its_ranks_to_end(site):
    blocks = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"
    makes = "Path(f'/dev/shm/tierscope-{os.getuid()}-{launch}.x').touch()"
    waits = "Path('order').touch(); signal.sigwait([signal.SIGINT]); sys.exit(5)"
    child = site.start(site.command(), DO=f"{blocks}; {makes}; {waits}")
    wait_for(lambda: (site.folder / "order").exists())
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert child.wait(HANG_S) == 1
    assert not glob.glob(f"/dev/shm/tierscope-{os.getuid()}-{child.pid}-*")


def test_terminated_launch_removes_its_devices(site):
    os.mkfifo(site.folder / "gate")
    makes = "Path(f'/dev/shm/tierscope-{os.getuid()}-{launch}.x').touch()"
    child = site.start(site.command(), DO=f"{makes}; {HELD}")
    wait_for(lambda: (site.folder / "order").exists())
    child.terminate()
    assert child.wait(HANG_S) == 128 + signal.SIGTERM
    assert not glob.glob(f"/dev/shm/tierscope-{os.getuid()}-{child.pid}-*")


@pytest.mark.parametrize("line", ["set -- other words", "source ./site.sh"])
def test_set_up_keeps_the_ranks_command_and_does_not_see_it(site, line):
    (site.folder / "site.sh").write_text('echo "words: $*"\n')
    assert site.launch("0/0", setup=f"set +u && {line}", DO=STAGES) == 0
    log = site.log.read_text()
    assert log.endswith("rank 0 0/0\nrank 1 0/0\n")
    assert "words: \n" in log or "source" not in line


def test_batch_job_that_snakemake_has_submitted_waits_for_nobody(site):
    first = begin_held_launch(site)
    second = site.start(site.command(options=["--submitted"]), DO=STAGES)
    assert second.wait(HANG_S) == 0
    (site.folder / "gate").write_text("")
    assert first.wait() == 1


def test_launch_whose_snakemake_is_gone_moves_its_run(site):
    os.mkfifo(site.folder / "gate")
    words = ["sh", "-c", '"$@" & echo $!; wait', "sh", *site.command()]
    parent = site.start(words, DO=of_first_rank(f"{HELD}; {STAGES}"))
    launcher = int(parent.stdout.readline())
    wait_for(lambda: (site.folder / "order").exists())
    parent.kill()
    parent.wait()
    (site.folder / "gate").write_text("")
    wait_for(lambda: has_ended(launcher))
    assert site.taken() == sorted(FILES)


STARTER = """\
import os, signal, sys, time
from pathlib import Path
print(sys.argv[1:])
if "wait" not in sys.argv:
    sys.exit()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(Path("ended").touch()))
Path("started").touch()
time.sleep(1000)
"""


def test_script_that_starts_its_ranks_gets_the_launcher_once(site):
    (site.scripts / "ranks.py").write_text(STARTER)
    words = site.command("0/0", options=["--starts-ranks"], setup="export A=1")
    child = site.start([one.replace("./mpi", "./mpi -x 'a b'") for one in words])
    assert child.wait(HANG_S) == 0
    (line,) = site.log.read_text().splitlines()
    *_, point, mpi, launcher, tasks, number = ast.literal_eval(line)
    assert (point, mpi, launcher) == ("0/0", "--mpi", "./mpi -x 'a b'")
    assert (tasks, number) == ("--tasks", "2")


def test_launch_that_is_ended_waits_for_the_script_to_end_its_ranks(site):
    (site.scripts / "ranks.py").write_text(STARTER)
    child = site.start(site.command("wait", options=["--starts-ranks"]))
    wait_for(lambda: (site.folder / "started").exists())
    child.terminate()
    assert child.wait(HANG_S) == 128 + signal.SIGTERM
    assert (site.folder / "ended").exists()


def test_logs_of_a_program_are_moved_write_protected(site):
    site.stage("epochs.parquet", "run.json")
    (site.staged / "logs").mkdir()
    (site.staged / "logs" / "1.darshan").touch()
    site.launch()
    assert site.taken() == ["epochs.parquet", "logs", "run.json"]
    (log,) = (site.run / "logs").iterdir()
    assert not log.stat().st_mode & 0o222
    assert not site.staged.exists()
