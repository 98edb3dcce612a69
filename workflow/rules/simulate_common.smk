"""Shared by the rules that simulate: their points, and the files of their runs."""


def simulated_points(wildcards):
    """Return the points of a scenario in a sweep, as mappings."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return list(map(asdict, EXPERIMENT.sweeps[wildcards.sweep][scenario]))


def of_simulated(name, which=lambda scenario: True):
    """Return the function that names a file of each scenario of a rule's sweep.

    If an earlier sweep has exactly these points, they are not simulated again.
    """
    return lambda wildcards: [
        f"{RESULTS}/runs/{scenario.name}/{first_sweep(scenario, points)}/{name}"
        for scenario, points in EXPERIMENT.sweeps[wildcards.sweep].items()
        if which(scenario)
    ]


def first_sweep(scenario, points):
    """Return the first sweep with exactly these points of a scenario."""
    sweeps = EXPERIMENT.sweeps.items()
    return next(name for name, sweep in sweeps if sweep.get(scenario) == points)


def logged_manifest(wildcards):
    """Return the manifest of a run, or refuse a run whose log cannot be written."""
    if reason := why_no_audit(EXPERIMENT.scenario(wildcards.scenario)):
        raise WorkflowError(reason)
    return manifest(wildcards)
