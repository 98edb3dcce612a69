"""Shared by the rules that simulate."""


def logged_manifest(wildcards):
    """Return the manifest of a run, or refuse a run whose log cannot be written."""
    if reason := why_no_audit(EXPERIMENT.scenario(wildcards.scenario)):
        raise WorkflowError(reason)
    return manifest(wildcards)
