"""What rules ask of figures: what each is drawn from, and when the report has it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tierscope.core.output.declared import Declared
from tierscope.core.scenario import MAIN_SWEEP
from tierscope.core.words import count_words
from tierscope.experiment.planned.comparisons import Comparisons
from tierscope.experiment.planned.models import Models
from tierscope.experiment.planned.runs import Runs

# Settings of the study of accuracy that determine no training.
_OF_JUDGEMENT = ("networks", "margin_points", "with_policies")


class ExperimentFigures:
    """The figures of an experiment.

    Parameters
    ----------
    runs, models, comparisons : Runs, Models, Comparisons
        What they show.
    policy_claims : str
        The file with the claims of papers on policies.
    """

    def __init__(
        self, runs: Runs, models: Models, comparisons: Comparisons, policy_claims: str
    ) -> None:
        self._runs, self._experiment = runs, runs.experiment
        self._models, self._comparisons = models, comparisons
        self._policy_claims = policy_claims
        settings = self._experiment.settings
        self.grid = {
            key: settings["whatif"]["search"][key]
            for key in ("max_improvement_percent", "step_percent")
        }
        self.trained = {
            key: value
            for key, value in settings["studies"]["accuracy"].items()
            if key not in _OF_JUDGEMENT
        }
        self.pairs = {"_".join(pair): pair for pair in settings["figures"]["pairs"]}

    @property
    def dataset_titles(self) -> dict[str, str]:
        """What to call each dataset."""
        datasets = self._experiment.datasets
        return {name: dataset.title for name, dataset in datasets.items()}

    @property
    def provenance(self) -> str:
        """Where the numbers come from, in words."""
        n_nodes = self._experiment.system.n_nodes
        return self._provenance(count_words(n_nodes, "node", separator=""))

    def inputs(self, one: Declared) -> dict[str, Any]:
        """Return the inputs of a figure, by their names."""
        folder = one.folder or MAIN_SWEEP
        sweep = folder if folder in self._experiment.sweeps else MAIN_SWEEP
        at = f"{self._runs.results}/{folder}"
        tables = {name: f"{at}/{name}.parquet" for name in one.tables}
        return {
            **tables,
            **one.named("inputs", self._known_inputs()),
            "observations": [] if one.source else self._runs.observations(sweep),
        }

    def settings(self, one: Declared) -> dict[str, Any]:
        """Return the parameters of a figure, by their names."""
        settings = one.named("settings", self._known_settings())
        if one.source:  # not of these runs
            return settings
        words = self._of_nodes() if one.folder == "nodes" else self.provenance
        return settings | {"provenance": words, "dataset_titles": self.dataset_titles}

    def reported(self, declared: Iterable[Declared]) -> list[Declared]:
        """Return which figures the report and target `all` have, in their order.

        The paper's, and the comparisons that the sweep allows. Studies are targets.
        """
        places = ["always", *["ideal"] * self._runs.has_ideal]
        places += self._comparisons.possible
        declared = list(declared)
        return [one for place in places for one in declared if one.in_report == place]

    def titles(self, one: Declared) -> dict[str, str]:
        """Return the titles of a figure's files."""
        return one.titles(self.pairs)

    def caption(self, one: Declared) -> str:
        """Return the name of a figure's caption."""
        of_program = one.caption_of_program * self._experiment.runs_program
        return of_program or one.name

    def refuse(self, one: Declared) -> Callable[[], None]:
        """Return the function that refuses a figure that the experiment cannot have."""
        refusals = {"ideal": self._comparisons.refuse_without_ideal}
        return refusals.get(one.in_report, lambda: None)

    def _known_inputs(self) -> Mapping[str, Any]:
        models = self._models
        return {
            "estimates": models.estimates,
            "utilisation_goals": models.if_goal_of_utilisation("goals"),
            "estimates_cheapest": models.if_goal_of_utilisation("estimates_cheapest"),
            "stalls": models.stalls,
            "stalls_of_training": models.stalls_of_training,
            "policy_claims": self._policy_claims,
        }

    def _known_settings(self) -> Mapping[str, Any]:
        settings = self._experiment.settings
        figures, search = settings["figures"], settings["whatif"]["search"]
        return {
            "epoch": figures["epoch"],
            "scenario": figures["scenario"],
            "scenarios": [scenario.keys for scenario in self._experiment.sweep],
            "improvements": figures["improvements"],
            "max_spread_percent": figures["max_spread_percent"],
            "classes": lambda wildcards: self.pairs[wildcards.pair],
            "grid": self.grid,
            "cost_per_percent": search["cost_per_percent"],
            "max_improvement_percent": search["max_improvement_percent"],
            "goal": settings["whatif"]["goal"],
            "model": self._models.words,
            "searching_model": self._models.searching_words,
            "may_hide": self._experiment.may_hide_io,
            "scene": self._comparisons.scene,
            "files_and_databases": self._comparisons.files_and_databases,
            "policy": figures["scenario"]["policy"],
            "study": self.trained,
        }

    def _of_nodes(self) -> str:
        numbers = self._experiment.settings["studies"]["nodes"]["n_nodes"]
        return self._provenance(f"{', '.join(map(str, numbers))} nodes")

    def _provenance(self, nodes: str) -> str:
        system = self._experiment.system
        n = system.n_processes
        processes = count_words(n, "process", "processes", separator="")
        return (
            f"{self._experiment.provenance}, system {system.name} "
            f"({system.description}), {processes} on {nodes}"
        )
