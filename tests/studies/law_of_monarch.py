"""Compare hits of a program under Monarch: ``python tests/studies/law_of_monarch.py``.

A program whose ranks read 400 files in an order that is drawn for each epoch runs with
policy `monarch`, a process a node, and room for all files. It begins an epoch when all
copies of the one before are made. By the law, the LFS serves 1 - (1 - 1/n)^e of the
opens of epoch e (from 0) on n nodes.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow" / "scripts")]

import shared  # noqa: E402
from integration.programs import Programs  # noqa: E402
from integration.test_program_policies import EPOCHS, RANKS, write_files  # noqa: E402

N_FILES, NODES = 400, (1, 2, 4)


def served_by_lfs(folder: Path, n_nodes: int) -> tuple[list[float], str]:
    """Return the parts of opens served by the LFS, and whether copies were in time."""
    write_files(folder, N_FILES)
    programs = Programs(folder, policy="monarch", n_nodes=n_nodes)
    words = [str(folder / "notes"), str(N_FILES)]
    run = programs.run([*programs.python(RANKS), *words], "cache-100/rep-0")
    opens = run.evidence.opens.pivot_table(
        index="epoch", columns="tier", values="opens", aggfunc="sum", fill_value=0
    )
    return (opens["lfs"] / opens.sum(axis=1)).tolist(), run.said()["in time"][0]


def main() -> None:
    """Print the parts that are observed, those of the law, and their sampling error."""
    rows = []
    for n_nodes in NODES:
        with tempfile.TemporaryDirectory() as folder:
            parts, in_time = served_by_lfs(Path(folder), n_nodes)
        for epoch, part in enumerate(parts[:EPOCHS]):
            law = 1 - (1 - 1 / n_nodes) ** epoch
            error = (law * (1 - law) / N_FILES) ** 0.5
            rows.append([n_nodes, epoch, part, law, error, in_time])
    columns = ["nodes", "epoch", "observed", "law", "sampling_error", "in_time"]
    print(pd.DataFrame(rows, columns=columns).round(4).to_string(index=False))


if __name__ == "__main__":
    shared.begin()
    try:
        main()
    finally:
        shared.end()
