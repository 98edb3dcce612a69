"""What the rules of comparisons ask: which an experiment allows, and what they need."""

from collections.abc import Callable

from tierscope.core.studies import has_policies, without_reference
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.runs import Runs

NODE_TABLES = (
    "policy_epochs",
    "policy_totals",
    "node_epochs",
    "node_savings",
    "node_switches",
)
_LOADER_OF_USER = (
    "got loader.command, a program of yours; expected one of our loaders: the models "
    "and the paper's claims are about these."
)
_NO_NODES = (
    "config: studies.nodes.n_nodes: got [], expected numbers of nodes, as in "
    "config/policies.yaml"
)
_NO_IDEAL = (
    "config: sweep.ideal: got false, expected true: this target compares runs with "
    "ideal ones, whose storage costs nothing"
)


class Comparisons:
    """What an experiment compares: policies, loaders, nodes, ideal runs, claims.

    Parameters
    ----------
    runs : Runs
        The runs that are compared.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs, self._experiment = runs, runs.experiment
        shown = self._experiment.settings["figures"]["scenario"]
        self.scene = {key: shown[key] for key in ("dataset", "n_osts", "loader")}
        self.files_and_databases = {key: shown[key] for key in ("dataset", "n_osts")}
        self.has_nodes = bool(self._experiment.sweeps["nodes"])

    @property
    def possible(self) -> list[str]:
        """The comparisons that the sweep allows, by the names of their figures."""
        sweep = self._experiment.sweep
        if without_reference(sweep):
            return []
        scene = self.files_and_databases.items()
        is_possible = {
            "policies": has_policies(sweep, self.scene),
            "loaders": any(
                one.reads_database and scene <= one.keys.items() for one in sweep
            ),
            "nodes": self.has_nodes,
        }
        return [name for name, answer in is_possible.items() if answer]

    @property
    def scores_claims(self) -> bool:
        """Whether claims of other papers are scored: about loaders of ours."""
        return bool(self.possible) and not self._experiment.runs_program

    @property
    def texts(self) -> list[str]:
        """What is said of policies and loaders in words."""
        names = ["summary", *["claims"] * self.scores_claims]
        return [f"{self._runs.results}/policies/{name}.txt" for name in names]

    def node_table(self, name: str) -> list[str]:
        """Return a table of the study of nodes, if the study is configured."""
        return [f"{self._runs.results}/nodes/{name}.parquet"] * self.has_nodes

    def accuracy_tests(self) -> list[str]:
        """Return the tests of the study of accuracy, if they judge a claim."""
        is_wanted = self._experiment.settings["studies"]["accuracy"]["with_policies"]
        return [f"{self._runs.results}/accuracy/accuracy_tests.parquet"] * is_wanted

    def refuse_impossible(self) -> None:
        """Raise a ConfigError that says why nothing can be compared, if so."""
        if lacking := without_reference(self._experiment.sweep):
            raise ConfigError(
                f"sweep: {lacking.name} has no run at cache rate 0, expected a run of "
                "its loader to compare with, such as one of policy none"
            )
        if not self.possible:
            policies = ", ".join(sorted({one.policy for one in self._experiment.sweep}))
            raise ConfigError(
                f"sweep.policies: got {policies}, expected several to compare, one "
                "with a cache rate above 0, or loaders of LMDB, as in "
                "config/policies.yaml"
            )

    def refuse_without_nodes(self) -> None:
        """Raise a ConfigError if the study of nodes is not configured."""
        if not self.has_nodes:
            raise ConfigError(_NO_NODES)

    def refuse_without_ideal(self) -> None:
        """Raise a ConfigError if there are no ideal runs."""
        if not self._runs.has_ideal:
            raise ConfigError(_NO_IDEAL)

    def refuse_programs(self, target: str) -> Callable[[], None]:
        """Return the function that refuses a target that is about our loaders."""

        def refuse() -> None:
            if self._experiment.runs_program:
                raise ConfigError(f"{target}: {_LOADER_OF_USER}")

        return refuse
