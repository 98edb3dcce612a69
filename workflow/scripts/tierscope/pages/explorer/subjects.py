"""What an explorer is about: a sweep by I/O time, a sweep by utilisation, or a job.

The subject of a page is chosen once, by who builds the page. All have the same methods;
`workflow/templates/explorer.js` has an object of each subject's name for what changes
with the sliders.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pandas as pd

from tierscope.analysis.breakdown import select_epoch, select_scenario, slowest_process
from tierscope.analysis.intervals import BEST_METHOD, METHOD
from tierscope.analysis.training.limit import Advice, advice_on, is_plain, limits_of
from tierscope.analysis.utilisation import (
    UtilisationGoal,
    best_utilised,
    mean_utilisation,
)
from tierscope.analysis.whatif import (
    Goal,
    best_point,
    map_percents,
    map_step_percent,
)
from tierscope.core.columns import (
    IMPROVEMENTS,
    INTERVAL,
    MODEL,
    RULE,
    SCENARIO,
)
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import NO_ORIGIN, Origin, model_note, utilisation_note
from tierscope.core.tables import empty_table
from tierscope.core.words import UTILISATION_NOTE, in_seconds
from tierscope.pages.explorer.data import (
    add_limits,
    add_model_answers,
    embedded_points,
    map_cells,
    scenario_numbers,
    short,
)

GOAL_LIMITS_PERCENT = 1, 150  # of the best I/O time without improvement
_METHODS = {RULE: "paper's rule: waiting stays", MODEL: "model: waiting moves"}


@dataclass(frozen=True)
class Input:
    """An input of the page.

    Parameters
    ----------
    name : str
        What it sets.
    value : int, float or str
        What it is set to first.
    label : str, optional
        What it is called; an input without one is not shown.
    labels : mapping, optional
        The values of a list, with what they are called; else it is a slider.
    least, most, step : float, optional
        Range of the slider, in percent.
    colour : str, optional
        Colour of the slider.
    """

    name: str
    value: float | str
    label: str = ""
    labels: Mapping[Any, str] = field(default_factory=dict)
    least: float = 0
    most: float = 0
    step: float = 1
    colour: str = ""


@dataclass(frozen=True)
class Sweep:
    """A sweep whose goal is one of time, and what its page shows when it is opened.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``; the page lists its scenarios in the order of its rows.
    scenario : mapping of str to str or int
        The keys of the scenario shown first.
    epoch : int
        The epoch shown first, counted from 0.
    goal : Goal or UtilisationGoal
        The experiment's goal of that scenario and epoch.
    pair : pair of str
        The I/O classes on the x and the y axis of the map.
    max_improvement_percent, step_percent : int
        End of the sliders, and step of the experiment's grid. The step of the map may
        be a multiple of it (`tierscope.analysis.whatif.map_step_percent`).
    cost_per_percent : mapping of str to float
        What one percent of improvement of each class costs.
    method : {"rule", "model"}, optional
        How improvements are estimated, if the page has both.
    labels : mapping of str to str, optional
        What the I/O classes are called; by default as in the paper.
    origin : Origin, optional
        Where the numbers come from: it knows what epochs and cache rates are.
    estimates : DataFrame, optional
        Table ``estimates`` by the model, of some scenarios and epochs.
    pairs : sequence of pairs of str, optional
        Pairs of I/O classes for which `estimates` holds every cell of the map.
    model : str, optional
        What the model is (`tierscope.core.provenance.model_words`).
    limits : DataFrame, optional
        Table ``limits``.
    stalls : DataFrame, optional
        Table ``class_stalls``, if the training computes and a model tells the stall.
    """

    io_time: pd.DataFrame
    scenario: Mapping[str, str | int]
    epoch: int
    goal: Goal | UtilisationGoal
    pair: Sequence[str]
    max_improvement_percent: int
    step_percent: int
    cost_per_percent: Mapping[str, float]
    method: str = RULE
    labels: Mapping[str, str] = field(
        default_factory=lambda: {str(one): one.label for one in IOClass}
    )
    origin: Origin = NO_ORIGIN
    estimates: pd.DataFrame | None = None
    pairs: Sequence[Sequence[str]] = ()
    model: str = ""
    limits: pd.DataFrame = field(default_factory=lambda: empty_table("limits"))
    stalls: pd.DataFrame | None = None

    name: ClassVar[str] = "sweep"
    map_chart: ClassVar[str] = "chart c"
    rows: ClassVar[Sequence[str]] = ("looked_at", "best", "goal")
    goal_label: ClassVar[str] = "Of today's best time"
    goal_limits: ClassVar[tuple[float, float]] = GOAL_LIMITS_PERCENT
    question: ClassVar[str] = (
        "Which storage must become faster, by how much, and how many files should "
        "every node hold on its local file system (LFS)?"
    )
    views: ClassVar[str] = (
        "The sliders make the four I/O classes faster. Table and charts show the I/O "
        "time of the slowest process of an epoch, today and with the improvements."
    )
    note_of_intervals: ClassVar[str] = (
        f"In brackets: {METHOD} (Student's t), of today's times. {BEST_METHOD}."
    )

    @property
    def grid_step_percent(self) -> int:
        """Return the step of the map in percent."""
        return map_step_percent(self.max_improvement_percent, self.step_percent)

    @property
    def grid(self) -> list[int]:
        """Return the improvements on each axis of the map, in percent."""
        return map_percents(self.max_improvement_percent, self.step_percent)

    @property
    def shown(self) -> pd.DataFrame:
        """Return the rows of the scenario and epoch shown first."""
        return select_epoch(select_scenario(self.io_time, self.scenario), self.epoch)

    @property
    def listed(self) -> pd.DataFrame:
        """Return the rows whose scenarios the page lists."""
        return self.io_time

    @cached_property
    def best(self) -> pd.Series:
        """Return the best point without improvement of what is shown first."""
        return best_point(slowest_process(self.shown)).iloc[0]

    @property
    def glossary(self) -> str:
        """Return what the words of the page mean."""
        what = "bytes" if self.origin.is_program else "files"
        return (
            "GFS: global file system; LFS: local file system of a node; READ: reading "
            "data; META: opening and closing files; cache rate: percent of the "
            f"{what} that every node holds on its LFS; I/O time: seconds a process "
            "spends reading, opening and closing."
        )

    @property
    def ways(self) -> Mapping[str, str]:
        """Return the estimates with improvements, and what tells them apart."""
        if self.estimates is None:
            return {"improved": ""}
        return {"improved": ", by the rule", "model": ", by the model"}

    def points(self, scenarios: pd.DataFrame) -> list[dict[str, Any]]:
        """Return the embedded points of what `listed` holds."""
        points = embedded_points(self.listed, scenarios, self.max_improvement_percent)
        if self.estimates is not None:
            add_model_answers(points, self.estimates, scenarios, self.pairs, self.grid)
        self._limit(points, scenarios)
        return points

    def _limit(self, points: Sequence[dict[str, Any]], scenarios: pd.DataFrame) -> None:
        """Add what limits points where it need not be their largest class."""
        if not is_plain(self.limits):
            add_limits(points, self.limits, self.stalls, scenarios)

    def advice(self, scenario: Mapping[str, Any]) -> Advice:
        """Return whether an improvement may be recommended for a scenario."""
        return advice_on(limits_of(self.limits, scenario), self.origin.phase)

    @property
    def limit_words(self) -> tuple[str, str]:
        """Return what the largest class is, and what it does."""
        if is_plain(self.limits):
            return "The limiting class", "limits"
        return "The class with most I/O time", "has most I/O time"

    def reading_words(self, points: Iterable[Mapping[str, Any]]) -> str:
        """Return how to read the numbers of the table."""
        numbers = [len(point["runs_s"]) for point in points]
        words = [
            f"{self.limit_words[0]} is the one with the largest share of the slowest "
            "process's I/O time.",
            f"Times are means over {_span(numbers)} repetitions; the slowest process "
            "is picked in each of them."
            if max(numbers) > 1
            else "",
            self.note_of_intervals,
        ]
        return " ".join(filter(None, words))

    def model_words(self) -> str:
        """Return how the model estimates, and what its intervals are."""
        if self.estimates is None:
            return ""
        if self.estimates[INTERVAL].isna().all(axis=None):
            return model_note(self.model)
        return (
            f"{model_note(self.model)} In parentheses and as bars stands the 95 % "
            "interval of its estimate as far as its calibration knows: parameters, and "
            "lack of fit."
        )

    def goal_words(self) -> str:
        """Return the experiment's goal, and its position on the slider."""
        goal, best_s = self.goal, float(self.best["io_time_s"])
        words = f"The experiment's goal: {in_seconds(goal.seconds)} of "
        if goal.of == "io_time":
            words += "I/O time"
        else:
            words += (
                f"execution time, less {in_seconds(goal.difference_s)} that are not "
                f"I/O = {in_seconds(goal.io_time_s)} of I/O time"
            )
        epoch = self.origin.epoch_words(self.epoch)
        words += f" in the {epoch} of the scenario shown first"
        least, most = GOAL_LIMITS_PERCENT
        if not least * best_s <= 100 * goal.io_time_s <= most * best_s:
            outside = "It is outside the slider, which starts at its nearest end."
            return f"{words}. {outside}"
        percent = f"{self.goal_percent:g} %"
        return f"{words}, where the slider starts ({percent}, rounded to 0.1 %)."

    @property
    def goal_percent(self) -> float:
        """Return where the slider of the goal starts."""
        return nearest_goal_percent(self.goal, float(self.best["io_time_s"]))

    def choices(
        self, points: Sequence[Mapping[str, Any]], scenarios: pd.DataFrame
    ) -> list[Input]:
        """Return the inputs that choose scenario, epoch and cache rate."""
        best, numbers = self.best, scenario_numbers(scenarios)
        titles = dict(enumerate(scenarios["title"]))
        rates = sorted({point["cache_rate_percent"] for point in points})
        return [
            Input("scenario", numbers[tuple(best[SCENARIO])], "Scenario", titles),
            self._epoch_input(points),
            Input(
                "cache_rate_percent",
                int(best["cache_rate_percent"]),
                "Cache rate to look at",
                least=rates[0],
                most=rates[-1],
                step=math.gcd(*(rate - rates[0] for rate in rates)) or 1,
            ),
        ]

    def _epoch_input(self, points: Iterable[Mapping[str, Any]]) -> Input:
        """Return the list of epochs."""
        epochs = sorted({point["epoch"] for point in points})
        words = {epoch: self.origin.epoch_words(epoch) for epoch in epochs}
        return Input("epoch", self.epoch, "Epoch", words)

    def method_input(self) -> Input:
        """Return the list of ways to estimate, if there are two."""
        if self.estimates is None:
            return Input("method", RULE)
        return Input("method", self.method, "By the", _METHODS)


