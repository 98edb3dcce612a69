"""Rules that a measurement of real storage should meet, checked before it begins.

The bounds are those of MLPerf Storage (MLCommons, github.com/mlcommons/storage,
Rules.md, 3.1.2): a dataset of at least five times the memory of all nodes, and at least
500 steps an epoch for each process. Emulated and simulated storage has no page cache,
so the rules are not for it.
"""

import math
from dataclasses import dataclass

from tierscope.core.scenario import Dataset, UserDataset
from tierscope.core.words import count_words, size_words
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.system import System
from tierscope.storage.own_folder import (
    check_own_folder,
    check_way,
    check_writable,
)
from tierscope.storage.room import (
    FileSystem,
    check_memory,
    file_system,
    memory_bytes,
)

LEAST_MEMORIES = 5
LEAST_STEPS = 500
_GIB = 1 << 30


@dataclass(frozen=True)
class Room:
    """What a system has room for; None is unknown.

    Parameters
    ----------
    memory_bytes : int, optional
        Memory of all nodes together.
    lfs_bytes : int, optional
        Free room on the LFS: of a node, or of all virtual nodes together.
    gfs, lfs : FileSystem, optional
        File systems of the tiers, if they are those of this machine.
    """

    memory_bytes: int | None
    lfs_bytes: int | None
    gfs: FileSystem | None = None
    lfs: FileSystem | None = None


def read_room(system: System) -> Room:
    """Return the room of a system: from its file, or else that of this machine.

    A system with a scheduler runs on other machines, of which only the file tells.

    Raises
    ------
    OSError
        If nothing can be found out about a tier on this machine.
    """
    memory, lfs_bytes, gfs, lfs = None, None, None, None
    if system.job.scheduler is None:
        memory = memory_bytes() * _n_machines(system)  # all like this one
        gfs, lfs = (file_system(tier.data_root()) for tier in (system.gfs, system.lfs))
        lfs_bytes = lfs.free_bytes
    if (gib := system.job.memory_gib_per_node) is not None:
        memory = int(gib * _GIB) * _n_machines(system)
    if (gib := system.job.lfs_gib_per_node) is not None:
        lfs_bytes = int(gib * _GIB)
    return Room(memory, lfs_bytes, gfs, lfs)


def check_places(system: System) -> None:
    """Refuse roots of tiers that cannot be used, as far as this machine can tell.

    Raises
    ------
    TierError
        If the root of a tier contains a variable that is not set.
    FolderError
        If other users can change what it holds.
    OSError
        If this user cannot write to it.
    """
    gfs = system.gfs.data_root()
    check_way(gfs)
    check_writable(gfs.parent)
    # Otherwise the LFS is on other machines, or may not be there yet.
    if system.job.scheduler is None and not system.job.setup:
        check_own_folder(system.lfs.data_root().parent)


def check_ideal_memory(
    system: System, dataset: Dataset | UserDataset, listed_bytes: int = 0
) -> None:
    """Refuse the directory of ideal runs if it cannot hold a dataset in memory.

    Jobs of a scheduler have the memory of other machines, where a launch looks itself.

    Parameters
    ----------
    system : System
        The system, not yet ideal.
    dataset : Dataset or UserDataset
        The dataset.
    listed_bytes : int, optional
        Bytes of a dataset of the user, 0 if its files are not listed yet.

    Raises
    ------
    TierError
        With what was found and what is expected.
    FolderError, OSError
        If others could change what the directory holds, or it cannot be written.
    """
    if system.job.scheduler is not None or system.job.setup:
        return
    ideal = system.ideal()
    root = ideal.lfs.data_root().parent
    check_own_folder(root)
    n_bytes = listed_bytes
    if isinstance(dataset, Dataset):
        n_bytes = dataset.n_files * dataset.file_size_bytes
    # What a killed launch has left there is removed by the next one, which looks again.
    is_empty = not ideal.lfs.data_root().exists()
    n_copies = system.n_nodes if system.virtual_nodes else 1
    check_memory(root, n_bytes * n_copies * is_empty)


def plan_lines(
    experiment: Experiment, room: Room | None = None, *, cold: bool
) -> list[str]:
    """Return what to know of a planned measurement: a line for each rule.

    Parameters
    ----------
    experiment : Experiment
        A checked experiment.
    room : Room, optional
        What its system has room for, by default `read_room`.
    cold : bool
        Whether files leave the page cache before each epoch.

    Returns
    -------
    list of str
        Empty if no real storage is measured: then no tier is looked at.
    """
    if experiment.source != "measured":
        return []
    system, lines = experiment.system, []
    room = room or read_room(system)
    in_memory = [t for t in (room.gfs, room.lfs) if t is not None and t.is_memory]
    for dataset in experiment.datasets.values():
        if experiment.runs_program:
            lines.append(
                f"Dataset {dataset.name}: is read by your program; its files are "
                "listed before the first run."
            )
            continue
        memory, cached = _memory_words(dataset, experiment, room.memory_bytes)
        if cached and len(in_memory) == 2:
            memory += " Both tiers are in memory, so no read can be cold."
        elif cached and cold:
            memory += f" Epochs are read cold (training.cold); otherwise {cached}."
        elif cached:
            memory += f" Without cold reads (training.cold), {cached}."
        lines.append(memory)
        lines.append(_steps_line(dataset, system))
    if not experiment.runs_program:
        lines.append(_lfs_line(experiment, room.lfs_bytes))
    return lines + _device_lines(room)


