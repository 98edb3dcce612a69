"""A real Slurm cluster for the tests of this folder."""

import pytest
from slurm.cluster import ClusterUnavailable, SlurmCluster


@pytest.fixture(scope="session")
def slurm_cluster():
    """Return a running cluster of four nodes; skip where there can be none."""
    cluster = SlurmCluster()
    try:
        cluster.__enter__()
    except ClusterUnavailable as error:
        pytest.skip(str(error))
    yield cluster
    cluster.__exit__()
