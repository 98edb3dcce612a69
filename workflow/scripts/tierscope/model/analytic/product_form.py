"""The mean rank in the steady state of the machine's product-form network.

Exact mean value analysis, or Schweitzer's, of the same demands as
`tierscope.model.analytic.tiered`, with the assumptions named there and these of product
form:

- service times are exponential, whatever the system's are;
- a rank takes any link at random, instead of always its own;
- several servers of a queue are a faster one and a delay (Seidmann et al. 1987).
"""

import numpy as np

from tierscope.model.analytic.mva import exact_mva, schweitzer_mva
from tierscope.model.analytic.tiered import each_group, tiered_network
from tierscope.model.demands import check_modelled, hit_fraction
from tierscope.storage.network import Network, Workload

SOLVERS = {"schweitzer": schweitzer_mva, "exact-mva": exact_mva}


def product_form_times(
    network: Network, workload: Workload, cache_rate_percent: float, solver: str
) -> np.ndarray:
    """Return the class times of the mean rank, all others reading all the time.

    Parameters
    ----------
    network, workload
        Machine and what its ranks read.
    cache_rate_percent : float
        Percent of the files that are pinned on the LFS.
    solver : {"schweitzer", "exact-mva"}
        How the network is solved. Each LFS group is a class of customers.

    Returns
    -------
    ndarray, shape (4,)
        Seconds of an epoch by class, in the order of `IOClass`.

    Raises
    ------
    TooLargeError
        If the network has too many states for ``exact-mva``.
    ModelError
        As `tierscope.model.demands.check_modelled`.
    """
    check_modelled(network, workload, cache_rate_percent)
    hits = hit_fraction(workload, cache_rate_percent)
    groups = each_group(network)
    model = tiered_network(network, workload, groups)
    pairs, n_groups = model.stations, len(groups.n_ranks)
    n_copies = pairs.n_copies.astype(np.int64)
    # A station is a row for each of its copies, and think time the last row.
    first_row = np.cumsum(n_copies) - n_copies
    part = np.where(model.on_lfs, hits, 1 - hits)
    of_station = np.zeros((len(n_copies), n_groups))
    copies = n_copies[pairs.station_of]
    of_station[pairs.station_of, pairs.class_of] = model.demand_s * part / copies
    fixed_s = model.fixed_s * [1 - hits, 1 - hits, hits, hits]
    think_s = np.full((1, n_groups), fixed_s.sum() + model.idle_s)
    demand_s = np.vstack([np.repeat(of_station, n_copies, axis=0), think_s])
    if not demand_s.any():
        return np.zeros(4)
    delay = np.arange(len(demand_s)) == len(demand_s) - 1
    result = SOLVERS[solver](demand_s, groups.n_ranks, delay=delay)
    residence_s = result.residence_s[first_row[pairs.station_of], pairs.class_of]
    file_s = np.bincount(model.class_cell, residence_s * copies, 4 * n_groups)
    file_s = groups.share @ file_s.reshape(n_groups, 4) + fixed_s
    return file_s * (workload.n_files / network.n_ranks)
