"""Colours, order and bounds of the classes of logged jobs, alike on all figures.

A tier has a family of colours, an operation a shade of it. STDIO is hatched. Calls of
MPI-IO reach POSIX, so they are never part of a stack.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Patch

from tierscope.core.columns import INTERFACES, JOB_CLASS, OPERATIONS
from tierscope.core.io_class import IOClass
from tierscope.core.words import class_label, printable, shortened

OTHER, UNNAMED = "other", "unnamed"
SOURCE = "Darshan logs, measured"
_BLACK, _WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_PAPER = {tier: (f"{tier}_read", f"{tier}_meta") for tier in ("gfs", "lfs")}
# Of tiers with other names, in the order of their names: colours of READ and META.
_FAMILIES = (
    ("#117733", "#77C294"),
    ("#882255", "#CC7A9F"),
    ("#5B3E96", "#B3A0D6"),
    ("#887700", "#D6C766"),
    ("#00595C", "#5FB3B3"),
    ("#7A3B12", "#C79572"),
)
_GREYS = {OTHER: ("#555555", "#8C8C8C"), UNNAMED: ("#777777", "#BBBBBB")}
_LABEL_LETTERS = 40
_LEAST_SEEN = 0.003  # of the longest bar
_MOST_IN_LEGEND = 14
HATCH = "////"
UNSURE = {"facecolor": "none", "edgecolor": "#444444", "hatch": "....", "lw": 0.8}
UNSURE_LABEL = "not certain"
BOUND = {"color": "#222222", "ls": "", "capsize": 3, "elinewidth": 1.3}


def tier_order(tiers: Iterable[str]) -> list[str]:
    """Return distinct tiers: gfs, lfs, other names, ``other``, ``unnamed``."""
    first, last = list(_PAPER), list(_GREYS)
    found = set(tiers)
    named = sorted(found - {*first, *last})
    return [tier for tier in (*first, *named, *last) if tier in found]


@dataclass(frozen=True)
class Palette:
    """The colours of the classes of some tiers.

    Parameters
    ----------
    tiers : sequence of str
        All tiers of an analysis, so that a tier has the same colours on each figure.
    """

    tiers: Sequence[str]

    def colour(self, tier: str, operation: str) -> str:
        """Return the colour of a class, such as ``#0072B2``."""
        read, meta = self._family(tier)
        return {
            "read": read,
            "meta": meta,
            "write": _mixed(read, _BLACK, 0.45),
            "write meta": _mixed(meta, _WHITE, 0.4),
            "read-write meta": _mixed(meta, _WHITE, 0.7),
        }[operation]

    def look(self, tier: str, interface: str, operation: str) -> dict[str, Any]:
        """Return how to draw the bar of a class."""
        hatch = {"hatch": HATCH} if interface == "STDIO" else {}
        colour = self.colour(tier, operation)
        return {"facecolor": colour, "edgecolor": "white", "lw": 0.4} | hatch

    def _family(self, tier: str) -> tuple[str, str]:
        """Return the colours of READ and META of a tier."""
        if tier in _PAPER:
            read, meta = (IOClass(name).colour for name in _PAPER[tier])
            return read, meta
        if tier in _GREYS:
            return _GREYS[tier]
        named = [t for t in tier_order([*self.tiers, tier]) if t not in _PAPER]
        return _FAMILIES[named.index(tier) % len(_FAMILIES)]


def _mixed(colour: str, other: tuple[float, ...], part: float) -> str:
    """Return a colour with a part of another one, such as white."""
    mixed = zip(to_rgb(colour), other, strict=True)
    return to_hex([(1 - part) * one + part * two for one, two in mixed]).upper()


def label(tier: str, interface: str, operation: str) -> str:
    """Return the label of a class on figures and pages, whatever the tier's name."""
    short = shortened(printable(tier), _LABEL_LETTERS)
    return class_label(short, interface, operation)


def in_class_order(classes: Iterable[tuple[str, str, str]]) -> list[tuple]:
    """Return classes (tier, interface, operation) in the order of stacks."""
    classes = set(classes)
    tiers = tier_order(tier for tier, _, _ in classes)
    return sorted(
        classes,
        key=lambda one: (
            tiers.index(one[0]),
            INTERFACES.index(one[1]),
            OPERATIONS.index(one[2]),
        ),
    )


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of classes that count: of all interfaces but MPI-IO."""
    return rows[rows["interface"].ne("MPI-IO")]


def classes_of(rows: pd.DataFrame) -> list[tuple]:
    """Return the classes of a table that have any time, in the order of stacks."""
    names = ("least_s", "most_s", "least_hours", "most_hours")
    has_time = rows.filter(names).gt(0).any(axis="columns")
    return in_class_order(rows.loc[has_time, JOB_CLASS].itertuples(index=False))


def visible(widest: Mapping[tuple, float], longest: float) -> list[tuple]:
    """Return the classes with a part of a bar that can be seen, for the legend.

    `widest` has the largest part of each class, in the order of stacks; `longest` is
    the length of the longest bar.
    """
    found = [one for one in widest if widest[one] > _LEAST_SEEN * longest]
    kept = sorted(found, key=lambda one: -widest[one])[:_MOST_IN_LEGEND]
    return [one for one in found if one in kept]


def class_patches(classes: Iterable[tuple], palette: Palette) -> list[Patch]:
    """Return the legend entries of classes, top of the stack first."""
    return [
        Patch(**palette.look(*one), label=label(*one))
        for one in reversed(list(classes))
    ]


def unsure_patch() -> Patch:
    """Return the legend entry of what lies above what is certain of each class."""
    return Patch(**UNSURE, label=UNSURE_LABEL)


def bound_notes(times_are: Iterable[str], provenance: object) -> list[str]:
    """Return the notes below a figure: the source, and which numbers are bounds."""
    notes = [f"Source: {provenance}."]
    notes += [_BOUND_NOTES[kind] for kind in sorted(set(times_are) & set(_BOUND_NOTES))]
    return notes


_BOUND_NOTES: Mapping[str, str] = {
    "bounds": "Bounds: processes share records, which hold sums, the slowest and the "
    "fastest process. The times of the others are known within bounds only.",
    "lower bounds": "Lower bounds: a log lacks records or times, so times can be "
    "longer without a known limit.",
}


def mpi_io_note(rows: pd.DataFrame) -> list[str]:
    """Return that calls of MPI-IO are not drawn, if a table has any."""
    if not rows["interface"].eq("MPI-IO").any():
        return []
    return ["MPI-IO is not drawn: its calls reach POSIX and are counted there."]
