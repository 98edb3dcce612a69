"""Snakemake executor for PJM, the job manager of Fujitsu's Technical Computing Suite.

Every job becomes a PJM job that runs Snakemake again. One ``pjstat -v`` per cycle shows
the status of all of them.
"""

import os
import re
import secrets
import shlex
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import (
    CommonSettings,
    ExecutorSettingsBase,
    SharedFSUsage,
)
from snakemake_interface_executor_plugins.utils import is_quoted

from .commands import TIMEOUT_S, CommandError, NoAnswerError, run
from .records import Record, Records, content
from .status import (
    JobStatus,
    StatusError,
    cause_of_failure,
    read_job_table,
    submitted_job_id,
)
from .submission import (
    JobFiles,
    RefusedError,
    Request,
    job_name,
    job_script,
    pjsub_command,
    read_request,
    refuse_active_shell_syntax,
)

JOBS_PER_COMMAND = 100
UNSEEN_CYCLES = 3
CANCEL_S = 30
PJSUB_TIMEOUT_S = 300
LOG_LINES = 20
LOG_BYTES = 20_000


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor, given as --pjm-NAME or in a profile."""

    python: str | None = field(
        default=None,
        metadata={
            "type": str,
            "help": "Python interpreter on the compute nodes; its folder goes first on "
            "PATH in jobs (default: the one that runs this Snakemake).",
        },
    )
    logdir: str = field(  # text, as the catalogue of plugins writes defaults as JSON
        default=".snakemake/pjm_logs",
        metadata={"help": "Folder for job scripts, logs and statistics."},
    )
    preamble: Path | None = field(
        default=None,
        metadata={
            "type": Path,
            "help": "File of shell commands that each job runs first.",
        },
    )
    llio_gib_per_node: float = field(
        default=87,
        metadata={"help": "First-layer storage of a node for temporary areas, GiB."},
    )
    status_attempts: int = field(
        default=60,
        metadata={"help": "Cycles in a row in which pjstat may fail."},
    )
    missing_attempts: int = field(
        default=12,
        metadata={"help": "Cycles in which a job may be unknown to pjstat."},
    )
    print_only: bool = field(
        default=False,
        metadata={"help": "Print job scripts and pjsub commands, submit nothing."},
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    # The job script sets them itself, quoted for the shell.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=1,
)


class Executor(RemoteExecutor):
    """Submit jobs with pjsub, watch them with pjstat, cancel them with pjdel."""

    def __post_init__(self) -> None:
        self.settings = self.workflow.executor_settings
        self.logdir = Path.cwd() / self.settings.logdir
        self.records = Records(self.logdir / "submitted")
        self.preamble = self._read_preamble()
        self.watched: dict[str, SubmittedJobInfo] = {}
        self.missing_cycles: dict[str, int] = {}
        self.failing_cycles = 0
        self.cancelled = False
        self.submitter = ThreadPoolExecutor(max_workers=1)

    def _read_preamble(self) -> str:
        if not self.settings.preamble:
            return ""
        try:
            text = self.settings.preamble.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise self._refused_preamble(f"cannot be read ({reason})") from error
        if "\0" in text:  # bash would leave it out
            raise self._refused_preamble("got a NUL byte")
        return text

    def _refused_preamble(self, found: str) -> WorkflowError:
        return WorkflowError(
            f"{self.settings.preamble}: {found}; expected a file of shell commands in "
            "UTF-8 (--pjm-preamble)."
        )

    # Submission

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        """Submit jobs; print-only ends here, before Snakemake cleans up outputs."""
        super().run_jobs(jobs)
        if self.settings.print_only:
            raise WorkflowError(f"{len(jobs)} job(s) printed, not submitted.")

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job, or watch it if an earlier Snakemake has submitted it."""
        info = SubmittedJobInfo(job)
        try:
            if self.settings.print_only:
                self._print(info)
            elif not self._adopt(info):
                self._submit(info)
        except RefusedError as error:
            if self.settings.print_only:
                self.print_job_error(info, msg=f"{error}\n")
            else:
                self._fail(info, f"{error}\n")

    def _compose(self, job: JobExecutorInterface) -> tuple[JobFiles, list[str], str]:
        """Return a job's files, its pjsub command line and its script."""
        request = self._request(job)
        name = job_name(job.name)
        files = JobFiles(self.logdir / f"{name}.{secrets.token_hex(4)}")
        pjsub = pjsub_command(request, name, files)
        script = job_script(
            title=describe(job),
            submission=pjsub,
            command=self._job_command(job),
            files=files,
            workdir=Path.cwd(),
            python=self._python(),
            environment=self.envvars(),
            preamble=self.preamble,
            transfer=request.transfer,
        )
        return files, pjsub, script

    def _request(self, job: JobExecutorInterface) -> Request:
        resources = dict(job.resources.items())
        return read_request(describe(job), resources, self.settings.llio_gib_per_node)

    def _job_command(self, job: JobExecutorInterface) -> str:
        """Return the job's Snakemake command, safe for the shell."""
        for path in self.dag.get_unneeded_temp_files(job):
            if is_quoted(path):
                raise RefusedError(
                    f"{describe(job)}: {path!r} would lose its quotes in the job's "
                    "command; expected file names that do not begin with a quote."
                )
        command = self.format_job_exec(job)
        refuse_active_shell_syntax(describe(job), command)
        usage = self.workflow.storage_settings.shared_fs_usage
        if SharedFSUsage.INPUT_OUTPUT in usage:
            paths = [str(path) for path in job.get_wait_for_files()]
            safe = [f"./{path}" if path.startswith("-") else path for path in paths]
            if paths:
                command = f"{command} --wait-for-files {shlex.join(safe)}"
        return command

    def get_job_args(self, job: JobExecutorInterface) -> str:
        """Leave the files to wait for to `_job_command`.

        Snakemake would also wait for its temporary folder, which disappears when this
        Snakemake ends and holds nothing that the job needs.
        """
        return super(RemoteExecutor, self).get_job_args(job)

    def additional_general_args(self) -> str:
        """Avoid the solver, which a single job does not need and nodes may lack."""
        return "--scheduler greedy"

    def get_snakefile(self) -> Path:
        """Return the Snakefile as a path, which Snakemake quotes for the shell."""
        return Path(self.snakefile)

    def get_python_executable(self) -> str:
        """Return the Python of the compute nodes, quoted for the shell."""
        return shlex.quote(self._python())

    def _python(self) -> str:
        return self.settings.python or super().get_python_executable()

    def _print(self, info: SubmittedJobInfo) -> None:
        _, pjsub, script = self._compose(info.job)
        print(f"# {'-' * 78}\n{script}\n# Submitted with\n{shlex.join(pjsub)}\n")
        self.print_job_error(info, msg="printed, not submitted\n")

    def _submit(self, info: SubmittedJobInfo) -> None:
        files, pjsub, script = self._compose(info.job)
        try:
            self.records.folder.mkdir(parents=True, exist_ok=True)
            files.script.touch(mode=0o700, exist_ok=False)
            files.script.write_bytes(os.fsencode(script))
        except OSError as error:
            raise RefusedError(
                f"{describe(info.job)} was not submitted: {error.filename} cannot be "
                f"written ({error.strerror}); name another folder with --pjm-logdir."
            ) from error
        submission = self.submitter.submit(self._pjsub, info, files, pjsub)
        try:
            submission.result()
        except KeyboardInterrupt:
            # Only a known job can be cancelled, so wait for the ID of this one.
            with suppress(RefusedError, WorkflowError, TimeoutError):
                submission.result(timeout=TIMEOUT_S)
            raise

    def _pjsub(self, info: SubmittedJobInfo, files: JobFiles, pjsub: list[str]) -> None:
        """Run pjsub and watch the job."""
        job = info.job
        what = f"{describe(job)} was not submitted"
        try:
            _, output, errors = run(pjsub, PJSUB_TIMEOUT_S)
        except NoAnswerError as error:
            # Not a failed job, which might be tried again and then run twice.
            raise WorkflowError(
                f"{error} and may have submitted {describe(job)}. If pjstat shows a "
                f"job {job_name(job.name)}, end it with pjdel before the next start. "
                f"Command: {shlex.join(pjsub)}"
            ) from error
        except CommandError as error:
            raise RefusedError(f"{what}: {error}.") from error
        job_id = submitted_job_id(f"{output}\n{errors}")
        if job_id is None:
            words = f"{output}\n{errors}".strip() or "nothing"
            raise RefusedError(f"{what}. pjsub says: {words}\n{shlex.join(pjsub)}")
        if job_id in self.watched:
            other = describe(self.watched[job_id].job)
            raise RefusedError(
                f"{what}: pjsub gave it the ID {job_id} of {other}, whose job has not "
                f"ended. Command: {shlex.join(pjsub)}"
            )
        self._watch(info, job_id, files)
        try:
            self.records.write(job, job_id, files.stem)
        except OSError as error:
            self.logger.warning(
                f"{error.filename} cannot be written ({error.strerror}): after a kill, "
                f"the next start would not find PJM job {job_id}."
            )
        self.logger.info(
            f"Submitted {describe(job)} as PJM job {job_id} (log: {files.log})."
        )

    def _watch(self, info: SubmittedJobInfo, job_id: str, files: JobFiles) -> None:
        info.external_jobid = job_id
        info.aux = {"files": files}
        self.watched[job_id] = info
        self.report_job_submission(info)

    # Jobs that an earlier Snakemake has submitted

    def _adopt(self, info: SubmittedJobInfo) -> bool:
        """Watch the job that an earlier Snakemake submitted unless it has failed."""
        record = self.records.read(info.job)
        if record is None or record.job_id in self.watched:
            return False
        files = JobFiles(Path(record.stem))
        same = record.content == content(info.job)
        # It may have succeeded since this Snakemake made its plan.
        has_succeeded = same and has_outputs(info.job) and read_exit_status(files) == 0
        if self._has_ended(record, files) and not has_succeeded:
            self.records.remove(info.job)
            return False
        if not same:
            raise RefusedError(
                f"{describe(info.job)}: PJM job {record.job_id} of an earlier start "
                "has not ended, and has other inputs, parameters or commands. Wait for "
                f"its end, or end it with pjdel {record.job_id}; then start again."
            )
        self.logger.info(
            f"PJM job {record.job_id} of an earlier start continues as "
            f"{describe(info.job)}; not submitted again (log: {files.log})."
        )
        self._watch(info, record.job_id, files)
        return True

    def _has_ended(self, record: Record, files: JobFiles) -> bool:
        """Return whether a job is known to have ended."""
        try:
            table = self._pjstat() or {}
            if record.job_id not in table:
                table |= self._pjstat("-H", record.job_id) or {}
        except StatusError:
            return False
        if status := table.get(record.job_id):
            return status.has_ended
        return read_exit_status(files) is not None

    # Status

    def _pjstat(self, *options: str) -> dict[str, JobStatus] | None:
        """Return the status of jobs by ID, None if pjstat prints nothing."""
        try:
            code, output, errors = run(["pjstat", "-v", *options])
        except CommandError as error:
            raise StatusError(str(error)) from error
        if code:
            words = f"{output}\n{errors}".strip()[:500]
            raise StatusError(f"pjstat failed with exit code {code}: {words}")
        return read_job_table(output)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report jobs that have ended; yield the others."""
        if not active_jobs or self.cancelled:
            for info in active_jobs:
                yield info
            return
        async with self.status_rate_limiter:
            table, trouble = self._look(active_jobs)
        if self.cancelled:
            trouble, table = None, {}
        self.failing_cycles = self.failing_cycles + 1 if trouble else 0
        if self.failing_cycles == 1:
            self.logger.warning(f"{trouble}; trying again.")
        for info in active_jobs:
            status = table.get(info.external_jobid)
            exit_status = read_exit_status(info.aux["files"])
            if self.cancelled or (status and not status.has_ended):
                self.missing_cycles.pop(info.external_jobid, None)
                yield info
            elif status:
                self._report(info, cause_of_failure(status, exit_status), status)
            elif exit_status is not None and self._is_unseen(info):
                self._report(info, cause_of_failure(None, exit_status))
            elif not (loss := self._loss(info, trouble)):
                yield info
            else:
                # It may still run, unseen, while its outputs are removed.
                self._pjdel([info.external_jobid])
                self._report(info, loss)

    def _look(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> tuple[dict[str, JobStatus], str | None]:
        """Return the status of jobs by ID, and what is wrong with pjstat, if any."""
        try:
            table = self._pjstat()
        except StatusError as error:
            return {}, str(error)
        ids = [info.external_jobid for info in active_jobs]
        if not (gone := [job_id for job_id in ids if job_id not in (table or {})]):
            return table, None
        try:
            ended = self._pjstat("-H", *gone)
        except StatusError as error:
            return table or {}, str(error)
        silent = table is None and ended is None
        trouble = "pjstat printed nothing" if silent else None
        return (table or {}) | (ended or {}), trouble

    def _is_unseen(self, info: SubmittedJobInfo) -> bool:
        """Return whether pjstat has not shown a job for some cycles."""
        # Between running and history may be a gap; history says which limit was hit.
        missing = self.missing_cycles.get(info.external_jobid, 0)
        return missing + self.failing_cycles >= UNSEEN_CYCLES

    def _loss(self, info: SubmittedJobInfo, trouble: str | None) -> str | None:
        """Return why to give up a job that pjstat does not show, None to keep it."""
        if trouble:
            if self.failing_cycles < self.settings.status_attempts:
                return None
            return (
                f"its status has been unknown for {self.failing_cycles} cycles, and it "
                f"was cancelled: {trouble}"
            )
        missing = self.missing_cycles.get(info.external_jobid, 0) + 1
        self.missing_cycles[info.external_jobid] = missing
        if missing < self.settings.missing_attempts:
            return None
        return f"PJM no longer knows job {info.external_jobid}, and it left no result"

    def _report(
        self, info: SubmittedJobInfo, cause: str | None, status: JobStatus | None = None
    ) -> None:
        """Report the end of a job, with the cause if it failed."""
        files, job_id = info.aux["files"], info.external_jobid
        self.watched.pop(job_id, None)
        self.missing_cycles.pop(job_id, None)
        self.records.remove(info.job)
        if cause is None:
            self.report_job_success(info)
            return
        codes = ""
        if status:
            codes = (
                f" ({status.state}, EC {status.exit_code}, PC {status.pjm_code}, "
                f"SN {status.signal})"
            )
        logs = [str(path) for path in (files.log, files.statistics) if path.exists()]
        words = f"PJM job {job_id}, {describe(info.job)}: {cause}{codes}.\n"
        self._fail(info, f"{words}{last_lines(files.log)}\n", aux_logs=logs)

    def _fail(self, info: SubmittedJobInfo, words: str, **logs: list[str]) -> None:
        """Report a failure; for groups of rules, Snakemake drops the message."""
        if info.job.is_group():
            self.logger.error(words)
        self.report_job_error(info, msg=words, **logs)

    # Cancelling

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs and wait, up to a limit, until PJM has ended them."""
        self.cancelled = True
        watched = dict(self.watched)
        self._pjdel([*watched])
        end = time.monotonic() + CANCEL_S
        while (left := self._still_active(watched)) and time.monotonic() < end:
            time.sleep(1)
        for job_id, info in watched.items():
            if job_id not in left:
                self.records.remove(info.job)
        if left:
            self.logger.error(
                f"PJM jobs {' '.join(left)} have not ended within {CANCEL_S} s, as far "
                "as is known. Check with pjstat, end them with pjdel."
            )

    def _still_active(self, watched: dict[str, SubmittedJobInfo]) -> list[str]:
        """Return the jobs that have not ended; all of them if PJM does not answer."""
        if not watched:
            return []
        try:
            table = self._pjstat() or {}
        except StatusError:
            return [*watched]
        return [i for i in watched if i in table and not table[i].has_ended]

    def _pjdel(self, job_ids: list[str]) -> None:
        """Cancel jobs; log the error messages of pjdel."""
        for start in range(0, len(job_ids), JOBS_PER_COMMAND):
            try:
                code, output, errors = run(
                    ["pjdel", *job_ids[start : start + JOBS_PER_COMMAND]]
                )
            except CommandError as error:
                self.logger.error(
                    f"{error}: PJM jobs {' '.join(job_ids)} may still run."
                )
                continue
            objections = re.findall(r"^.*\[ERR\.\].*$", f"{output}\n{errors}", re.M)
            if code and not objections:
                objections = [f"pjdel failed with exit code {code}: {output}{errors}"]
            for objection in objections:
                self.logger.warning(objection.strip())


def describe(job: JobExecutorInterface) -> str:
    """Return a description by which users recognise a job."""
    kind = "group" if job.is_group() else "rule"
    outputs = [str(path) for path in job.output]
    more = f" and {len(outputs) - 1} more" if len(outputs) > 1 else ""
    return f"{kind} {job.name}" + (f" ({outputs[0]}{more})" if outputs else "")


def has_outputs(job: JobExecutorInterface) -> bool:
    """Return whether all outputs of a job exist."""
    jobs = job.jobs if job.is_group() else [job]
    return all(Path(path).exists() for one in jobs for path in one.output)


def read_exit_status(files: JobFiles) -> int | None:
    """Return the exit status that a job's script recorded, None without one."""
    try:
        return int(files.exit_status.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def last_lines(log: Path) -> str:
    """Return the end of a log with its path above it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    except OSError as error:
        return f"Log {log}: cannot be read ({error.strerror})."
    if not lines:
        return f"Log {log}: is empty."
    return "\n".join([f"Last lines of {log}:", *(f"    {line}" for line in lines)])
