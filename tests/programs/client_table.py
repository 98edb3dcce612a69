"""Programs by others, and the table in `README.md` of what runs say of them."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.audit.program import NO, NOT_MEASURED, YES
from write_documents import table

if TYPE_CHECKING:  # those who only read the page do not launch
    from integration.programs import Ran

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-programs" / "bin"
PAGE = ROOT / "tests" / "programs" / "README.md"
BEGIN = "<!-- made by make test-programs WRITE=1 -->\n"
END = "<!-- end of what was made -->\n"
POLICIES = ("pinning", "monarch")
ASKED = ("cover", "once", "whole")
FIRST = f"{YES}, {NO}, {NO}"  # only the first of three epochs
_HEADER = (
    "program",
    *(f"tier, {policy}" for policy in POLICIES),
    f"% of opens on the LFS by epoch, {POLICIES[-1]}",
    "epochs",
    *ASKED,
    "in words",
)
_OF_DATASETS = "rate"  # a statement that is about the sizes of files only
_HERE = Path(__file__).parent / "clients"
_MODULES = (
    "torch",
    "lightning",
    "tensorflow",
    "keras",
    "numpy",
    "h5py",
    "lmdb",
    "webdataset",
    "datasets",
    "pyarrow",
    "PIL",
)
_VERSIONS = """
import sys
from importlib.metadata import packages_distributions, version
found = packages_distributions()
print(", ".join(f"{found[name][0]} {version(found[name][0])}" for name in sys.argv[1:]))
"""
_DLIO = (
    f"{BIN}/mpiexec -n 2 {BIN}/dlio_benchmark workload=default "
    "++workload.workflow.evaluation=False ++workload.dataset.num_files_train=64 "
    "++workload.dataset.num_subfolders_train=0 ++workload.dataset.record_length=65536 "
    "++workload.train.epochs=3 ++workload.train.computation_time=0.05 "
    "++workload.output.folder=out ++workload.dataset.data_folder={dataset}"
).split()


@dataclass(frozen=True)
class Client:
    """A program, and what is known of it.

    Parameters
    ----------
    title : str
        What the table calls it.
    samples : str
        Kind of files that it reads, as `make_samples.py` has them.
    command : tuple of str
        The program, with ``{dataset}``.
    opens : tuple of int
        Least and most opens in its first epoch.
    known : dict of str to str
        What the table must say of cover, once or whole.
    needs : str
        A program of the machine without which it cannot be made or run.
    """

    title: str
    samples: str
    command: tuple[str, ...]
    opens: tuple[int, int]
    known: Mapping[str, str]
    needs: str = "sh"

    @property
    def is_possible(self) -> bool:
        """Return whether the machine has what it needs."""
        return shutil.which(self.needs) is not None


@dataclass(frozen=True)
class Row:
    """What a run says of a program: whether tiers are right, answers, and words.

    `n_opens` and `n_lfs` are the opens of each epoch, and those on the LFS.
    """

    tier: str
    n_opens: list[int]
    n_lfs: list[int]
    answers: dict[str, str]
    words: list[str]


def row_of(run: "Ran") -> Row:
    """Return what the audit and the statements of a run say."""
    epochs = [run.said(epoch) for epoch in range(run.evidence.n_epochs)]
    tier, _ = run.said()["tier"]
    answers = {}
    for name in ASKED:
        found = [said[name][0] for said in epochs if name in said]
        answers[name] = found[0] if len(set(found)) == 1 else ", ".join(found)
    words = [
        words
        for name, (answer, words) in run.said().items()
        if answer != YES and name != _OF_DATASETS
    ]
    words += [line for name in ASKED for line in _words_of(epochs, name)]
    opens = run.evidence.opens
    n_opens, n_lfs = (
        some.groupby("epoch")["opens"].sum().reindex(range(len(epochs)), fill_value=0)
        for some in (opens, opens[opens["tier"] == "lfs"])
    )
    right = NO if run.failed else tier
    return Row(right, n_opens.tolist(), n_lfs.tolist(), answers, words)


def _words_of(epochs: Sequence[Mapping], name: str) -> Iterator[str]:
    """Yield the words of epochs that have an answer other than yes, each once."""
    found: dict[str, list[int]] = {}
    for epoch, said in enumerate(epochs):
        answer, words = said.get(name, (YES, ""))
        if answer != YES:
            found.setdefault(words, []).append(epoch)
    for words, where in found.items():
        is_all = len(where) == len(epochs)
        label = "Epoch" if len(where) == 1 else "Epochs"
        yield words if is_all else f"{label} {', '.join(map(str, where))}: {words}"


def write_page(rows: Mapping[tuple[str, str], Row]) -> None:
    """Write the table of all clients into the page, with the date and the versions.

    `rows` has the keys (title, policy). Clients that did not pass keep their line; a
    ValueError says which have none.
    """
    before, rest = PAGE.read_text().split(BEGIN)
    old, after = rest.split(END)
    lines = {cells[0]: cells for cells in map(_cells_of, old.splitlines())}
    new = {
        one.title: _line(one, rows)
        for one in CLIENTS
        if all((one.title, policy) in rows for policy in POLICIES)
    }
    titles = [one.title for one in CLIENTS if one.title in new | lines]
    kept = [title for title in titles if title not in new]
    versions = subprocess.run(
        [BIN / "python", "-c", _VERSIONS, *_MODULES],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    older = f" {len(kept)} lines are older." if kept else ""
    made = f"Made on {datetime.now(UTC):%Y-%m-%d} with {versions.stdout.strip()}."
    shown = [(lines | new)[title] for title in titles]
    made += f"{older}\n\n{table(shown, _HEADER)}"
    PAGE.write_text(f"{before}{BEGIN}{made}{END}{after}")
    if lacking := [one.title for one in CLIENTS if one.title not in titles]:
        raise ValueError(f"the table needs all clients, but lacks {lacking}")


def _cells_of(line: str) -> tuple[str, ...]:
    """Return the cells of a line of the table."""
    return tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))


def _line(client: Client, rows: Mapping[tuple[str, str], Row]) -> tuple[str, ...]:
    """Return the cells of a client."""
    of = {policy: rows[client.title, policy] for policy in POLICIES}
    last = of[POLICIES[-1]]
    shares = zip(last.n_opens, last.n_lfs, strict=True)
    return (
        client.title,
        *(row.tier for row in of.values()),
        ", ".join(f"{100 * lfs / n:.0f}" if n else "-" for n, lfs in shares),
        _both({policy: [str(len(row.n_opens))] for policy, row in of.items()}),
        *(
            _both({policy: [row.answers[name]] for policy, row in of.items()})
            for name in ASKED
        ),
        _both({policy: row.words for policy, row in of.items()}),
    )


def _both(texts: Mapping[str, Sequence[str]]) -> str:
    """Return the texts of the first policy, and those of others that are new."""
    (_, first), *others = texts.items()
    more = [
        (policy, [one for one in all_ if one not in first]) for policy, all_ in others
    ]
    added = [f"(`{policy}`: {' '.join(new)})" for policy, new in more if new]
    return " ".join([*first, *added])


def _python(program: str, *words: str) -> tuple[str, ...]:
    """Return the command of a client in Python."""
    return (f"{BIN}/python", f"{_HERE}/{program}_client.py", *words, "{dataset}")


def _formats(title: str, samples: str, how: str, opens: int, **known: str) -> Client:
    """Return a program of PyTorch that reads in some way."""
    command = _python("formats", how)
    return Client(title, samples, command, (opens, opens), known)


def _tensorflow(title: str, samples: str, kind: str, *opens: int, **known: str):
    """Return a program of TensorFlow."""
    return Client(title, samples, _python("tensorflow", kind), opens, known)


def _dlio(kind: str, loader: str, most_opens: int, **known: str) -> Client:
    """Return DLIO with two ranks and 64 files of a kind."""
    title = f"DLIO 2.0.0, two ranks, 64 files: {kind} by its {loader} loader"
    options = {
        "framework": loader.lower(),
        "reader.data_loader": loader.lower(),
        "dataset.format": kind.lower(),
    }
    words = (f"++workload.{key}={value}" for key, value in options.items())
    command = (*_DLIO, *words)
    return Client(title, f"dlio-{kind.lower()}", command, (64, most_opens), known)


def _reader(title: str, samples: str, source: str, *build: str) -> Client:
    """Return a program that a compiler makes of a source beside the others."""
    needs, *options = build
    script = (
        f"{needs} {' '.join(options)} -o reader {_HERE}/{source} && exec ./reader $1"
    )
    command = ("sh", "-c", script, "reader", "{dataset}")
    return Client(title, samples, command, (32, 32), _ALL, needs)


def _shell(title: str, reads: str, **known: str) -> Client:
    """Return a script that marks its epochs, and reads the files in some way."""
    script = (
        'for n in 0 1 2; do { true < "$1/.tierscope-epoch-$n"; } 2> /dev/null || true; '
        f"{reads}; sleep 0.5; done"
    )
    return Client(
        title, "raw", ("sh", "-c", script, "sh", "{dataset}"), (32, 32), known
    )


_ALL = {"cover": YES, "once": YES, "whole": YES}
_MAPPED = {"cover": YES, "whole": NOT_MEASURED}
CLIENTS = (
    _formats("PyTorch, `read()`", "raw", "read", 32, **_ALL),
    _formats("PyTorch, `np.fromfile`", "raw", "fromfile", 32, **_ALL),
    _formats("PyTorch, `shutil.copyfile`", "raw", "copy", 32, **_ALL),
    _formats("PyTorch, `np.load`", "npy", "numpy", 32, cover=YES, once=YES),
    _formats("PyTorch, `np.load(mmap_mode='r')`", "npy", "numpy-mmap", 96, **_MAPPED),
    _formats("PyTorch, `np.memmap(mode='r')`", "raw", "memmap", 32, **_MAPPED),
    _formats("PyTorch, checkpoint with `fsync`", "raw", "checkpoint", 32, **_ALL),
    _formats("PyTorch, `torch.load`", "torch", "torch", 32, cover=YES, once=YES),
    _formats("PyTorch, `torch.load(mmap=True)`", "torch", "torch-mmap", 64, **_MAPPED),
    _formats("PyTorch, pictures by PIL", "png", "picture", 32, **_ALL),
    _formats("h5py, a file opened for each sample", "hdf5", "hdf5", 64, once=NO),
    _formats("h5py, files kept open", "hdf5", "hdf5-kept", 8, cover=FIRST),
    _formats("h5py, a file opened for all of it", "hdf5", "hdf5-shards", 8, once=YES),
    _formats("LMDB, kept open", "lmdb", "lmdb", 16, cover=FIRST, whole=NOT_MEASURED),
    _formats("tarfile, by path", "tar", "tar", 32, cover=YES, once=NO),
    _formats("tarfile, as a stream", "tar", "tar-stream", 8, **_ALL),
    _formats("webdataset", "tar", "webdataset", 8, **_ALL),
    _formats("datasets of Hugging Face", "datasets", "datasets", 10, cover=FIRST),
    _formats("MDS, by mosaicml-streaming", "mds", "mds", 65, cover=FIRST, once=NO),
    _formats("pyarrow, Parquet", "parquet", "parquet", 16, cover=YES),
    _formats("pyarrow, `memory_map`", "arrow", "arrow-mmap", 8, once=YES, **_MAPPED),
    Client(
        "Lightning, with validation",
        "raw",
        _python("lightning"),
        (32, 48),
        {"cover": YES, "whole": YES},
    ),
    _tensorflow("tf.data, with validation", "parts", "loop", 32, 32, **_ALL),
    _tensorflow("tf.data, `cache()`", "raw", "cache", 32, 32, cover=FIRST),
    _tensorflow("tf.data, endless iterator", "raw", "endless", 96, 960, once=NO),
    _tensorflow("Keras, `fit` with validation", "parts", "keras", 32, 32, whole=YES),
    _tensorflow("Keras, `steps_per_epoch`", "raw", "keras-steps", 32, 128, whole=YES),
    _tensorflow("Keras, folder of pictures", "classes", "keras-images", 32, 32, **_ALL),
    _shell("shell, `cat *` into `wc`", 'cat "$1"/train/* | wc -c', **_ALL),
    _shell(
        "shell, `wc < FILE`",
        'for file in "$1"/train/*; do wc -l < "$file"; done',
        **_MAPPED | {"once": YES},
    ),
    _reader("C, `fread`", "npy", "reader.c", "cc", "-O2"),
    _reader("Rust, `fs::read`", "raw", "reader.rs", "rustc"),
    Client(
        "Node.js, `readFileSync`",
        "raw",
        ("node", f"{_HERE}/reader.js", "{dataset}"),
        (32, 32),
        {"cover": YES, "once": YES},
        "node",
    ),
    _dlio("TFRecord", "TensorFlow", 128, cover=YES, whole=YES),
    _dlio("npz", "PyTorch", 64, cover=YES, once=YES),
    _dlio("HDF5", "PyTorch", 64, cover=YES, once=YES),
    _dlio("npz", "TensorFlow", 128),
)
