"""Tables of I/O times, breakdowns, estimates, goals, and what was measured how."""

from tierscope.core.columns.benchmark import N_RANKS, NETWORK, SHUFFLE, STEPS
from tierscope.core.columns.column import (
    ANY_NUMBER,
    Columns,
    count,
    ends,
    flag,
    if_known,
    number,
    percent,
    points,
    seconds,
    size,
    text,
    whole_percent,
)
from tierscope.core.columns.shared import (
    CLASS_TIMES,
    EPOCH_OR_AFTER,
    IMPROVEMENTS,
    RUN_KEYS,
    SCENARIO_KEYS,
    common,
)
from tierscope.core.machine import (
    BLOCK_DEVICE,
    MEMORY,
    NOTHING,
    RESIDENT_PAGES,
    SERVER,
)

_GOAL_OF = text(
    "Whether the goal is one of I/O time, execution time, or accelerator utilisation.",
    words=("io_time", "execution_time", "utilisation"),
)
_GOAL = if_known.seconds(
    "The largest time of an epoch that meets the goal; missing for a goal of "
    "utilisation."
)
_LEAST_UTILISATION = if_known.percent(
    "The least accelerator utilisation (AU) that meets the goal; missing for other "
    "goals."
)
_BEST_UTILISATION = if_known.percent(
    "AU at `best_cache_rate_percent`, mean over processes and repetitions; missing "
    "unless the goal is one of utilisation."
)

_IO_TIME: Columns = {
    "epoch": EPOCH_OR_AFTER,
    **common("rank", "io_class"),
    "time_s": seconds("Time that the process spent in this class."),
    "operations": count(
        "Number of reads, or in a metadata class of opens; an open and its close count "
        "as one, and so does a page fault of mapped memory."
    ),
    "bytes": size("Bytes that were read; 0 in metadata classes."),
}

_VERDICTS: Columns = {
    **common("epoch", "tier"),
    "bytes": size("Bytes that all processes read from the tier in the epoch."),
    "verdict": text(
        "From where `bytes` came: at least 95 % from the `device`, at most 5 % (`page "
        "cache`), in between (`mixed`), or `unknown`.",
        words=("device", "mixed", "page cache", "unknown"),
    ),
    "device_percent": if_known.percent(
        "Part of `bytes` that came from the device; missing if unknown."
    ),
    "told_by": text(
        "What tells the verdict: a counter of block devices or servers, a sample of "
        "resident pages, the type of a file system in memory, or nothing.",
        words=(BLOCK_DEVICE, SERVER, RESIDENT_PAGES, MEMORY, NOTHING),
    ),
    "reason": text(
        "Why the verdict cannot be known, or that the files are in memory; otherwise "
        "empty."
    ),
    "names": text(
        "Whether names and inodes were dropped from the machines' caches before the "
        "epoch, kept, or are always in memory.",
        words=("dropped", "kept", "in memory"),
    ),
}

_DRIFT: Columns = {
    **common("tier"),
    "before_s": seconds("Time of the sentinel's reads before the run's epochs."),
    "after_s": seconds("Time of the sentinel's reads after the run's epochs."),
    "median_s": seconds(
        "Median time of all reads of the same files, before and after all runs."
    ),
    "drift_percent": percent(
        "By how much the reads before or after took longer than the median, whichever "
        "differ more; below 0 if they were shorter.",
        ANY_NUMBER,
    ),
    "max_drift_percent": whole_percent("The largest drift that is not flagged."),
    "flagged": flag(
        "Whether `drift_percent` is larger than `max_drift_percent`, up or down."
    ),
}

_SPREAD: Columns = {
    **common("cache_rate_percent", "epoch"),
    "quantity": text(
        "Execution time, the largest of the processes, or I/O time, that of the "
        "slowest process.",
        words=("execution time", "I/O time"),
    ),
    **common("n_repetitions"),
    "mean_s": seconds("Mean of the quantity over the repetitions."),
    "sd_s": if_known.seconds(
        "Standard deviation over the repetitions; missing if there is one."
    ),
    **ends("{}_s", "the mean"),
    **common("cv"),
    "max_spread_percent": whole_percent(
        "The largest `cv` in percent that is not flagged."
    ),
    "flagged": flag("Whether `cv` is larger than `max_spread_percent`."),
}

