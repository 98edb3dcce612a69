"""Snakemake logger: one line per job, points finished, the cause of a failure last."""

import logging
import sys
import threading
import time
import traceback

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tierscope.analysis import LIST_RULE, AnalysisProgress
from snakemake_logger_plugin_tierscope.errors import advice, error_line, warning_line
from snakemake_logger_plugin_tierscope.failure import Failure, exit_status
from snakemake_logger_plugin_tierscope.jobs import SnakemakeJob
from snakemake_logger_plugin_tierscope.options import given_options, in_options
from snakemake_logger_plugin_tierscope.plan import planned_lines
from snakemake_logger_plugin_tierscope.profile import refuse_unknown_profile
from snakemake_logger_plugin_tierscope.progress import Progress
from snakemake_logger_plugin_tierscope.screen import Screen
from snakemake_logger_plugin_tierscope.spare import SpareLog
from snakemake_logger_plugin_tierscope.words import INTERRUPTED, LOGS, POINTS, is_noise

REFRESH_S = 0.3
_STOPPED = "Stopped. Finished files are kept; the same command continues from there."

refuse_unknown_profile(sys.argv)


class LogHandler(LogHandlerBase):
    """Shows the records that a user of tierscope's workflow needs."""

    def __post_init__(self) -> None:
        # Snakemake's own log may meet a full disk; a traceback each would say no more.
        logging.raiseExceptions = False
        settings = self.common_settings
        self._screen = Screen(sys.stdout if settings.stdout else sys.stderr)
        self._options = given_options()
        self._is_dry = settings.dryrun
        self._is_verbose = settings.verbose or settings.printshellcmds
        self._is_quiet = "all" in map(str, settings.quiet or ())
        self._progress: Progress | AnalysisProgress | None = None
        self._is_announced = False
        self._running: dict[int, SnakemakeJob] = {}
        self._planned: list[logging.LogRecord] = []
        self._failures: dict[int, Failure] = {}
        self._statuses: dict[int | None, int] = {}  # of a job that ends, by thread
        self._spare = SpareLog()
        self._errors: list[str] = []
        self._is_interrupted = False
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._watcher: threading.Thread | None = None
        self._events = {
            None: self._message,
            LogEvent.RUN_INFO: self._run_info,
            LogEvent.JOB_INFO: self._job_info,
            LogEvent.JOB_FINISHED: self._job_finished,
            LogEvent.JOB_ERROR: self._job_error,
            LogEvent.GROUP_ERROR: self._message,
            LogEvent.ERROR: self._error,
        }

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or note it for later."""
        try:
            with self._lock:
                if self._is_verbose:
                    self._screen.line(self.format(record))
                elif show := self._events.get(getattr(record, "event", None)):
                    show(record)
        except Exception as error:
            self._screen.line("".join(traceback.format_exception(error)).rstrip())

    def close(self) -> None:
        """End the watch and say last why jobs have failed."""
        self._end.set()
        if self._watcher:
            self._watcher.join()
        with self._lock:
            self._watcher = None
            self._screen.status("")
            errors, failures = self._errors, list(self._failures.values())
            self._errors, self._failures = [], {}
            lines: list[str] = []
            for failure in failures:
                errors = failure.without_echo(errors)
                lines += ["", *failure.lines()]
            if self._is_interrupted:
                self._is_interrupted = False
                errors = [] if failures else [_STOPPED]
            lines += dict.fromkeys(errors)
            self._say_why([*self._spare.lines_left(), *lines, *advice(lines)])
            self._spare.close()
            self._screen.close()
        super().close()

    def _message(self, record: logging.LogRecord) -> None:
        """Show a message without an event, unless it is noise."""
        text = record.getMessage()
        if self._is_dry and text.startswith("This was a dry-run"):
            self._say(planned_lines(self._planned))
        elif self._progress and (points := POINTS.match(text)):
            self._progress.expect(int(points[1]))
            self._announce()
        elif INTERRUPTED.match(text):
            self._is_interrupted = True
        elif self._is_interrupted and record.levelno < logging.ERROR:
            return  # advice after a failure
        elif not is_noise(record.levelno, text):
            self._say([warning_line(text)])

    def _run_info(self, record: logging.LogRecord) -> None:
        """Say what will be done; a dry run says it in its plan."""
        stats = dict(record.stats)
        if self._is_dry or self._progress:
            return
        stats.pop("total", None)
        of_logs = LIST_RULE in stats
        self._progress = AnalysisProgress() if of_logs else Progress(stats)
        if not self._progress.has_launches:
            self._announce()

    def _announce(self) -> None:
        """Say once what will be done, as soon as the number of points is known."""
        if self._progress and not self._is_announced:
            self._is_announced = True
            if words := self._progress.to_do():
                self._say([f"{self._now()}  {words}"])

    def _job_info(self, record: logging.LogRecord) -> None:
        """Note a job that starts."""
        if self._is_dry:
            self._planned.append(record)
            return
        self._announce()
        self._failures.pop(record.jobid, None)  # it is tried again
        self._running[record.jobid] = SnakemakeJob(record)
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()

    def _job_finished(self, record: logging.LogRecord) -> None:
        """Say that a job has ended."""
        job = self._running.pop(record.job_id, None)
        if job is None or self._progress is None:
            return
        self._follow(job)
        self._progress.finished(job)
        closing = job.closing_words()
        if job.rule == LIST_RULE and (found := LOGS.match("\n".join(closing))):
            self._progress.expect(int(found[1]))
        so_far = self._progress.so_far(self._running.values())
        head = f"{self._now()}  {so_far}"
        if job.is_said:
            self._say([f"{head}  {job.words} ({job.took()})"])
        self._say([*job.warnings, *closing])
        if self._progress.is_complete:
            self._say([f"{head}  Done in {self._progress.took()}."])

    def _job_error(self, record: logging.LogRecord) -> None:
        """Note why a job failed, to say it at the end, unless Ctrl-C has ended it."""
        job = self._running.pop(record.jobid, None) or SnakemakeJob(record)
        self._follow(job)
        if self._is_interrupted:
            return
        # Snakemake has told before, in the same thread, how the job's command ended.
        status = self._statuses.pop(record.thread, 0)
        self._failures[record.jobid] = Failure(job, record, self._spare, status)
        line = f"Failed after {job.took()}: {job.words}"
        words = self._failures[record.jobid].scheduler_words
        self._say([f"{self._now()}  {'. '.join([line, *words])}"])

    def _error(self, record: logging.LogRecord) -> None:
        """Note an error of Snakemake or of the workflow; jobs report their own."""
        self._statuses[record.thread] = exit_status(record.getMessage())
        if line := error_line(record.getMessage(), sys.argv):
            self._errors.append(line)

    def _watch(self) -> None:
        """Follow the running jobs until the end."""
        while not self._end.wait(REFRESH_S):
            with self._lock:
                for job in self._running.values():
                    self._follow(job)
                self._show_status()

    def _follow(self, job: SnakemakeJob) -> None:
        """Show the new lines of a job's log."""
        for line in job.news():
            if not self._screen.is_terminal or line.is_head:
                self._say([f"{self._now()}    {line.text}"])

    def _show_status(self) -> None:
        """Show the running jobs on a terminal."""
        doing = [job.status() for job in self._running.values()]
        if self._progress and (doing := list(filter(None, doing))):
            so_far = self._progress.so_far(self._running.values())
            self._screen.status(f"{so_far}  {'; '.join(doing)}")

    def _say(self, lines: list[str]) -> None:
        if not self._is_quiet and lines:
            self._screen.line("\n".join(lines))

    def _say_why(self, lines: list[str]) -> None:
        """Say why something failed, with the options that the user has typed."""
        self._screen.line(in_options("\n".join(lines), self._options))

    def _now(self) -> str:
        return time.strftime("%H:%M:%S")

    @property
    def writes_to_stream(self) -> bool:
        """It replaces Snakemake's own text on the terminal."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """It writes no file; Snakemake writes its own log."""
        return False

    @property
    def has_filter(self) -> bool:
        """It chooses the records itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It lets Snakemake's formatter format records for `--verbose`."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """It draws no graph."""
        return False
