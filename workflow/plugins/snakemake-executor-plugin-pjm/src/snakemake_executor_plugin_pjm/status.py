"""PJM's answers about jobs: the output of pjsub and pjstat, and exit codes in words.

Sources: Fugaku user guide "Use and job execution", "Displaying a job status" and
"Checking when a job ends abnormally"; rows that pjstat printed on Fugaku and on other
systems of the Technical Computing Suite (the tests name them).
"""

import re
from dataclasses import dataclass

SUBMITTED = re.compile(r"^\[INFO\] PJM 0000 pjsub Job (\d+) submitted\.", re.MULTILINE)

# START_DATE contains a blank and may be in parentheses, and REASON is cut, so columns
# cannot be counted. Model and state are found from the left, codes by their pattern.
ROW = re.compile(r"(?P<job_id>\d+)\s+\S+\s+[A-Z]{2}\s+(?P<state>[A-Z]{3})\s")
CODES = re.compile(r"\s[A-Z]{3}\s+(\d+)\s+(\d+)\s+(\d+)\s+(?:\d+|-)\s")

ENDED = {
    "EXT": "it has ended",
    "CCL": "it was cancelled",
    "ERR": "PJM failed to run it",
    "RJT": "PJM rejected it",
}

PJM_CODES = {
    1: "it was cancelled with pjdel",
    2: "PJM rejected it",
    3: "PJM's exit function refused to run it",
    4: "it was held with pjhold",
    6: "a job that it depends on did not end as required",
    7: "it was cancelled for a system shutdown (deadline)",
    8: "PJM's exit function cancelled it",
    9: "it was interrupted and may not be run again",
    11: "it reached its elapse limit",
    12: "it used more memory than its limit",
    13: "it used more disk than its limit",
    16: "its working directory or log could not be reached",
    18: "it was stopped for another job, past its minimum time",
    20: "a node went down",
    21: "its shell could not be started",
    22: "the interconnect failed",
    23: "a node ran out of memory",
    25: "a high-availability failure",
    26: "PJM's prologue or epilogue failed",
    27: "PJM's resource management failed at the end",
}


# A shell's exit status for a signal, and the signal that PJM sends at the elapse limit.
SIGNALLED = 128
XCPU = 24


class StatusError(Exception):
    """PJM's answer about jobs is missing or cannot be read."""


@dataclass(frozen=True)
class JobStatus:
    """State of a job, and its exit, PJM and signal codes if pjstat printed them."""

    state: str
    exit_code: int | None = None
    pjm_code: int | None = None
    signal: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, with success or not."""
        return self.state in ENDED


def submitted_job_id(text: str) -> str | None:
    """Return the job ID from what pjsub printed, None if it submitted nothing.

    The text decides, because a failed pjsub returned 0 in a known case.
    """
    match = SUBMITTED.search(text)
    return match[1] if match else None


def read_job_table(text: str) -> dict[str, JobStatus] | None:
    """Read what ``pjstat -v`` printed.

    Parameters
    ----------
    text : str
        A header and one row per job, or nothing.

    Returns
    -------
    dict of str to JobStatus, or None
        Status by job ID; None if there is no text, not even a header.

    Raises
    ------
    StatusError
        If there is text that is not such a table.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    if not any(line.startswith("JOB_ID") for line in lines):
        raise StatusError(f"pjstat printed no table of jobs but {lines[0][:200]!r}")
    table = {}
    for line in lines:
        if match := ROW.match(line):
            codes = CODES.search(line, match.end())
            numbers = [int(code) for code in codes.groups()] if codes else []
            table[match["job_id"]] = JobStatus(match["state"], *numbers)
        elif re.match(r"\d+\s", line):
            raise StatusError(f"pjstat printed a malformed row: {line[:200]!r}")
    return table


def cause_of_failure(status: JobStatus | None, exit_status: int | None) -> str | None:
    """Return in words why an ended job failed, None if it succeeded.

    Parameters
    ----------
    status : JobStatus or None
        The job's status by pjstat; None if pjstat no longer knows it.
    exit_status : int or None
        Exit status of the command from the job's own file; None without such a file.
    """
    if status:
        if status.pjm_code:
            unknown = "for a reason that is not documented"
            words = PJM_CODES.get(status.pjm_code, unknown)
            return f"{words} (PJM code {status.pjm_code})"
        if status.state != "EXT":
            return ENDED[status.state]
        if status.signal:
            return f"it was ended by signal {status.signal}"
        if status.exit_code:
            return f"its command failed with exit code {status.exit_code}"
        if status.exit_code is None and exit_status is None:
            return "pjstat printed no exit code, and its script recorded none"
    if exit_status == SIGNALLED + XCPU:
        return "it reached its elapse limit (signal XCPU)"
    if exit_status:
        return f"its command failed with exit status {exit_status}"
    return None