_STORAGE_TIME: Columns = {
    **common("cache_rate_percent", "epoch"),
    "n_repetitions": count("Number of repetitions that have an ideal run."),
    "execution_time_s": seconds(
        "Execution time of the epoch, that of the longest process, mean over the "
        "repetitions."
    ),
    "compute_time_s": if_known.seconds(
        "Part of it in which a process or its device computed, without `warmup_s`, "
        "mean over processes and repetitions; missing if unseen, a least if "
        "`least_because` says so."
    ),
    "warmup_s": if_known.seconds(
        "Part of it in which the computation of the loop's first step took longer than "
        "a usual one, mean over processes and repetitions; missing if unseen."
    ),
    "loader_end_s": if_known.seconds(
        "Part of it in which a loader ended, such as its workers, mean over processes "
        "and repetitions; missing if unseen."
    ),
    "ideal_time_s": seconds(
        "Execution time with storage that costs nothing, mean over the repetitions."
    ),
    "ideal_warmup_s": if_known.seconds("The part of `ideal_time_s` that is warm-up."),
    "other_s": if_known.seconds(
        "Part of it in which the loop of the process with most made calls on files of "
        "no tier, such as checkpoints, mean over the repetitions; missing if unseen."
    ),
    "ideal_other_s": if_known.seconds("The same part of `ideal_time_s`."),
    "other_io": text(
        "What `other_s` consists of, by call and file system; empty if there is none."
    ),
    "beside_s": if_known.seconds(
        "Time of such calls by other threads and processes, such as workers, summed "
        "over those of the rank with most."
    ),
    "beside_io": text(
        "What `beside_s` consists of, by call and file system; empty if there is none."
    ),
    "storage_s": seconds(
        "Execution time minus the ideal one of the same repetition, mean of the pairs; "
        "without other storage I/O and without warm-up, where both runs know them.",
        ANY_NUMBER,
    ),
    "storage_interval_s": if_known.seconds(
        "Half the width of the 95 % confidence interval of `storage_s`; missing if "
        "there is one repetition."
    ),
    "utilisation_percent": if_known.percent(
        "Accelerator utilisation (AU), mean over processes and repetitions; missing "
        "if unseen, and if there is only one step; a least if `least_because` says so."
    ),
    "utilisation_interval_percent": if_known.percent(
        "Half the width of the 95 % confidence interval of `utilisation_percent`; "
        "missing if there is one repetition."
    ),
    "ideal_utilisation_percent": if_known.percent(
        "AU of the ideal runs: what no storage, however fast, can exceed; missing, or "
        "a least, as `utilisation_percent` is."
    ),
    "loop_utilisation_percent": if_known.percent(
        "AU as the loop of a program saw it, which goes on while a device computes, "
        "mean over processes and repetitions; missing if unseen."
    ),
    "least_because": STEPS["least_because"],
}

# Whether storage limits, and what leaves that open or decides it without ideal runs.
LIMITS, NO_LIMIT, UNDECIDED = "limits", "does not limit", "undecided"
NO_IDEAL, ONCE, HOLDS_0 = "no ideal runs", "one repetition", "interval holds 0"
NOTHING_HIDES = "nothing hides I/O time"

_LIMITS: Columns = {
    **common("cache_rate_percent", "epoch"),
    "storage": text(
        "Whether storage limits: not where the upper end of its part is below 10 % of "
        "the epoch; undecided where its interval holds 0, or where there is none and "
        "computation may hide I/O.",
        words=(LIMITS, NO_LIMIT, UNDECIDED),
    ),
    "why": text(
        "Why it is undecided, or that nothing hides I/O time, which so tells it "
        "without ideal runs; otherwise empty.",
        words=("", NO_IDEAL, ONCE, HOLDS_0, NOTHING_HIDES),
    ),
    "limit": text(
        "The I/O class that limits if storage does, several `together`, or `not known`."
    ),
    "named_by": text(
        "What names the class: the largest stall by the model, or the most I/O time of "
        "the slowest process.",
        words=("stall", "I/O time"),
    ),
    "besides": text(
        "What takes most of the epoch besides storage; `computation and processor` "
        "where both are not known apart."
    ),
    "most_s": if_known.seconds(
        "Upper end of the interval of storage's part, at most the epoch: what faster "
        "storage can save at most; missing if there is none."
    ),
    "most_percent": if_known.percent("The same in percent of the epoch.", ANY_NUMBER),
    "n_repetitions": _STORAGE_TIME["n_repetitions"],
    "n_deciding": if_known.number(
        "About how many repetitions decide whether storage limits, by the spread of "
        "those that were run; missing if it is decided, if no spread is known, and if "
        "1000 do not."
    ),
    "is_shortest": flag(
        "Whether the epoch is the shortest of the scenario; false without ideal runs."
    ),
    "may_hide": flag("Whether computation may hide I/O time, as that of a program."),
}

