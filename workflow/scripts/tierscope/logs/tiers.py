"""Tiers of an analysis: prefixes by name, given or proposed by a log's mount table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tierscope.core.validation import ConfigError

AUTO = "auto"
LOCAL, MEMORY = "local", "memory"
ROOT = "root"  # paths that are below no other mount than /
OF_THE_MACHINE = (ROOT, LOCAL, MEMORY)  # other file systems are of other machines
OTHER, UNNAMED = "other", "unnamed"  # paths of no tier, records without a name

# Names that `auto` gives to file systems, by type as in mount tables.
_MEMORY = {"tmpfs", "ramfs", "hugetlbfs"}
_LOCAL = {
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "f2fs",
    "jfs",
    "reiserfs",
    "vfat",
    "overlay",
    "overlayfs",
    "squashfs",
    "erofs",
    "iso9660",
    "rootfs",
    "ufs",
    "apfs",
}
_SAME = {"nfs3": "nfs", "nfs4": "nfs", "fefs": "lustre", "mmfs": "gpfs"}
# Darshan leaves these out of its mount table.
_UNLISTED = {"/dev/shm": "tmpfs"}


@dataclass(frozen=True)
class TierPrefix:
    """A name and a prefix of its paths; `fs_type` is the type of `auto`, or empty."""

    name: str
    prefix: str
    fs_type: str = ""


def tiers_of(prefixes: Mapping[str, str | Sequence[str]]) -> list[TierPrefix]:
    """Return the tiers of a configuration.

    A prefix is absolute and ends where a component of a path ends; ``*`` stands for any
    text in a component. A ConfigError refuses others, one given twice, and reserved
    names.
    """
    tiers = []
    for name, given in prefixes.items():
        if name in (OTHER, UNNAMED):
            raise ConfigError(
                f"tiers: got the name {name!r}, expected another one: it stands for "
                "paths of no tier."
            )
        for prefix in [given] if isinstance(given, str) else given:
            if not prefix.startswith("/"):
                raise ConfigError(
                    f"tiers.{name}: got {prefix!r}, expected an absolute path."
                )
            tiers.append(TierPrefix(name, "/" + prefix.strip("/")))
    seen: dict[str, str] = {}
    for tier in tiers:
        if (first := seen.setdefault(tier.prefix, tier.name)) != tier.name:
            raise ConfigError(
                f"tiers.{tier.name}: got {tier.prefix!r}, which tier {first} has, too."
            )
    return list(dict.fromkeys(tiers))


def prefixes_of(tiers: Sequence[TierPrefix]) -> dict[str, list[str]]:
    """Return the prefixes by name, as `tiers_of` takes them."""
    prefixes: dict[str, list[str]] = {}
    for tier in tiers:
        prefixes.setdefault(tier.name, []).append(tier.prefix)
    return prefixes


def proposed_tiers(mounts: Mapping[str, str]) -> list[TierPrefix]:
    """Return tiers for a log's mount table: one for each kind of file system.

    All local file systems are tier ``local``, those in memory ``memory``; others have
    the name of their type, such as ``lustre``. What is below no other mount than ``/``
    is tier ``root``: a link there may lead to any file system.
    """
    known = dict(_UNLISTED) | dict(mounts)
    return [
        TierPrefix(
            _name_of(fs_type) if point.strip("/") else ROOT,
            "/" + point.strip("/"),
            fs_type,
        )
        for point, fs_type in sorted(known.items())
        if point.startswith("/")
    ]


def in_order(names: Iterable[str], tiers: str | Sequence[TierPrefix]) -> list[str]:
    """Return names of tiers in the order of the configuration.

    With ``auto``, file systems of other machines come first, then the others.
    """
    if tiers != AUTO:
        given = list(dict.fromkeys(tier.name for tier in tiers))
        return sorted(names, key=given.index)
    return sorted(names, key=lambda name: (name in OF_THE_MACHINE, name))


def _name_of(fs_type: str) -> str:
    """Return the tier of a type of file system."""
    kind = fs_type.lower()
    if kind in _MEMORY:
        return MEMORY
    if kind in _LOCAL:
        return LOCAL
    kind = kind.removeprefix("fuse.").removeprefix("fuseblk.") or "unknown"
    kind = _SAME.get(kind, kind)
    return f"{kind} file system" if kind in (OTHER, UNNAMED, ROOT) else kind