@dataclass(frozen=True)
class UtilisationSweep(Sweep):
    """A sweep whose goal is accelerator utilisation (AU): only the model tells it.

    The page is about the scenario and epoch shown first; `estimates` are of these.
    """

    name: ClassVar[str] = "utilisation"
    map_chart: ClassVar[str] = "chart b"
    question: ClassVar[str] = (
        f"{Sweep.question.removesuffix('?')}, so that accelerators are well fed?"
    )
    views: ClassVar[str] = (
        "The sliders make two of the four I/O classes faster, by the model. "
        f"{UTILISATION_NOTE}"
    )
    goal_label: ClassVar[str] = "At least"
    goal_limits: ClassVar[tuple[float, float]] = (1, 100)
    ways: ClassVar[Mapping[str, str]] = {"model": ", by the model"}

    @property
    def listed(self) -> pd.DataFrame:
        """Return the rows of the only scenario and epoch."""
        return self.shown

    @cached_property
    def best(self) -> pd.Series:
        """Return the point with the highest AU without improvement."""
        today = self.estimates[(self.estimates[IMPROVEMENTS] == 0).all(axis=1)]
        return best_utilised(mean_utilisation(today)).iloc[0]

    def points(self, scenarios: pd.DataFrame) -> list[dict[str, Any]]:
        """Return for each cache rate ``answers``: the AU of each cell of each map.

        They are means over the repetitions, in rows of the first class's improvement.
        A ValueError says which cell is not in the table of estimates.
        """
        means = mean_utilisation(self.estimates).set_index(IMPROVEMENTS)
        points = []
        for rate, rows in means.groupby("cache_rate_percent"):
            maps = [map_cells(rows.index, pair, self.grid) for pair in self.pairs]
            answers = [
                {
                    "values": list(map(short, rows["utilisation_percent"][cells])),
                    "error_percent": [],
                    "parts": [],
                }
                for cells in maps
            ]
            place = {"scenario": 0, "epoch": self.epoch}
            points.append(place | {"cache_rate_percent": int(rate), "answers": answers})
        self._limit(points, scenarios)
        return points

    def reading_words(self, points: Iterable[Mapping[str, Any]]) -> str:
        """Return that numbers are means over the repetitions, if there are some."""
        by_rate = self.estimates.groupby("cache_rate_percent")
        numbers = by_rate["repetition"].nunique()
        if max(numbers) == 1:
            return ""
        return f"AU is a mean over the processes and over {_span(numbers)} repetitions."

    def model_words(self) -> str:
        """Return how the model estimates."""
        return utilisation_note(self.model)

    def goal_words(self) -> str:
        """Return the experiment's goal."""
        percent = self.goal.percent
        return f"The experiment's goal: {percent:g} % accelerator utilisation."

    @property
    def goal_percent(self) -> float:
        """Return where the slider of the goal starts."""
        return round(self.goal.percent, 1)

    def choices(
        self, points: Sequence[Mapping[str, Any]], scenarios: pd.DataFrame
    ) -> list[Input]:
        """Return the input that chooses the cache rate; the rest is fixed."""
        *_, rate = super().choices(points, scenarios)
        return [Input("scenario", 0), Input("epoch", self.epoch), rate]

    def method_input(self) -> Input:
        """Return the only way to estimate."""
        return Input("method", MODEL)


