"""Shared by the rules of a study of accelerators: its workloads and tables."""

from tierscope.experiment.start import start_alone

WORKLOADS = [workload.name for workload in STUDY.workloads]
FED = f"{RESULTS}/accelerators"


def fed_tables(name):
    """Return a table of each workload and cache rate, in their order."""
    return expand(
        f"{FED}/{{workload}}/{name}-{{rate}}.parquet",
        workload=WORKLOADS,
        rate=[f"{rate:03d}" for rate in sorted(STUDY.cache_rates_percent)],
    )


def figure_inputs(one):
    """Return the inputs of a declared figure."""
    return {
        **{name: f"{TABLES}/{name}.parquet" for name in one.tables},
        "fit": fed_tables("fit") if STUDY.fit else [],
    }


def figure_settings(one):
    """Return the parameters of a declared figure."""
    sources = {workload.name: workload.source for workload in STUDY.workloads}
    return {"provenance": STUDY.provenance, "sources": sources}
