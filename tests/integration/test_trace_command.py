"""Jobs of several processes without MPI, which count themselves what they read."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from native import advice_library
from tierscope.core.machine import BLOCK_DEVICE
from tierscope.logs.analyse import analyse
from tierscope.logs.grouping import LogFacts, group_logs
from tierscope.storage.mounts import mount_of
from tierscope.storage.page_cache import told_by
from tierscope.trace.log import read_any_log, read_posix

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
COMMAND = [sys.executable, SCRIPTS / "tierscope_command.py", "trace"]
FILE_BYTES = [0, 1, 4096, 100_000, 300_001]

COUNTING = """
import json, multiprocessing, os, signal, subprocess, sys, time
from collections import Counter

data, counts = sys.argv[1:3]
files = [os.path.join(data, f"s_{i}") for i in range(5)]
opens, read = Counter(), Counter()

def read_by_calls(path):
    fd = os.open(path, os.O_RDONLY)
    opens[path] += 1
    while piece := os.read(fd, 1000):
        read[path] += len(piece)
    os.close(fd)

def read_by_file(path):
    opens[path] += 1
    with open(path, "rb") as file:
        read[path] += len(file.read())

def tell():
    with open(f"{counts}/{os.getpid()}.json", "w") as file:
        json.dump({"opens": opens, "bytes_read": read, "parent": os.getppid()}, file)

def forget():
    opens.clear(); read.clear()
"""

TRAINER = """
from counting import *

def work(number, how):
    forget()
    for path in files[number:]:
        read_by_calls(path)
        read_by_file(path)
    tell()
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "at once":
        os._exit(0)