_GOALS: Columns = {
    **common("epoch"),
    "goal_of": _GOAL_OF,
    "goal_s": _GOAL,
    "goal_percent": _LEAST_UTILISATION,
    "difference_s": seconds(
        "Mean of execution time minus I/O time, which turns an I/O time into an "
        "execution time; 0 for other goals.",
        ANY_NUMBER,
    ),
    "best_cache_rate_percent": whole_percent(
        "Cache rate with the least I/O time without improvement, or for a goal of "
        "utilisation with the highest AU."
    ),
    "best_io_time_s": seconds(
        "I/O time at `best_cache_rate_percent`, mean over the repetitions."
    ),
    "best_utilisation_percent": _BEST_UTILISATION,
    "grid_step_percent": if_known.percent(
        "Step of the grid that was searched by the model, which may be wider than the "
        "configured one; missing for a search by the rule."
    ),
    "n_combinations": count("Number of combinations of improvements in the grid."),
    "n_sufficient": count(
        "Number of combinations that meet the goal at some cache rate."
    ),
    "n_minimal": count(
        "Number of combinations that meet the goal, and not if any improvement is one "
        "step smaller."
    ),
}

_COMBINATIONS: Columns = {
    **common("epoch"),
    "goal_of": _GOAL_OF,
    "goal_s": _GOAL,
    "goal_percent": _LEAST_UTILISATION,
    **IMPROVEMENTS,
    "cost": number("Cost of the improvements, by the configured cost per percent."),
    "cheapest": flag("Whether this is the cheapest combination; one of equal ones."),
    "min_cache_rate_percent": whole_percent(
        "The least cache rate with which the combination meets the goal."
    ),
    "lfs_gib_per_node": number(
        "What a node's LFS must hold at `min_cache_rate_percent`.", unit="GiB"
    ),
    "io_time_s": seconds(
        "Estimated I/O time at `min_cache_rate_percent`, mean over the repetitions."
    ),
    **common("cv"),
    "utilisation_percent": if_known.percent(
        "Estimated AU at `min_cache_rate_percent`, mean over processes and "
        "repetitions; missing unless the goal is one of utilisation."
    ),
    "in_every_repetition": flag(
        "Whether each repetition meets the goal at `min_cache_rate_percent`."
    ),
    "best_cache_rate_percent": whole_percent(
        "Cache rate with the least estimated I/O time with this combination, or for a "
        "goal of utilisation with the highest AU."
    ),
    "best_io_time_s": seconds(
        "Estimated I/O time at `best_cache_rate_percent`, mean over the repetitions."
    ),
    "best_utilisation_percent": _BEST_UTILISATION,
}

