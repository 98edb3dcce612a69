"""The answer of a study of designs: what to take, what limits it, what to measure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import pandas as pd

from tierscope.analysis.designs.choice import (
    BY_HARDWARE,
    BY_HOUR,
    STORAGE,
    Choice,
    choose,
    designs_of,
    ends_of,
    front,
    margins,
    value_of,
)
from tierscope.analysis.training.stalls import limit_label
from tierscope.core.columns.designs import BOUND, MEETS, NO_CHOICE, NOT_ASKED
from tierscope.core.words import capitalised, count_words, number_words, size_words
from tierscope.data.costs import HARDWARE, PRICE, ROOM, Cost
from tierscope.data.designs import NO_COPIES

# Patterns of sentences, which the page fills, too.
SENTENCES = {
    "chosen": "{verb} {name}: this feeds {fed}{notes}{price}{rest}.",
    "none": "No design of the study surely meets the goal{rest}.",
    "miss": "; {other} ({name}) misses by {missed}",
    "cheaper": "the next cheaper design",
    "nearest": "the nearest design",
    "cheapest": "; it is the cheapest of the study",
    "undecided": "; {count} undecided (first {name})",
    "price": " for {money}, all {kinds} included",
    "hour": ", chosen by the price of a useful accelerator-hour ({money})",
    "null": "Simple models choose: {models}.",
}


class GoalWords(NamedTuple):
    """What a goal is of, its unit, that of a miss, a bound; an axis."""

    name: str
    unit: str
    missed: str
    bound: str
    axis: str


GOALS = {
    "utilisation_percent": GoalWords(
        "an AU", "%", "points", "at most", "Accelerator utilisation (%)"
    ),
    "epoch_time_s": GoalWords("an epoch", "s", "%", "at least", "Time of an epoch (s)"),
    "io_time_s": GoalWords(
        "an I/O time", "s", "%", "at least", "I/O time of the slowest process (s)"
    ),
}
_NAMES = ("object server", "link", "metadata service", "LFS device", "node")
PIECES = dict(zip(HARDWARE, _NAMES, strict=True))
_PLACEMENTS = {
    NO_COPIES: "nothing on the nodes",
    "pinning": "a copy on each node",
    "stratified-pinning": "a copy on each node with equal hits",
    "adhoc": "pooled",
}
_BYTE_RATE = "B/s"
_SAME = ["workload", "n_accelerators", *STORAGE]
_MOST_INPUTS = 3  # in a sentence
_MOST_TOLD = 12  # undecided designs in tables


@dataclass(frozen=True)
class Answer:
    """A study of designs and all that follows from it.

    Parameters
    ----------
    table : DataFrame
        Table ``designs``.
    inputs : DataFrame
        Table ``designs_inputs``.
    cost : Cost
        What hardware costs, as far as it is known.
    limits : mapping of str to float
        Limits of costs, and the least room (`choose`).
    """

    table: pd.DataFrame
    inputs: pd.DataFrame
    cost: Cost
    limits: Mapping[str, float]

    @classmethod
    def of(cls, table: pd.DataFrame, inputs: pd.DataFrame, settings: Any) -> Self:
        """Return the study of tables and the parameters of a rule."""
        return cls(table, inputs, Cost.from_json(settings.cost), settings.limits)

    @cached_property
    def designs(self) -> pd.DataFrame:
        """Designs that were looked at for all workloads (`designs_of`)."""
        return designs_of(self.table)

    @cached_property
    def choice(self) -> Choice:
        """What is chosen of them."""
        return choose(self.designs, self.cost, self.limits)

    @cached_property
    def names(self) -> pd.Series:
        """What to call the storage of each design, by its number."""
        return storage_names(self.table.drop_duplicates("design").set_index("design"))

    @property
    def has_front(self) -> bool:
        """Whether designs that compete differ in cost, with as many accelerators."""
        costs = self.choice.costs.loc[self.choice.compared, self.choice.by]
        of_each = costs.groupby(self.designs["n_accelerators"]).nunique()
        return of_each.max() > 1

    @cached_property
    def front(self) -> list[int]:
        """Designs of which none is as good and in one thing better, cheapest first."""
        by = self.choice.costs[self.choice.by]
        kinds = self.designs[[*HARDWARE, ROOM]]
        least = kinds if self.choice.by == BY_HARDWARE else by.to_frame()
        shown = self.choice.compared & self.designs["is_simulated"]
        on_front = front(least, self.designs["margin"].where(shown))
        found = by[on_front].sort_values(kind="stable").index
        return found[~self.names[found].duplicated()].tolist()

    @cached_property
    def reached(self) -> tuple[pd.DataFrame, float, str]:
        """What designs reach and the ends of it, the goal, and what it is.

        It is the quantity of the goal if there is one workload, else the least margin.
        """
        first, by = self.table.iloc[0], self.table["design"]
        values = [value_of(self.table), *ends_of(self.table)]
        goal, axis = first["goal_value"], GOALS[first["goal"]].axis
        if self.table["workload"].nunique() > 1:
            values = [margins(self.table, one) for one in values]
            goal, axis = 0.0, f"Better than the goal by ({GOALS[first['goal']].missed})"
        found = pd.concat(values, axis=1, keys=["value", "low", "high"])
        return found.groupby(by).min().loc[self.designs.index], goal, axis

    @property
    def told(self) -> list[int]:
        """The front, the chosen design, what misses next and is undecided, by cost."""
        choice = self.choice
        found = {*self.front, choice.chosen, choice.miss}
        found |= {*choice.undecided[:_MOST_TOLD]}
        by = choice.costs[choice.by][sorted(found - {NO_CHOICE})]
        return by.sort_values(kind="stable").index.tolist()

    def rows(self, design: int) -> pd.DataFrame:
        """Return the rows of a design, one a workload."""
        return self.table[self.table["design"] == design]

    def _of_storage(self, design: int) -> pd.DataFrame:
        """Return the rows of a design and of others on the same storage."""
        return self.table[self.table["design"].map(self.names) == self.names[design]]

    def pieces(self, design: int) -> dict[str, str]:
        """Return the words of a design of which sentences are made."""
        rows = self.rows(design)
        return {
            "name": self.names[design],
            "verb": self._verb(self.names[design]),
            "fed": fed_words(rows),
            "notes": self._notes(design),
            "other": self._other,
            "missed": missed_words(rows),
            "limits": self._limits(design),
            "limits_miss": limit_words(rows[rows["verdict"] != MEETS], "{other}"),
        }

    @property
    def left_out(self) -> str:
        """What a number that was simulated once lacks besides an interval."""
        is_calibrated = (self.inputs["origin"] == "calibrated").any()
        return ", without the calibration's uncertainty" * bool(is_calibrated)

    def _notes(self, design: int) -> str:
        """Return what else is to be known of how a design feeds its accelerators."""
        once = f" (simulated once, no interval{self.left_out})"
        once *= bool(is_single(self.rows(design)).all())
        rows = self._of_storage(design)
        meets = rows[rows["verdict"] == MEETS]
        most = meets.groupby("workload")["n_accelerators"].max()
        is_all = len(most) == self.table["workload"].nunique()
        if not is_all or most.min() <= self.designs["n_accelerators"][design]:
            return once
        return f"{once}, up to {most.min()} by the least of each workload's most"

    def _limits(self, design: int) -> str:
        """Return what limits a design, or the next number of accelerators on it."""
        if words := limit_words(self.rows(design), "it"):
            return words
        rows, n = self._of_storage(design), self.designs["n_accelerators"][design]
        asked = rows[(rows["limit"] != NOT_ASKED) & (rows["n_accelerators"] > n)]
        following = asked["n_accelerators"].min()
        of_next = asked[asked["n_accelerators"] == following]
        return limit_words(of_next, f"{following} accelerators")

    def _verb(self, name: str) -> str:
        """Return what to do with what is chosen: hardware is bought."""
        if name == _PLACEMENTS[NO_COPIES]:
            return "Put"
        return "Buy" if chosen_of(self.table) & {*STORAGE[:-1]} else "Take"

    def sentences(self) -> list[str]:
        """Return the answer in three sentences, or two if no limit was asked."""
        limit, measure = self._limit_sentence(), measure_words(self.inputs)
        return [*filter(None, [self._choice_sentence(), limit, measure])]

    def _choice_sentence(self) -> str:
        choice, rest = self.choice, ""
        if choice.miss != NO_CHOICE:
            rest = SENTENCES["miss"].format(**self.pieces(choice.miss))
        elif choice.chosen != NO_CHOICE and not choice.undecided and self.has_front:
            rest = SENTENCES["cheapest"]
        if n := len(choice.undecided):
            count = count_words(n, "cheaper one is", "cheaper ones are")
            name = self.names[choice.undecided[0]]
            rest += SENTENCES["undecided"].format(count=count, name=name)
        if choice.chosen == NO_CHOICE:
            return SENTENCES["none"].format(rest=rest)
        words = {"price": self._price_words(), "rest": rest}
        return SENTENCES["chosen"].format(**words, **self.pieces(choice.chosen))

    def _price_words(self) -> str:
        """Return the price of the chosen design, and what it includes."""
        found, unit = self.choice.costs.loc[self.choice.chosen], self.cost.unit
        if math.isnan(found[PRICE]):
            return ""
        has_price = self.cost.has_price
        priced = [f"{PIECES[one]}s" for one in HARDWARE if found[one] * has_price(one)]
        money, kinds = f"{found[PRICE]:,.0f} {unit}".rstrip(), " and ".join(priced)
        words = SENTENCES["price"].format(money=money, kinds=kinds)
        if self.choice.by == BY_HOUR:
            money = f"{found[BY_HOUR]:,.2f} {unit}".rstrip()
            words += SENTENCES["hour"].format(money=money)
        return words

    @property
    def _other(self) -> str:
        """Return what to call the design that misses."""
        is_chosen = self.choice.chosen != NO_CHOICE
        return SENTENCES["cheaper" if is_chosen else "nearest"]

    def _limit_sentence(self) -> str:
        asked = {"limits": self.choice.chosen, "limits_miss": self.choice.miss}
        of = {piece: one for piece, one in asked.items() if one != NO_CHOICE}
        limits = "; ".join(filter(None, (self.pieces(of[one])[one] for one in of)))
        limits = limits.replace("{other}", self._other)
        return limits and f"{capitalised(limits)}."


def chosen_of(designs: pd.DataFrame) -> set[str]:
    """Return which columns of storage vary among as many accelerators: are chosen."""
    of_each = designs.groupby("n_accelerators")[STORAGE]
    found = of_each.nunique(dropna=False).max() > 1
    rates = {"cache_rate_percent"} if designs.duplicated(_SAME).any() else set()
    return {*found.index[found]} | rates  # else the rate follows


def storage_names(designs: pd.DataFrame) -> pd.Series:
    """Return what to call the storage of designs: what varies among them.

    `designs` is table ``designs``.
    """
    varying = chosen_of(designs)
    rows = designs.to_dict("records")
    return pd.Series([_storage_name(one, varying) for one in rows], designs.index)


def _storage_name(row: Mapping[str, Any], varying: set[str]) -> str:
    """Return what to call a storage, such as ``4 object servers, pooled``."""
    speed, gib = row["metadata_speed"], row["lfs_gib"]
    words = {
        "object_servers": count_words(row["object_servers"], "object server"),
        "n_links": count_words(row["n_links"], "link"),
        "metadata_speed": f"{speed:g} x the metadata service",
        "lfs_devices": f"{count_words(row['lfs_devices'], 'device')} a node",
        "lfs_gib": f"{gib:,g} GiB a device",
        "placement": _PLACEMENTS[row["placement"]],
        "cache_rate_percent": f"a cache rate of {row['cache_rate_percent']} %",
    }
    if not row["n_lfs_devices"]:
        varying = varying - {"lfs_devices", "lfs_gib"}
    if row["placement"] == "none":
        varying = varying - {"cache_rate_percent"}
    named = [text for one, text in words.items() if one in varying]
    return ", ".join(named) or "the storage as it is"


def is_single(rows: pd.DataFrame) -> pd.Series:
    """Return which rows rest on a single simulation, and have no interval."""
    return (rows["n_repetitions"] == 1) & rows["utilisation_low_percent"].isna()


def value_words(row: Mapping[str, Any]) -> str:
    """Return what a row reaches of its goal, such as ``an AU of 92.0 %``."""
    words, table = GOALS[row["goal"]], pd.DataFrame([row])
    value, *ends = (value_of(table, end).item() for end in ("", "best", "worst"))
    if row["known_by"] == BOUND:
        return f"{words.name} of {words.bound} {_digits(ends[0])} {words.unit}"
    low, high = map(_digits, sorted(ends))
    band = f" ({low} to {high})" * (low != high)
    return f"{words.name} of {_digits(value)} {words.unit}{band}"


def _digits(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else number_words(value)


def fed_words(rows: pd.DataFrame) -> str:
    """Return how well a design feeds its accelerators."""
    told = rows.assign(words=[value_words(one) for one in rows.to_dict("records")])
    counted = count_words(rows["n_accelerators"].iloc[0], "accelerator", separator="")
    if len(rows) == 1:
        return f"{counted} at {told['words'].item()}"
    return f"{counted}, {' and '.join(told['workload'] + ' at ' + told['words'])}"


def missed_words(rows: pd.DataFrame) -> str:
    """Return by how much a design misses its goal, of the workload that misses most."""
    found = margins(rows)
    worst = rows.loc[found.idxmin()]
    least = "at least " * (worst["known_by"] == BOUND)
    by = f"{_digits(max(0.0, -found.min()))} {GOALS[worst['goal']].missed}"
    return least + by + f" ({worst['workload']})" * (len(rows) > 1)


def limit_words(rows: pd.DataFrame, what: str) -> str:
    """Return what limits a design, of the workloads of which it was asked."""
    asked = rows[rows["limit"] != NOT_ASKED]
    found = dict.fromkeys(asked["limit"])
    parts = []
    for limit in found:
        of = asked.loc[asked["limit"] == limit, "workload"]
        some = f" ({', '.join(of)})" * (len(found) > 1)
        parts.append(f"{limit_label(limit)}{some}")
    is_one = len(parts) == 1 and " " not in parts[0]
    return f"{' and '.join(parts)} limit{'s' * is_one} {what}" if parts else ""


def changing(inputs: pd.DataFrame) -> pd.DataFrame:
    """Return the inputs at an end of whose range another design is chosen."""
    same = inputs["choice_low"].eq(inputs["choice"])
    return inputs[~(same & inputs["choice_high"].eq(inputs["choice"]))]


def measure_words(inputs: pd.DataFrame) -> str:
    """Return in a sentence what to measure next."""
    if inputs.empty:
        return "Whether an input would change the choice was not asked."
    found = changing(inputs).drop_duplicates("parameter")
    if found.empty:
        return (
            "No input of those asked changes the choice within the range it may have."
        )
    told = []
    for one in found.head(_MOST_INPUTS).to_dict("records"):
        low, high = (quantity_words(one[end], one["unit"]) for end in ("low", "high"))
        told.append(f"{one['parameter']} ({one['origin']}, {low} to {high})")
    it = "it" if len(told) == 1 else "they"
    return f"Measure {' and '.join(told)} next: {it} would change the choice."


def quantity_words(value: float, unit: str) -> str:
    """Return the value of an input with its unit, such as ``0.00100 s``."""
    if unit == _BYTE_RATE:
        return f"{size_words(value)}/s"
    return f"{number_words(value)} {unit}"