if __name__ == "__main__":
    trainer = int(sys.argv[3])
    read_by_file(files[3])
    fork, spawn = map(multiprocessing.get_context, ("fork", "spawn"))
    workers = [fork.Process(target=work, args=(number, how))
               for number, how in ((trainer, ""), (1, "at once"))]
    if trainer == 1:
        workers += [spawn.Process(target=work, args=(2, "")),
                    fork.Process(target=work, args=(3, "killed"))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    read_by_calls(files[4])
    tell()
"""

LAUNCH = """
import os, subprocess, sys
ranked = sys.argv.pop(3) == "ranked"
trainers = [
    subprocess.Popen(
        [sys.executable, "trainer.py", *sys.argv[1:], str(i)],
        env=os.environ | ({"RANK": str(i)} if ranked else {}),
    )
    for i in range(2)
]
sys.exit(max(trainer.wait() for trainer in trainers))
"""


@dataclass
class Traced:
    """A finished job: what it says and its logs."""

    done: subprocess.CompletedProcess
    counts: dict
    logs: list

    def facts(self):
        """Return the facts of the logs."""
        return [
            LogFacts(
                path,
                os.getuid(),
                7,
                job.n_processes,
                job.start_time_s,
                job.end_time_s,
                job.exe,
                job.metadata,
            )
            for path, job, _ in self.logs
        ]


def sums(log):
    """Return opens and bytes read by path."""
    path = Path(log)
    job, columns, names = read_posix(path)
    paths = [names.path(i) for i in range(len(names.ids))]
    by_id = dict(zip(names.ids.tolist(), paths, strict=True))
    found = {"opens": Counter(), "bytes_read": Counter()}
    for name, total in found.items():
        for one, value in zip(
            columns["id"].tolist(), columns[name].tolist(), strict=True
        ):
            if value:
                total[by_id[one]] += value
    return path, job, found


@pytest.fixture
def trace(tmp_path):
    """Return a function that traces a Python script, beside `counting.py`."""
    data, counts = tmp_path / "data", tmp_path / "counts"
    data.mkdir()
    counts.mkdir()
    for i, n_bytes in enumerate(FILE_BYTES):
        data.joinpath(f"s_{i}").write_bytes(bytes(n_bytes))
    tmp_path.joinpath("counting.py").write_text(COUNTING)

    def run(script, *arguments, options=("--paths", "data"), launcher=()):
        (tmp_path / "script.py").write_text(textwrap.dedent(script))
        program = [*launcher, sys.executable, "script.py", data, counts, *arguments]
        done = subprocess.run(
            [*COMMAND, "--logs", "logs", *options, "--", *program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Traced(
            done,
            {int(p.stem): json.loads(p.read_text()) for p in counts.iterdir()},
            [sums(log) for log in sorted((tmp_path / "logs").iterdir())],
        )

    return run


@pytest.mark.parametrize("ranked", [False, True])
def test_logs_of_trainers_and_workers_are_what_they_count(trace, tmp_path, ranked):
    (tmp_path / "trainer.py").write_text(TRAINER)
    job = trace(LAUNCH, "ranked" if ranked else "not")
    assert job.done.returncode == 0, job.done.stderr
    assert "8 logs in logs; " in job.done.stderr  # besides: launcher, trackers
    logged = {int(of.metadata["pid"]): found for _, of, found in job.logs}
    assert logged.keys() == job.counts.keys()
    for pid, counted in job.counts.items():
        for name, values in counted.items():
            if name != "parent":
                nonzero = {path: value for path, value in values.items() if value}
                assert logged[pid][name] == nonzero, (pid, name)
    (group,) = group_logs(job.facts())
    assert group.n_processes == 2
    trainers = [
        pid for pid in job.counts if job.counts[pid]["parent"] not in job.counts
    ]
    of = dict(zip((log.name for log in group.logs), group.processes, strict=True))
    for path, log, _ in job.logs:
        pid = int(log.metadata["pid"])
        trainer = pid if pid in trainers else job.counts[pid]["parent"]
        (own,) = (
            of[p.name] for p, log, _ in job.logs if log.metadata["pid"] == str(trainer)
        )
        assert of[path.name] == own
    if ranked:
        assert {log.metadata["rank"] for _, log, _ in job.logs} == {"0", "1"}
    assert {log.metadata["end"] for _, log, _ in job.logs} == {"exit", "last call"}


def test_analysis_joins_the_processes_to_what_they_count(trace, tmp_path):
    (tmp_path / "trainer.py").write_text(TRAINER)
    job = trace(LAUNCH, "ranked")
    tables = analyse(tmp_path / "logs", {"data": str(tmp_path / "data")}, n_workers=1)
    assert tables["jobs"][["n_processes", "n_logs"]].values.tolist() == [[2, 8]]
    assert tables["refusals"].empty
    times = tables["job_times"]
    reads = times[(times.interface == "POSIX") & (times.operation == "read")]
    assert set(reads["tier"]) == {"data"}
    expected = Counter()
    for _, log, _ in job.logs:
        counted = job.counts[int(log.metadata["pid"])]["bytes_read"]
        expected[int(log.metadata["rank"])] += sum(counted.values())
    assert dict(zip(reads["rank"], reads["bytes"], strict=True)) == expected


LOADER = """
from counting import *

def work(number):
    read_by_file(files[number])

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[3])
    workers = [context.Process(target=work, args=(i,)) for i in (2, 3, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_program_that_reads_nothing_itself_are_one_process(trace, method):
    """As those of a data loader: the program has no log, but its name is the job's."""
    job = trace(LOADER, method)
    assert "3 logs in logs; " in job.done.stderr
    (group,) = group_logs(job.facts())
    assert group.processes == (0, 0, 0)
    assert group.name == "script.py-7"


def test_programs_that_a_launcher_starts_are_processes(trace, tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    launch = """
        import subprocess, sys
        for _ in range(2):
            subprocess.run([sys.executable, "loader.py", *sys.argv[1:]], check=True)
    """
    (group,) = group_logs(trace(launch, "spawn").facts())
    assert group.processes == (0, 0, 0, 1, 1, 1)
    assert group.name == "loader.py-7"


def test_ranks_of_mpiexec_have_a_log_each(trace):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    code = "from counting import *; read_by_file(files[int(os.environ['PMI_RANK'])])"
    job = trace(code, launcher=[mpiexec, "-n", "3"])
    assert job.done.returncode == 0, job.done.stderr
    (group,) = group_logs(job.facts())
    assert group.n_processes == 3
    for path, log, found in job.logs:
        rank = int(log.metadata["rank"])
        assert group.processes[group.logs.index(path)] == rank
        (read,) = found["opens"]
        assert read.endswith(f"s_{rank}")


def test_each_rank_may_call_the_command_itself(trace, tmp_path):
    """Their logs are still one job, because one launcher has started them."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    tmp_path.joinpath("read.py").write_text(
        "import os; open(f'data/s_{os.environ[\"PMI_RANK\"]}').close()"
    )
    inner = [*COMMAND, "--logs", "logs", "--paths", "data", "--"]
    subprocess.run(
        [mpiexec, "-n", "2", *inner, sys.executable, "read.py"],
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    logs = [sums(log) for log in (tmp_path / "logs").iterdir()]
    (group,) = group_logs(Traced(None, {}, logs).facts())
    assert sorted(group.processes) == [0, 1]


def test_by_default_data_is_traced_and_what_the_system_installs_is_not(trace, tmp_path):
    code = """
        from counting import *
        open("/usr/bin/env").close(); open("/etc/passwd").close(); os.stat("/dev/null")
        open(sys.argv[3], "w").write("abc")
        read_by_file(files[2])
    """
    memory = Path(f"/dev/shm/tierscope-test-{os.getpid()}")
    try:
        job = trace(code, memory, options=())
    finally:
        memory.unlink(missing_ok=True)
    ((_, _, found),) = job.logs
    assert found["opens"][str(memory)] == 1
    assert found["bytes_read"][str(tmp_path / "data" / "s_2")] == 4096
    outside = ("/usr/", "/etc/", "/dev/", "/proc/", "/lib/")
    assert [p for p in found["opens"] if p.startswith(outside)] == [str(memory)]


def test_path_that_does_not_exist_is_said_and_may_be_made(trace, tmp_path):
    code = """
        import os
        os.mkdir("new"); open("new/file", "w").write("abc")
    """
    job = trace(code, options=("--paths", "data", "new"))
    assert job.done.stderr.splitlines()[0] == (
        "tierscope trace: --paths: new does not exist; it is traced if the command "
        "makes a file or folder of this name."
    )
    assert job.done.stderr.count("--paths") == 1
    ((_, _, found),) = job.logs
    assert found["opens"] == {str(tmp_path / "new" / "file"): 1}


STREAMS = r"""
#include <fstream>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>

int main(int, char **arguments) {
  std::string folder = arguments[1];
  char text[5000], *line = NULL;
  size_t size = 0;
  FILE *in = fopen((folder + "/s_2").c_str(), "r"); /* 4096 zeros */
  fread(text, 1, 10, in);
  fseek(in, 100, SEEK_SET);
  fgetc(in);
  fread(text, 5, 1000, in); /* of 3995 left: 799 items */
  fclose(in);
  FILE *out = fopen((folder + "/out").c_str(), "w+");
  fwrite("ab", 1, 2, out);
  fprintf(out, "%d\n", 123);
  fputs("line\n", out);
  fputc('x', out);
  fflush(out);
  rewind(out);
  fgets(text, 100, out); /* ab123 and a new line */
  getline(&line, &size, out);
  FILE *again = fdopen(dup(fileno(out)), "r");
  fclose(again);
  fclose(out);
  std::ifstream stream(folder + "/s_3", std::ios::binary); /* 100,000 zeros */
  std::string all(100000, ' ');
  stream.read(&all[0], 100000);
  return all[99999] != 0;
}
"""


def test_streams_of_libc_and_of_cpp_are_counted(trace, tmp_path):
    source, program = tmp_path / "streams.cpp", tmp_path / "streams"
    source.write_text(STREAMS)
    flags = ["-O2", "-D_FORTIFY_SOURCE=2", "-w"]
    if subprocess.run(["c++", *flags, "-o", program, source], check=False).returncode:
        pytest.skip("needs a C++ compiler")
    subprocess.run(
        [*COMMAND, "--paths", "data", "--", program, "data"], cwd=tmp_path, check=True
    )
    (log,) = (tmp_path / "darshan-logs").iterdir()
    found = read_any_log(log)
    paths = {int(one): found.names.path(i) for i, one in enumerate(found.names.ids)}
    counts = ("opens", "reads", "writes", "bytes_read", "bytes_written")
    got = {
        (interface, Path(paths[int(one)]).name): tuple(
            int(records.columns[name][i]) for name in counts
        )
        for interface, records in found.records.items()
        for i, one in enumerate(records.ids)
    }
    posix_reads = got.pop(("POSIX", "s_3"))
    assert (posix_reads[0], posix_reads[3]) == (0, 100_000)  # C++ reads by itself
    assert got.pop(("POSIX", "out")) == (1, 0, 0, 0, 0)  # of dup
    assert got == {
        ("STDIO", "s_2"): (1, 3, 0, 10 + 1 + 3995, 0),
        ("STDIO", "out"): (2, 2, 4, 6 + 5, 2 + 4 + 5 + 1),
        ("STDIO", "s_3"): (1, 0, 0, 0, 0),
    }


def test_arrays_of_numpy_are_counted_in_both_interfaces(trace, tmp_path):
    """Numpy writes and reads the header by itself, and the array by libc."""
    code = """
        from counting import *
        import numpy
        numpy.save(data + "/array.npy", numpy.arange(1000))
        assert numpy.load(data + "/array.npy")[999] == 999
    """
    ((log, _, _),) = trace(code).logs
    records = read_any_log(log).records
    for way in ("read", "written"):
        assert records["STDIO"].columns[f"bytes_{way}"].tolist() == [8000]
    assert records["POSIX"].columns["bytes_written"].tolist() == [128]
    assert records["POSIX"].ids.tolist() == records["STDIO"].ids.tolist()


# How it ends


def test_exit_status_and_output_are_those_of_the_command(trace):
    job = trace("import sys; print('out'); sys.exit(3)")
    assert (job.done.returncode, job.done.stdout) == (3, "out\n")
    assert before_certificate(job.done) == [
        "tierscope trace: 0 logs in logs; its only process recorded no call on a "
        "traced path."
    ]
    killed = trace(
        "from counting import *; read_by_file(files[1]); os.kill(os.getpid(), 9)"
    )
    assert killed.done.returncode == 128 + 9
    assert before_certificate(killed.done) == ["tierscope trace: 1 log in logs."]


def before_certificate(done):
    """Return what a call says before the three lines of its certificate."""
    *lines, of_bytes, of_libraries, of_advice = done.stderr.splitlines()
    head = "tierscope trace: certificate: "
    assert of_bytes.startswith(f"{head}bytes came from devices: ")
    assert of_libraries.startswith(f"{head}no foreign preload library: ")
    assert of_advice.startswith(f"{head}every fadvise took effect: ")
    return lines


def certificate(done):
    """Return answer and words of the certificate's statements, by their first words."""
    lines = [line.split(": ", 4) for line in done.stderr.splitlines()]
    lines = [line for line in lines if line[1] == "certificate"]
    return {
        line[2].split()[0]: tuple(": ".join(line[3:]).split(". ", 1)) for line in lines
    }


DROPS = """
    from counting import *
    for path in files[1:]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        read_by_calls(path)
"""


def test_certificate_of_cold_reads_says_yes(trace, tmp_path):
    if told_by(mount_of(tmp_path)) != BLOCK_DEVICE:
        pytest.skip("pytest's temporary folder is not on a block device")
    said = certificate(trace(DROPS).done)
    assert {name: answer for name, (answer, _) in said.items()} == {
        "bytes": "yes",
        "no": "yes",
        "every": "yes",
    }
    assert said["every"][1].startswith("4 calls to drop pages")


def test_certificate_names_the_library_that_keeps_pages(trace, tmp_path, monkeypatch):
    """In all processes of a job; it is loaded into `tierscope trace` as well."""
    library = advice_library("SWALLOWS")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    job = trace(DROPS + "\n    os.fork() or os._exit(0); os.wait()")
    said = certificate(job.done)
    where = f"{library.name} in 2 of 2 processes"
    assert said["bytes"][0] in ("no", "not measured")  # by the file system
    assert said["no"] == ("no", f"Preload libraries of others: {where}.")
    answer, words = said["every"]
    assert answer == "no"
    assert words.endswith(f"0 made, 0 failed, 4 swallowed ({where}).")


def test_certificate_of_files_in_memory_says_no(tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder, "data").mkdir()
        Path(folder, "data", "file").write_bytes(bytes(100))
        done, _ = traced(Path(folder), "cat", "data/file")
    answer, words = certificate(done)["bytes"]
    assert (answer, words) == ("no", "Page cache: 100 B on tmpfs (memory) were read.")


def test_run_time_of_a_killed_program_is_that_of_the_command(trace, tmp_path):
    code = """
        from counting import *
        read_by_file(files[1]); time.sleep(1); os.kill(os.getpid(), 9)
    """
    start = time.time()
    trace(code)
    tables = analyse(tmp_path / "logs", {"data": str(tmp_path / "data")}, n_workers=1)
    (job,) = tables["jobs"].itertuples()
    assert start <= job.started_s
    assert 1 <= job.run_time_s <= time.time() - start
    assert tables["logs"]["run_time_s"].item() < job.run_time_s - 0.9
    told = "1 process was killed; its log ends with its last call. "
    assert job.remarks.startswith(told)
    assert "1 process was killed and does not tell what devices" in job.remarks


def fails_in_one_line(tmp_path, arguments, status, reason):
    """Check that a call fails."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        (["no-such-program"], 127, "no-such-program: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        ([], 125, "got no command; write it behind --"),
    ],
)
def test_command_that_cannot_start_is_one_line(tmp_path, command, status, reason):
    fails_in_one_line(tmp_path, ["--", *command], status, reason)


@pytest.mark.parametrize("logs", ["file", "file/logs", "/proc/logs"])
def test_logs_that_cannot_be_in_a_folder_are_one_line(tmp_path, logs):
    (tmp_path / "file").touch()
    reason = (
        f"trace: --logs: got '{logs}', expected a folder in which files can be made"
    )
    fails_in_one_line(tmp_path, ["--logs", logs, "--", "true"], 125, reason)


INTERRUPTED = """
import signal, time
n_signals = 0
def count(*_):
    global n_signals
    n_signals += 1
signal.signal(signal.SIGINT, count)
open("data/s_1").read()
print("ready", flush=True)
while not n_signals:
    time.sleep(0.01)
time.sleep(0.3)
print("signals:", n_signals, flush=True)
raise SystemExit(7)
"""


@pytest.mark.parametrize("from_terminal", [True, False])
def test_interrupted_command_ends_as_it_wants_and_has_its_log(
    trace, tmp_path, from_terminal
):
    """A terminal interrupts both; a signal to tierscope alone is passed on."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    command = [*COMMAND, "--paths", "data", "--", sys.executable, "interrupted.py"]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execv(command[0], command)
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    if from_terminal:
        os.write(terminal, b"\x03")
    else:
        os.kill(process, signal.SIGINT)
    while b"tierscope trace: 1 log in" not in output:
        output += os.read(terminal, 1000)
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 7
    assert b"signals: 1\r\n" in output
    (log,) = (tmp_path / "darshan-logs").iterdir()
    assert list(sums(log)[2]["opens"].values()) == [1]


def test_process_that_outlives_the_command_has_a_log_of_what_it_did(trace, tmp_path):
    code = """
        from counting import *
        if os.fork() == 0:
            os.setsid()
            os.close(1); os.close(2)
            read_by_file(files[1])
            open(counts + "/read", "w").close()
            time.sleep(30)
        while not os.path.exists(counts + "/read"):
            time.sleep(0.01)
        os.remove(counts + "/read")
    """
    start = time.monotonic()
    job = trace(code)
    assert time.monotonic() - start < 25
    ((_, log, found),) = job.logs
    os.kill(int(log.metadata["pid"]), signal.SIGKILL)
    assert log.metadata["end"] == "still running"
    pid = log.metadata["pid"]
    assert f"process {pid} still runs: its later calls are in no log" in job.done.stderr
    assert list(found["bytes_read"].values()) == [1]


def test_command_that_cannot_load_the_tracer_is_said(trace, tmp_path):
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    if subprocess.run(["cc", "-static", "-o", program, source], check=False).returncode:
        pytest.skip("needs a static libc")
    done = subprocess.run(
        [*COMMAND, "--", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    first, *_ = done.stderr.splitlines()  # before the command
    assert first.endswith(
        "/static is linked statically: what it does will be in no log."
    )
    assert "did not load the tracer: it is linked statically" in done.stderr
    assert {answer for answer, _ in certificate(done).values()} == {"not measured"}


def test_program_that_a_process_executes_goes_on_in_its_log(trace):
    code = """
        from counting import *
        read_by_file(files[1])
        if len(sys.argv) == 3:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    """
    ((_, log, found),) = trace(code).logs
    assert log.exe.endswith("again")
    assert list(found["opens"].values()) == [2]


# What one process does, and what is known of it


def traced(tmp_path, *command, options=("--paths", "data"), **more):
    """Run a command in a folder with files; return the process and its logs."""
    (tmp_path / "data").mkdir(exist_ok=True)
    done = subprocess.run(
        [*COMMAND, "--logs", "logs", *options, "--", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )
    return done, sorted((tmp_path / "logs").glob("*.darshan"))


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_standard_error_that_cannot_be_written_changes_nothing(tmp_path, stderr):
    """The command has it as the user gave it, its output has no word of ours."""
    script = "cat data; readlink /proc/$$/fd/2; exit 4"
    command = [*COMMAND, "--logs", "logs", "--", "sh", "-c", script]
    (tmp_path / "data").write_bytes(bytes(3000))
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {stderr}', "sh", *command],
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
    )
    own = b"/dev/full\n" if "full" in stderr else b""
    assert (done.returncode, done.stdout) == (4, bytes(3000) + own)
    assert all(".darshan" in path.name for path in (tmp_path / "logs").iterdir())


def test_command_line_and_paths_are_bytes_in_another_locale(tmp_path):
    """In this one Python does not give back all bytes that it takes."""
    made = ["localedef", "-i", "en_US", "-f", "EUC-JP", tmp_path / "xx.EUC-JP"]
    if not shutil.which("localedef") or subprocess.call(made, stderr=-3):
        pytest.skip("needs the locales of Debian")
    name = b"data/\xe3\x83\x87\xff"
    (tmp_path / "data").mkdir()
    Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_text("abc")
    locale = {"LOCPATH": str(tmp_path), "LC_ALL": "xx.EUC-JP"}
    done, (log,) = traced(tmp_path, b"cat", name, env=os.environ | locale)
    assert (done.returncode, done.stdout) == (0, "abc")
    found = read_any_log(log)
    assert found.exe == "cat data/\u30c7\\xff"
    assert found.names.raw_path(0) == bytes(tmp_path) + b"/" + name


def test_path_longer_than_a_system_call_takes_is_in_the_log(tmp_path):
    code = """
import os, sys
open("data/short", "w").write("abc")
if os.fork() == 0:
    open("data/of-child", "w").write("abc")
    os._exit(0)
os.wait()
os.chdir("data")
for _ in range(25):
    os.mkdir("d" * 200); os.chdir("d" * 200)
open("file", "w").write("abc")
sys.exit(7)
"""
    done, logs = traced(tmp_path, sys.executable, "-S", "-c", code)
    assert done.returncode == 7
    found = [read_any_log(log) for log in logs]
    assert not any(log.partial for log in found)
    paths = {log.names.path(i) for log in found for i in range(len(log.names.ids))}
    names = ("short", "of-child", 25 * f"{200 * 'd'}/" + "file")
    assert paths == {f"{tmp_path}/data/{name}" for name in names}
    assert max(map(len, paths)) > 5000
    assert not list((tmp_path / "logs").glob(".tierscope-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("is_reachable", [True, False])
def test_process_that_changes_its_user_is_counted(is_reachable):
    """Its calls are recorded where its new user can reach the folder of logs."""
    code = """
import os
if os.fork() == 0:
    os.setuid(65534)
    os.write(1, open("data/file", "rb").read())
    os._exit(0)
os.wait()
"""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "data").mkdir()
        (folder / "data" / "file").write_text("abc")
        (folder / "logs").mkdir(mode=0o755 if is_reachable else 0o700)
        folder.chmod(0o755)
        done, logs = traced(folder, sys.executable, "-S", "-c", code)
        assert done.stdout == "abc"
        assert len(logs) == is_reachable
        silent = 1 if is_reachable else 2
    assert f"{silent} of 2 processes recorded no call on a traced path" in done.stderr


OF_ANOTHER_USER = """
import os, sys
if os.fork() == 0:
    os.setuid(65534)
    (hidden,) = [one for one in os.listdir("logs") if one != ".tierscope-b"]
    try:
        os.listdir(f"logs/{hidden}")
    except PermissionError:
        print("hidden", flush=True)
    spools = os.environ["TIERSCOPE_TRACE_SPOOL"] + "/" + os.uname().nodename
    os.mkfifo(f"{spools}/rank-00000.1.0.spool")
    with open(f"{spools}/processes", "a") as events:
        for name in ("/etc/shadow", "rank-00000.1.0.spool"):
            events.write(f"spool 1 0 0 1 - {name}\\n")
        events.write("start 2 0 0 1 - \\x1b]0;mine\\x07\\n")
        events.write("spool 2 0 0 1 - rank-00000.1.0.spool\\n")
    os._exit(0)
os.wait()
open("data/file").read()
sys.exit(3)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_another_user_puts_beside_the_logs_and_into_the_events_is_harmless():
    """Here root traces, and another user may write to the folder of the logs."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "data").mkdir()
        (folder / "data" / "file").write_text("abc")
        (folder / "logs" / ".tierscope-b").mkdir(parents=True)
        os.mkfifo(folder / "logs" / ".tierscope-b" / "call.json")
        os.chown(folder / "logs" / ".tierscope-b", 65534, 65534)
        (folder / "logs").chmod(0o1777)
        folder.chmod(0o755)
        done, logs = traced(folder, sys.executable, "-S", "-c", OF_ANOTHER_USER)
        assert [sums(log)[2]["bytes_read"] for log in logs] == [
            {str(folder / "data" / "file"): 3}
        ]
    assert (done.returncode, done.stdout) == (3, "hidden\n")
    assert re.search(
        r"no log of process 1 \(\): \S+\.spool: is no regular", done.stderr
    )
    assert all(line.isprintable() for line in done.stderr.splitlines())
    assert "shadow" not in done.stderr


def test_child_without_our_environment_is_not_said_to_have_made_no_call(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("abc")
    done, logs = traced(tmp_path, "env", "-i", "cat", "data/file")
    assert (done.stdout, logs) == ("abc", [])
    assert "its only process recorded no call on a traced path" in done.stderr
    assert "/cat starts without our environment: what it did is in no log." in (
        done.stderr
    )
    assert {answer for answer, _ in certificate(done).values()} == {"not measured"}


def test_counts_of_a_killed_call_can_be_recovered(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("abc")
    code = """
import os, signal, sys
open("data/file").read()
os.kill(os.getppid(), signal.SIGKILL)
"""
    killed, logs = traced(tmp_path, sys.executable, "-S", "-c", code)
    assert (killed.returncode, logs) == (-signal.SIGKILL, [])
    (left,) = (tmp_path / "logs").iterdir()
    done, logs = traced(tmp_path, "true")
    assert logs == []
    assert done.stderr.splitlines()[0] == (
        f"tierscope trace: {Path('logs') / left.name} holds the counts of a call that "
        "was killed; `tierscope trace --recover logs` writes its logs."
    )
    recovered = subprocess.run(
        [*COMMAND, "--recover", "logs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert recovered.returncode == 0
    assert before_certificate(recovered) == ["tierscope trace: 1 log in logs."]
    (log,) = (tmp_path / "logs").iterdir()
    assert list(sums(log)[2]["bytes_read"].values()) == [3]
    again = subprocess.run(
        [*COMMAND, "--recover", "logs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert again.returncode == 125
    assert again.stderr.startswith("tierscope trace: --recover: got 'logs', expected")


def test_what_an_ended_call_has_left_blocks_no_other(tmp_path):
    """Of a full disk, of another user, or of a call that was killed at its start."""
    for name, text in (("empty", ""), ("odd", "{}"), ("none", None)):
        folder = tmp_path / "logs" / f".tierscope-{name}"
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "call.json").write_text(text)
    done, _ = traced(tmp_path, "true")
    assert (done.returncode, done.stderr.count("killed")) == (0, 0)


@pytest.mark.parametrize("paths", ["", "a\nb"])
def test_refused_path_leaves_nothing(tmp_path, paths):
    done, _ = traced(tmp_path, "true", options=("--paths", paths))
    assert done.returncode == 125
    assert not (tmp_path / "logs").exists()


def test_running_call_does_not_keep_a_killed_one_from_being_recovered(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("abc")
    kill = "import os, signal; open('data/file').read(); os.kill(os.getppid(), 9)"
    traced(tmp_path, sys.executable, "-S", "-c", kill)
    recover = f"{sys.executable} {COMMAND[1]} trace --recover logs"
    # Who recovers looks at the folders of data that was read.
    done, logs = traced(tmp_path, "sh", "-c", recover, options=("--paths", "none"))
    assert (done.returncode, len(logs)) == (0, 1)