_ACCURACY_TESTS: Columns = {
    **common("source"),
    "network": NETWORK,
    "shuffle": SHUFFLE,
    "n_ranks": N_RANKS,
    "n_repetitions": count(
        "Number of pairs of trainings that begin with the same weights."
    ),
    "chance_percent": percent("Accuracy of guessing."),
    "best_possible_percent": percent(
        "Accuracy of the best classifier on the test samples."
    ),
    "global_accuracy_percent": percent(
        "Accuracy after the last epoch with global shuffle, mean over the repetitions."
    ),
    "accuracy_percent": percent(
        "Accuracy after the last epoch with this shuffle, mean over the repetitions."
    ),
    "difference_points": points(
        "Accuracy with this shuffle minus that with global shuffle, mean of the pairs.",
        ANY_NUMBER,
    ),
    "difference_sd_points": points("Standard deviation of the pairs' differences."),
    "low_90_points": points(
        "Lower end of the 90 % confidence interval of the difference.", ANY_NUMBER
    ),
    "high_90_points": points(
        "Upper end of the 90 % confidence interval of the difference.", ANY_NUMBER
    ),
    "low_95_points": points(
        "Lower end of the 95 % confidence interval of the difference.", ANY_NUMBER
    ),
    "high_95_points": points(
        "Upper end of the 95 % confidence interval of the difference.", ANY_NUMBER
    ),
    "difference_p": number("p value of the paired t test for a difference."),
    "different": flag("Whether `difference_p` is below 0.05."),
    "margin_points": points("The largest difference that does not matter."),
    "equivalence_p": number(
        "The larger p value of the two one-sided tests for a difference within the "
        "margin."
    ),
    "equivalent": flag(
        "Whether `equivalence_p` is below 0.05: the difference is within the margin."
    ),
    "shown_margin_points": points(
        "The smallest margin within which these trainings show the difference to be."
    ),
    "power_margin_points": points(
        "The margin that so many pairs would show with a probability of 80 % if there "
        "were no difference."
    ),
    "power_percent": percent(
        "Probability that so many pairs show the given margin if there is no "
        "difference."
    ),
}

_RUN_FACTS: Columns = {
    "part": text(
        "What the fact is about; the first three parts must be the same in all runs "
        "of a table, unless `allow_mixed` names them.",
        words=("tracer", "libraries", "modules", "machine", "software"),
    ),
    "fact": text("Name of the fact."),
    "value": text("The value that some runs have; `unknown` if they did not note it."),
    "n_runs": count("Number of runs, or of launches of probes, with this value."),
    "run": text("Folder of the newest run, or launch of probes, with this value."),
}

# What an improvement does to the training; missing where only I/O times are estimated.
TRAINING: Columns = {
    "execution_time_s": if_known.seconds(
        "Execution time of the epoch with this improvement, by the simulating model; "
        "missing by the rule, and where no steps were timed."
    ),
    "utilisation_percent": if_known.percent(
        "Accelerator utilisation (AU) with this improvement, mean over the processes; "
        "missing where `execution_time_s` is, and if there is only one step."
    ),
}
# How well the model knows it.
INTERVAL: Columns = {
    f"io_time_{end}_s": if_known.seconds(
        f"{word} end of the 95 % interval of `io_time_s`, as far as calibration and "
        "lack of fit tell; missing by the rule, and for devices of the system's file."
    )
    for end, word in (("low", "Lower"), ("high", "Upper"))
}
# Numbers that older tables lack, by table.
LATER_WORDS = {"storage_time": ("other_io", "beside_io", "least_because")}
LATER: dict[str, tuple[str, ...]] = {
    "storage_time": ("other_s", "ideal_other_s", "beside_s", "ideal_warmup_s"),
    "estimates": (*TRAINING, *INTERVAL),
    "goals": ("goal_percent", "best_utilisation_percent", "grid_step_percent"),
    "combinations": (
        "goal_percent",
        "utilisation_percent",
        "best_utilisation_percent",
    ),
}

TABLES: dict[str, Columns] = {
    "io_time": RUN_KEYS | _IO_TIME,
    "verdicts": RUN_KEYS | _VERDICTS,
    "drift": RUN_KEYS | _DRIFT,
    "breakdown": RUN_KEYS
    | {
        **common("epoch", "io_class", "slowest_rank"),
        "time_s": seconds("Time that the slowest process spent in this class."),
        "share": number(
            "Part of the slowest process's I/O time that `time_s` is, from 0 to 1."
        ),
    },
    "spread": SCENARIO_KEYS | _SPREAD,
    "estimates": RUN_KEYS
    | common("epoch", "method")
    | IMPROVEMENTS
    | {
        "io_time_s": seconds(
            "I/O time of the process that is the slowest with this improvement."
        ),
        **common("slowest_rank"),
    }
    | CLASS_TIMES
    | TRAINING
    | INTERVAL,
    "storage_time": SCENARIO_KEYS | _STORAGE_TIME,
    "limits": SCENARIO_KEYS | _LIMITS,
    "goals": SCENARIO_KEYS | _GOALS,
    "combinations": SCENARIO_KEYS | _COMBINATIONS,
    "accuracy_tests": _ACCURACY_TESTS,
    "run_facts": _RUN_FACTS,
}
