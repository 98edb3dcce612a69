"""Shared by rules that compare runs: whether a comparison is possible."""

from tierscope.core.studies import has_policies, without_reference


def has_databases(scene):
    """Return whether LMDB loaders are among the scenarios that fit a scene."""
    return any(
        scenario.reads_database and scene.items() <= scenario.keys.items()
        for scenario in EXPERIMENT.sweep
    )


SCENE = {
    key: SETTINGS["figures"]["scenario"][key] for key in ("dataset", "n_osts", "loader")
}
FILES_AND_DATABASES = {key: SCENE[key] for key in ("dataset", "n_osts")}
LACKING = without_reference(EXPERIMENT.sweep)
CAN_COMPARE = {
    "policies": has_policies(EXPERIMENT.sweep, SCENE),
    "loaders": has_databases(FILES_AND_DATABASES),
    "nodes": bool(EXPERIMENT.sweeps["nodes"]),
}
COMPARED = [name for name in CAN_COMPARE if CAN_COMPARE[name] and not LACKING]
POLICY_CLAIMS = from_here(WORKFLOW.parent / "resources/paper/policy_claims.yaml")
# Tables of the study of nodes.
NODE_TABLES = (
    "policy_epochs",
    "policy_totals",
    "node_epochs",
    "node_savings",
    "node_switches",
)


def node_table(name):
    """Return a table of the study of nodes, if the study is configured."""
    return [f"{RESULTS}/nodes/{name}.parquet"] if EXPERIMENT.sweeps["nodes"] else []


def accuracy_tests():
    """Return the tests of the study of accuracy, if they judge a claim."""
    wanted = SETTINGS["studies"]["accuracy"]["with_policies"]
    return [f"{RESULTS}/accuracy/accuracy_tests.parquet"] if wanted else []


def if_nodes_vary(files):
    """Return the function that names files of the study of nodes or refuses it."""

    def names(wildcards):
        if not EXPERIMENT.sweeps["nodes"]:
            raise WorkflowError(
                "config: studies.nodes.n_nodes: got [], expected numbers of nodes, as in "
                "config/policies.yaml"
            )
        return files

    return names


def if_ideal(files):
    """Return the function that names files of ideal runs or refuses them."""

    def names(wildcards):
        if not IDEAL:
            raise WorkflowError(
                "config: sweep.ideal: got false, expected true: this target compares "
                "runs with ideal ones, whose storage costs nothing"
            )
        return files

    return names


def if_compared(files, compared, lacking):
    """Return the function that names files or refuses an impossible comparison."""

    def names(wildcards):
        if lacking:
            raise WorkflowError(
                f"sweep: {lacking.name} has no run at cache rate 0, expected a run of "
                "its loader to compare with, such as one of policy none"
            )
        if not compared:
            policies = ", ".join(sorted({one.policy for one in EXPERIMENT.sweep}))
            raise WorkflowError(
                f"sweep.policies: got {policies}, expected several to compare, one "
                "with a cache rate above 0, or loaders of LMDB, as in config/policies.yaml"
            )
        return files

    return names
