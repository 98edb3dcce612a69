"""Made data of a calibration: simulated points and probes that err by a known noise."""

import numpy as np
import pandas as pd
from tierscope.core.description import ProbeDescription
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.simulator.run import simulate_reads, tables_of
from tierscope.storage.probes import REPEATS, plan


def io_time_of(description, cache_rates=(0, 65, 100), noise=0.0, repetition=0):
    """Simulate points; every class time of an epoch errs by some factor."""
    generator, parts = np.random.default_rng(1 + repetition), []
    for rate in cache_rates:
        point = Point(rate, repetition)
        part, _ = tables_of(description, point, simulate_reads(description, point))
        factor = np.exp(noise * generator.standard_normal((part["epoch"].max() + 1, 4)))
        by_class = part["io_class"].astype("category").cat.codes
        part["time_s"] *= factor[part["epoch"], by_class]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def probes_of(description, n_osts, noise=0.0):
    """Simulate probes of these OST counts; every repeat errs by some factor."""
    generator, rows = np.random.default_rng(2), []
    for count in n_osts:
        probed = ProbeDescription.of(description)
        times_s = probe_times(probed, count)
        for probe in plan(probed):
            for repeat in range(REPEATS):
                error = np.exp(noise * generator.standard_normal())
                time_s = max(times_s[probe.name], 1e-6) * error
                rows.append(
                    {
                        "source": "emulated",
                        "system": "scale-model",
                        "dataset": "small",
                        "n_osts": count,
                        "probe": probe.name,
                        "tier": probe.tier,
                        "operation": probe.operation,
                        "n_clients": probe.n_clients,
                        "repeat": repeat,
                        "operations": probe.n_operations,
                        "bytes": probe.n_bytes,
                        "time_s": time_s,
                        "mean_call_s": time_s,
                    }
                )
    return check_table(pd.DataFrame(rows), "probes")
