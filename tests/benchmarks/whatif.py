"""Time and memory to search a grid over all four I/O classes, beside the naive way.

The naive way evaluates each combination for every process and cache rate, in NumPy. It
would take more than an hour for the large grid, so the two are compared on a coarser
one, where they must agree on every combination. I/O times are synthetic.
"""

from common import Results, WrongWork, progress, run_as_script, run_python

OURS, NAIVE = "search", "every combination"
MEMORY = "peak memory"
N_PROCESSES, N_ROUNDS = 3072, 3
STEPS, COMMON_STEPS = 40, 15


def measure(small: bool = False) -> Results:
    """Search the large grid alone, then a coarse one in both ways."""
    results = Results("whatif", "time to search all improvements (SYNTHETIC)", small)
    steps, common_steps, n_processes = STEPS, COMMON_STEPS, N_PROCESSES
    if small:
        steps, common_steps, n_processes = 10, 4, 384
    case = f"{steps + 1}^4 x 21 rates x {n_processes} ranks"
    n_rounds = 1 if small else N_ROUNDS
    for number in range(n_rounds):
        progress("whatif", f"{case}, round {number + 1} of {n_rounds}")
        sample = _search("search", steps, n_processes)
        n_found, n_all = sample["n_combinations"], (steps + 1) ** 4
        results.count(case, OURS, "combinations", n_found, n_all)
        results.add(case, OURS, [sample["seconds"]])
        results.add(case, f"{MEMORY}, {OURS}", [sample["peak_memory_mb"]], "MB")
    envelope = sample["envelope"]
    results.notes += [
        f"{sample['n_sufficient']} of {sample['n_combinations']} combinations meet the "
        f"goal, {sample['n_minimal']} are minimal.",
        f"on the upper envelope of a cache rate are {min(envelope)} to "
        f"{max(envelope)} of {n_processes} processes.",
    ]
    results.limit(case, OURS, at_most=60)
    results.limit(case, f"{MEMORY}, {OURS}", at_most=2000)
    case = f"{common_steps + 1}^4 x 21 rates x {n_processes} ranks"
    progress("whatif", f"{case}, both ways")
    sample = _search("both", common_steps, n_processes)
    n_all = (common_steps + 1) ** 4
    results.count(case, NAIVE, "combinations", sample["n_tried"], n_all)
    results.count(case, OURS, "equal least cache rates", sample["n_equal"], n_all)
    expected = sample["n_sufficient_naive"]
    results.count(case, OURS, "sufficient", sample["n_sufficient"], expected)
    results.add(case, OURS, [sample["seconds"]])
    results.add(case, NAIVE, [sample["naive_seconds"]])
    results.notes.append(
        f"{case}: the least cache rates of all {sample['n_combinations']} combinations "
        "are equal."
    )
    results.compare(case, NAIVE, OURS, at_least=50)
    return results


def _search(kind: str, n_steps: int, n_processes: int) -> dict:
    """Return what the search printed, if its goal tells combinations apart."""
    sample = run_python("search_grid.py", kind, n_steps, n_processes)
    if not 0 < sample["n_sufficient"] < sample["n_combinations"]:
        raise WrongWork(
            f"{sample['n_sufficient']} of {sample['n_combinations']} combinations meet "
            "the goal, expected some but not all."
        )
    return sample


if __name__ == "__main__":
    run_as_script(measure)
