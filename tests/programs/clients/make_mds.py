"""Make a folder of MDS shards of about the same size, and their index.

`python make_mds.py FOLDER` makes it by mosaicml-streaming, which is in a folder of its
own beside the other packages.
"""

import sys

import numpy as np

sys.path.insert(0, f"{sys.prefix}/mds")

from streaming import MDSWriter

N_SHARDS, PER_SHARD, WIDTH = 8, 8, 16384
random = np.random.default_rng(1)
size_limit = (PER_SHARD + 1) * WIDTH * 4  # of a shard with its head
columns = {"x": "bytes"}
with MDSWriter(out=sys.argv[1], columns=columns, size_limit=size_limit) as writer:
    for _ in range(N_SHARDS * PER_SHARD):
        writer.write({"x": random.random(WIDTH, dtype=np.float32).tobytes()})
