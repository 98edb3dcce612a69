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
