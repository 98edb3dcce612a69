"""Write the configuration of an experiment on two directories, unless it is there.

    python measure_two_directories.py NAME GFS_DIRECTORY LFS_DIRECTORY

It chooses the size from room, memory and a short test of both directories, writes
results/NAME/experiment.yaml, and prints what it has chosen. If that file is there for
the same directories, it changes nothing, so that a second start measures the same.
"""

import functools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from snakemake.utils import update_config
from tierscope.core.files import write_text
from tierscope.core.output.streams import end, say
from tierscope.core.processes.children import end_once, listen
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.core.words import size_words
from tierscope.experiment.config import read_experiment
from tierscope.experiment.system import read_system
from tierscope.experiment.two_directories import (
    FILE_BYTES,
    SYSTEM,
    Directory,
    Size,
    choose_size,
    sized_config,
)
from tierscope.storage.own_folder import FolderError, check_way, close_umask
from tierscope.storage.page_cache import drop_opened
from tierscope.storage.room import file_system, memory_bytes

ROOT = Path(__file__).parents[2]
RESOURCES = [Path("resources"), ROOT / "resources"]
FOLDER = "tierscope"  # below both directories, which may hold other files
MOST_TEST_S, MOST_TEST_FILES = 1.0, 1024


def check_directories(gfs: str, lfs: str) -> dict[str, Path]:
    """Return both directories by the name of their tier, with all links resolved.

    Raises
    ------
    ConfigError
        If one is not there, is no directory, or is in the other one.
    """
    found = {}
    for name, text in (("GFS", gfs), ("LFS", lfs)):
        if not text:
            raise ConfigError(f"{name}: got none, expected a directory ({name}=PATH)")
        path = Path(text).expanduser()
        if not path.exists():
            raise ConfigError(
                f"{name}: got {text}, which does not exist, expected a directory"
            )
        if not path.is_dir():
            raise ConfigError(f"{name}: got {text}, a file, expected a directory")
        found[name] = path.resolve()
    if found["GFS"] == found["LFS"]:
        raise ConfigError(
            f"LFS: got {lfs}, the directory of the GFS, expected another one"
        )
    for outer, inner in (("GFS", "LFS"), ("LFS", "GFS")):
        if found[inner].is_relative_to(found[outer]):
            raise ConfigError(
                f"{inner}: got {found[inner]}, which is in {found[outer]} of the "
                f"{outer}, expected directories apart from each other"
            )
    return found


def tried(name: str, path: Path, n_processes: int) -> Directory:
    """Return what is known of a directory, after a test with a few files.

    Raises
    ------
    ConfigError
        If nothing can be written there, or other users could replace it.
    """
    try:
        check_way(path / FOLDER)
        system = file_system(path)
        most = min(MOST_TEST_FILES, system.free_bytes // (4 * FILE_BYTES))
        return Directory(name, str(path), system, *_file_rates(path, n_processes, most))
    except FolderError as error:
        raise ConfigError(f"{name}: {str(error).rstrip('.')}") from error
    except OSError as error:
        raise ConfigError(
            f"{name}: got {path}, expected a directory to which you can write: "
            f"{error.strerror}"
        ) from error


def _file_rates(path: Path, n_threads: int, most: int) -> tuple[float, float]:
    """Return how many files a second threads write to the device, and read uncached."""
    with (
        tempfile.TemporaryDirectory(prefix="tierscope-", dir=path) as folder,
        ThreadPoolExecutor(n_threads) as pool,
    ):
        files: list[Path] = []
        write = functools.partial(_write, content=os.urandom(FILE_BYTES))
        begin = time.perf_counter()
        while not files or (
            len(files) < most and time.perf_counter() < begin + MOST_TEST_S
        ):
            numbers = range(len(files), len(files) + n_threads)
            new = [Path(folder, str(number)) for number in numbers]
            list(pool.map(write, new))
            files += new
        written = time.perf_counter()
        list(pool.map(_read, files))
        read = time.perf_counter()
    return len(files) / (written - begin), len(files) / (read - written)


def _write(path: Path, content: bytes) -> None:
    """Write a file to the device, and drop its pages."""
    with path.open("wb", buffering=0) as file:
        file.write(content)
        drop_opened(file.fileno())


def _read(path: Path) -> None:
    """Read a whole file."""
    path.read_bytes()


def write_config(path: Path, name: str, tiers: dict[str, Path]) -> list[str]:
    """Choose the size, write the configuration, and return what was chosen.

    Raises
    ------
    ConfigError
        If the directories or the name cannot be used.
    """
    system = read_system(SYSTEM, *(folder / "systems" for folder in RESOURCES))
    gfs, lfs = (tried(*tier, system.n_processes) for tier in tiers.items())
    size = choose_size(gfs, lfs, system.n_processes, memory_bytes())
    config = sized_config(name, _roots(tiers), size)
    merged = read_yaml(ROOT / "config" / "config.yaml")
    update_config(merged, config)
    read_experiment(merged, *RESOURCES)
    chosen = chosen_words(gfs, lfs, size)
    lines = [f"# {line}\n" for line in chosen]
    text = "".join(lines) + "\n" + yaml.safe_dump(config, sort_keys=False)
    try:
        write_text(path, text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    return chosen


def _roots(tiers: dict[str, Path]) -> dict[str, str]:
    """Return the directories that tierscope may fill, by tier as in a configuration."""
    return {tier.lower(): str(path / FOLDER) for tier, path in tiers.items()}


def chosen_words(gfs: Directory, lfs: Directory, size: Size) -> list[str]:
    """Return what was found and chosen, for the reader."""
    return [
        *(
            f"{one.name} {one.path}: {one.system.kind} on {one.system.device}, "
            f"{size_words(one.system.free_bytes)} free; took "
            f"{one.write_files_per_s:.0f} and gave {one.read_files_per_s:.0f} files of "
            f"{size_words(FILE_BYTES)} a second."
            for one in (gfs, lfs)
        ),
        f"Dataset: {size.n_files} files, {size_words(size.n_files * FILE_BYTES)}, "
        f"limited by {size.limit}. Measuring takes about "
        f"{size.measuring_s / 60:.0f} min.",
    ]


def check_written(path: Path, tiers: dict[str, Path]) -> None:
    """Refuse a configuration that an earlier start wrote for other directories."""
    roots, wanted = read_yaml(path).get("roots"), _roots(tiers)
    if roots is None or roots | wanted != roots:  # it may name one of ideal runs
        raise ConfigError(
            f"{path}: is for roots {roots}, got {wanted}; give this experiment another "
            "name (NAME=...), or delete its folder"
        )


def main(name: str, gfs: str, lfs: str) -> list[str]:
    """Make sure that the configuration is there, and return lines for the reader."""
    tiers = check_directories(gfs, lfs)
    path = Path("results", name, "experiment.yaml")
    if path.exists():
        check_written(path, tiers)
        return [f"Using {path}, which an earlier start has written."]
    return [
        *write_config(path, name, tiers),
        f"Written to {path}; later starts use it again. You may edit it before the "
        "first measurement.",
    ]


if __name__ == "__main__":
    listen(end_once)  # so that the files of the test go
    close_umask()
    try:
        say("\n".join(main(*sys.argv[1:])))
    except ConfigError as error:
        end(str(error))
