"""Notes of submitted jobs on disk, so that a later Snakemake finds running jobs.

Snakemake marks the outputs of a submitted job with its external job ID, but as soon as
the job runs, the Snakemake inside it replaces the mark by one without ID. So this
module keeps one file per job, and removes it when the job has ended.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

from .submission import RefusedError


@dataclass(frozen=True)
class Record:
    """A submitted job: its PJM ID, the common path of its files, its content."""

    job_id: str
    stem: str
    content: str


def _hash(parts: Iterable[object]) -> str:
    """Return a hash of objects' representations, without addresses in memory."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr([*parts]))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


def identity(job: JobExecutorInterface) -> str:
    """Return a name that a job has in every start: working folder, rule, wildcards."""
    targets = sorted(
        (spec.rulename, sorted(spec.wildcards_dict.items()))
        for spec in job.get_target_spec()
    )
    return _hash([Path.cwd(), targets])


def content(job: JobExecutorInterface) -> str:
    """Return a hash of a job's inputs, outputs, parameters and command."""
    jobs = sorted(job.jobs, key=identity) if job.is_group() else [job]
    return _hash(
        [[*one.input], [*one.output], [*one.params], [*one.params.keys()], one.shellcmd]
        for one in jobs
    )


class Records:
    """The notes of one log folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def _path(self, job: JobExecutorInterface) -> Path:
        return self.folder / f"{identity(job)}.json"

    def write(self, job: JobExecutorInterface, job_id: str, stem: Path) -> None:
        """Note that a job has been submitted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self._path(job).with_suffix(".new")
        new.write_text(
            json.dumps(asdict(Record(job_id, str(stem), content(job)))),
            encoding="utf-8",
        )
        new.replace(self._path(job))

    def read(self, job: JobExecutorInterface) -> Record | None:
        """Return the note of a job, None if there is none."""
        try:
            return Record(**json.loads(self._path(job).read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise RefusedError(
                f"{self._path(job)}: cannot be read as the note of a submitted job "
                f"({error}); check with pjstat whether it runs, then delete the file."
            ) from error

    def remove(self, job: JobExecutorInterface) -> None:
        """Forget a job."""
        self._path(job).unlink(missing_ok=True)