def _memory_words(
    dataset: Dataset, experiment: Experiment, memory: int | None
) -> tuple[str, str]:
    """Return how a dataset compares with the memory, and what the latter can serve."""
    system = experiment.system
    n_bytes = dataset.n_files * dataset.file_size_bytes
    head = f"Dataset {dataset.name}, {size_words(n_bytes)}:"
    rule = f"MLPerf Storage expects at least {LEAST_MEMORIES} times the memory"
    if memory is None:
        sentence = (
            f"{head} the memory of the nodes is unknown (job.memory_gib_per_node of "
            f"system {system.name}); {rule}."
        )
        return sentence, _cached(experiment, fits=True, fits_a_node=True)
    n_machines, times = _n_machines(system), n_bytes / memory
    nodes = f"{n_machines} nodes" if n_machines > 1 else "the node"
    where = f"the memory of {nodes} ({size_words(memory)})"
    # Rounded down: 4.99 times the memory does not look like enough.
    size = f"has {math.floor(10 * times) / 10:.1f} times" if times > 1 else "fits into"
    sentence = f"{head} {size} {where}; {rule}."
    if times >= LEAST_MEMORIES:
        return sentence, ""
    fits_a_node = n_bytes <= memory / n_machines
    return sentence, _cached(experiment, times <= 1, fits_a_node)


def _cached(experiment: Experiment, fits: bool, fits_a_node: bool) -> str:
    """Return which reads the page cache can serve, as a clause."""
    # A global shuffle gives most GFS files to other nodes; those of an LFS stay there.
    n_machines = _n_machines(experiment.system)
    if n_machines == 1 or experiment.training.shuffle == "local":
        reads = "all reads" if fits else "a part of the reads"
        since = " after the first epoch" if n_machines > 1 else ""
        return f"{reads}{since} can come from the page cache"
    of_lfs = "all" if fits_a_node else "a part of the"
    return (
        f"about 1 of {n_machines} reads from the GFS in the second epoch, and {of_lfs} "
        "reads from the LFS, can come from the page cache"
    )


def _steps_line(dataset: Dataset, system: System) -> str:
    """Return how many steps a process makes in an epoch."""
    files = math.ceil(dataset.n_files / system.n_processes)
    n_steps = math.ceil(files / dataset.batch_size)
    line = (
        f"Dataset {dataset.name}: {count_words(n_steps, 'step', separator='')} an "
        f"epoch for each process; MLPerf Storage expects at least {LEAST_STEPS}."
    )
    if n_steps >= LEAST_STEPS:
        return line
    return (
        f"{line} The start of an epoch and single late calls weigh more than in a long "
        "epoch."
    )


def _lfs_line(experiment: Experiment, free: int | None) -> str:
    """Return what the LFS must hold at the highest cache rate, and its room."""
    system = experiment.system
    sweep = experiment.sweep.items()
    wanted = max(experiment.job(*one).lfs_bytes for one in sweep)
    if system.virtual_nodes:
        wanted *= system.n_nodes
    rate = max(point.cache_rate_percent for _, points in sweep for point in points)
    each = "" if _n_machines(system) == 1 else " on each node"
    line = f"LFS: needs {size_words(wanted)}{each} at cache rate {rate} %"
    if free is None:
        return (
            f"{line}. Its room is unknown (job.lfs_gib_per_node of system "
            f"{system.name}); a launch that does not fit is refused when it begins."
        )
    if wanted > free:
        return (
            f"{line}, has {size_words(free)}. Launches that do not fit are refused "
            "when they begin."
        )
    return f"{line}, has {size_words(free)}."


def _device_lines(room: Room) -> list[str]:
    """Return what the devices of tiers on this machine cannot tell."""
    if room.gfs is None or room.lfs is None:
        return []
    lines = [
        f"{name}: is in memory ({tier.kind}). Its times are those of memory, not of a "
        "device."
        for name, tier in (("GFS", room.gfs), ("LFS", room.lfs))
        if tier.is_memory
    ]
    if not lines and room.gfs.device == room.lfs.device:
        lines = [
            f"GFS and LFS: both are on the same device, {room.gfs.device}. The figures "
            "compare two directories, not two devices."
        ]
    return lines


def _n_machines(system: System) -> int:
    """Return the number of machines that a system's nodes are on."""
    return 1 if system.virtual_nodes else system.n_nodes
