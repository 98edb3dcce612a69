"""Which of Snakemake's messages a user does not need, and how to word numbers."""

import logging
import re

INTERRUPTED = re.compile(
    "Terminating processes on user request|Cancelling snakemake on user request"
    "|Will exit after finishing currently running jobs"
)
_NOISE = re.compile(
    r"Assuming unrestricted shared filesystem|Building DAG of jobs|Using shell:"
    r"|Provided (cores|resources|remote nodes)|Rules claiming more threads"
    r"|Conda environments: ignored|Singularity containers: ignored"
    r"|Select jobs to execute|Execute \d+ jobs|Job stats:|host: |Config file "
    r"|Write-protecting output|Removing output files of failed job|Shutting down"
    r"|Exiting because a job execution failed|Complete log|Elapsed time"
    r"|Touching output|Reasons:|Would remove|This was a dry-run|Waiting at most"
    r"|Updating checkpoint dependencies|DAG of jobs will be updated"
    r"|The run involves checkpoint jobs|Removing temporary output|None$"
    r"|Cancelling snakemake|\s*$"
)

# The workflow says it before its first launch.
POINTS = re.compile(r"Points to measure: (\d+)")
# An analysis of logs says it when it has listed them.
LOGS = re.compile(r"Logs in chunks that are new or changed: (\d+) of ")
# Other messages already say this.
_ECHO = re.compile(r"Exiting because a job execution failed|Failed to setup log file")


def is_noise(level: int, text: str) -> bool:
    """Return whether a message says nothing about progress or errors."""
    if level >= logging.ERROR:
        return bool(_ECHO.match(text))
    return bool(_NOISE.match(text))


def family(rule: str) -> str:
    """Return the name of a rule without its number: one line shows all of a family."""
    return re.sub(r"_\d+$", "", rule)


def plural(number: int, name: str) -> str:
    """Return a number of things in words."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration in suitable units."""
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"