@dataclass(frozen=True)
class LoggedJob(Sweep):
    """A job that ran once: nothing on its page is about cache rates.

    Parameters
    ----------
    job_advice : Advice, optional
        Whether an improvement may be recommended for it.
    """

    job_advice: Advice = field(default_factory=Advice)

    name: ClassVar[str] = "job"
    map_chart: ClassVar[str] = "chart b"
    rows: ClassVar[Sequence[str]] = ("looked_at", "goal")
    goal_label: ClassVar[str] = "Of today's time"
    question: ClassVar[str] = (
        "Which storage must become faster for this job, and by how much?"
    )
    views: ClassVar[str] = (
        "The sliders make four of its I/O classes faster. Table and charts show the "
        "I/O time of its slowest process in these classes, today and with the "
        "improvements."
    )
    note_of_intervals: ClassVar[str] = ""
    limit_words: ClassVar[tuple[str, str]] = (
        "The class with most I/O time",
        "has most I/O time",
    )
    glossary: ClassVar[str] = (
        "READ: reading data; META: opening, closing and looking up files; I/O time: "
        "seconds a process spends in the four classes."
    )

    def advice(self, scenario: Mapping[str, Any]) -> Advice:
        """Return whether an improvement may be recommended for the job."""
        return self.job_advice

    def goal_words(self) -> str:
        """Return the position of the slider."""
        goal = in_seconds(self.goal.io_time_s)
        return f"The slider starts at {self.goal_percent:g} %: {goal}."

    def choices(
        self, points: Sequence[Mapping[str, Any]], scenarios: pd.DataFrame
    ) -> list[Input]:
        """Return the input that chooses the epoch, if it has some."""
        epoch = self._epoch_input(points)
        if len(epoch.labels) == 1:
            epoch = Input("epoch", self.epoch)
        rate = points[0]["cache_rate_percent"]
        return [Input("scenario", 0), epoch, Input("cache_rate_percent", rate)]


def nearest_goal_percent(goal: Goal, best_s: float) -> float:
    """Return the position of the goal's slider that is nearest to a goal.

    Parameters
    ----------
    goal : Goal
        The goal.
    best_s : float
        The best I/O time without improvement, which is 100 %.
    """
    least, most = GOAL_LIMITS_PERCENT
    percent = 100 * goal.io_time_s / best_s if best_s else most
    return min(max(round(percent, 1), least), most)


def _span(numbers: Iterable[int]) -> str:
    """Return the least and the most of some numbers, such as ``1 to 2``."""
    ordered = sorted(numbers)
    return " to ".join(map(str, dict.fromkeys([ordered[0], ordered[-1]])))
