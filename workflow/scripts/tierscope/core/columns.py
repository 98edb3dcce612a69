"""Contracts of the tables: which columns each has, their types and ranges.

Every table is Parquet. Settings in percent (cache rates, improvements, goals) are
integers, results in percent or points are float64; times are seconds in float64, sizes
are bytes. Only these values may be missing: spread and interval of points that were run
once, the number of a claim without one, the number of epochs if staging never pays off,
and observations of the page cache where there is none.
"""

import math

from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass

INTEGER, NUMBER, TEXT, FLAG = "int64", "float64", "str", "bool"
SECONDS = NUMBER

SCENARIO_KEYS = {
    "source": TEXT,
    "system": TEXT,
    "dataset": TEXT,
    "n_osts": INTEGER,
    "policy": TEXT,
    "loader": TEXT,
}
POINT_KEYS = {"cache_rate_percent": INTEGER, "repetition": INTEGER}
RUN_KEYS = SCENARIO_KEYS | POINT_KEYS
POINT = list(POINT_KEYS)
SCENARIO = list(SCENARIO_KEYS)
RUN_EPOCH = [*RUN_KEYS, "epoch"]
CLASSES = [str(io_class) for io_class in IOClass]
IMPROVEMENTS = [f"{io_class}_improvement_percent" for io_class in CLASSES]
CLASS_TIMES = [f"{io_class}_s" for io_class in CLASSES]

_TIME_CUTS = {
    "time_cut_percent": NUMBER,
    "time_cut_low_percent": NUMBER,
    "time_cut_high_percent": NUMBER,
    "io_time_cut_percent": NUMBER,
    "io_time_cut_low_percent": NUMBER,
    "io_time_cut_high_percent": NUMBER,
}

# Of real tiers: a process's reads from block devices, its node's reads from servers,
# and what a sample of the files had in the page cache before the epoch.
_PAGE_CACHE = {
    "device_bytes": NUMBER,
    "gfs_server_bytes": NUMBER,
    "lfs_server_bytes": NUMBER,
    "gfs_resident_percent": NUMBER,
    "lfs_resident_percent": NUMBER,
    "names_dropped": FLAG,
}
_RUN_EPOCHS = {
    "rank": INTEGER,
    "node": INTEGER,
    "epoch": INTEGER,
    "execution_time_s": SECONDS,
    "samples": INTEGER,
    "bytes": INTEGER,
    "lfs_files": INTEGER,
    "gfs_files": INTEGER,
    "lfs_fill_time_s": SECONDS,
    **_PAGE_CACHE,
}
# Columns that older tables lack, as tables without such observations do.
LATER = {name: math.nan for name, kind in _PAGE_CACHE.items() if kind == NUMBER}
LATER |= {name: False for name, kind in _PAGE_CACHE.items() if kind == FLAG}

# What tells whether reads of real tiers left the page cache: column `told_by`.
BLOCK_DEVICE, SERVER, MEMORY = "block device", "server", "memory"
RESIDENT_PAGES, NOTHING = "resident pages", "nothing"

RULE, MODEL = "rule", "model"  # the methods of estimates: column `method`

_COPIES = {
    "gfs_opens": INTEGER,
    "gfs_reads": INTEGER,
    "gfs_bytes": INTEGER,
    "gfs_read_time_s": SECONDS,
    "gfs_meta_time_s": SECONDS,
    "lfs_opens": INTEGER,
    "lfs_writes": INTEGER,
    "lfs_bytes": INTEGER,
    "lfs_write_time_s": SECONDS,
    "lfs_meta_time_s": SECONDS,
}

_RUN_BACKGROUND = {
    "node": INTEGER,
    "epoch": INTEGER,
    "placed_files": INTEGER,
    "handed_over_files": INTEGER,
    "failed_files": INTEGER,
    "evicted_files": INTEGER,
    **_COPIES,
    "drain_time_s": SECONDS,
}

_RUN_STAGE_IN = {
    "node": INTEGER,
    **_COPIES,
    "stage_in_time_s": SECONDS,
}

_RUN_PEERS = {
    "rank": INTEGER,
    "node": INTEGER,
    "epoch": INTEGER,
    "peer_files": INTEGER,
    "peer_bytes": INTEGER,
    "net_read_time_s": SECONDS,
    "peer_lfs_read_time_s": SECONDS,
    "peer_lfs_meta_time_s": SECONDS,
    "network_time_s": SECONDS,
}

_IMPROVEMENTS = dict.fromkeys(IMPROVEMENTS, INTEGER)
_CLASS_TIMES = dict.fromkeys(CLASS_TIMES, SECONDS)

# Of the logs of any job: a class is an operation through an interface on a tier.
INTERFACES = ["POSIX", "STDIO", "MPI-IO"]
OPERATIONS = ["read", "meta", "write", "write meta", "read-write meta"]
JOB_CLASS = ["tier", "interface", "operation"]
EXACT, BOUNDS, LOWER_BOUNDS = "exact", "bounds", "lower bounds"  # column `times_are`
_JOB_EPOCH = {"job": TEXT, "epoch": INTEGER}
_JOB_CLASS = dict.fromkeys(JOB_CLASS, TEXT)
_BOUNDS = {"least_s": SECONDS, "most_s": SECONDS}

_JOB_TABLES = {
    "logs": {
        "log": TEXT,
        "digest": TEXT,
        "job": TEXT,
        "process": INTEGER,
        "reader": TEXT,
        "log_format": TEXT,
        "darshan": TEXT,
        "exe": TEXT,
        "user": TEXT,
        "job_id": INTEGER,
        "host": TEXT,
        "n_processes": INTEGER,
        "started_s": SECONDS,
        "run_time_s": SECONDS,
        "modules": TEXT,
        "partial": TEXT,
        "n_records": INTEGER,
        "n_shared_records": INTEGER,
        "n_nameless_records": INTEGER,
        "n_mappings": INTEGER,
        "mapped_bytes": NUMBER,
    },
    "refusals": {"log": TEXT, "reason": TEXT},
    "tier_prefixes": {"tier": TEXT, "prefix": TEXT, "fs_type": TEXT, "n_logs": INTEGER},
    "jobs": {
        "job": TEXT,
        "exe": TEXT,
        "user": TEXT,
        "host": TEXT,
        "started_s": SECONDS,
        "run_time_s": SECONDS,
        "n_processes": INTEGER,
        "n_logs": INTEGER,
        "n_nodes": NUMBER,
        "grouped_by": TEXT,
        "times_are": TEXT,
        "remarks": TEXT,
    },
    "job_times": _JOB_EPOCH
    | {"rank": INTEGER}
    | _JOB_CLASS
    | {
        "counted": FLAG,
        **_BOUNDS,
        "largest_s": SECONDS,
        "operations": NUMBER,
        "bytes": NUMBER,
    },
    "job_processes": _JOB_EPOCH | {"rank": INTEGER, **_BOUNDS, "can_be_slowest": FLAG},
    "job_slowest": _JOB_EPOCH
    | {
        "times_are": TEXT,
        "n_slowest": INTEGER,
        "slowest_ranks": TEXT,
        **_BOUNDS,
        "run_least_percent": NUMBER,
        "run_most_percent": NUMBER,
        "bottleneck": TEXT,
        "sentence": TEXT,
    },
    "job_breakdown": _JOB_EPOCH
    | _JOB_CLASS
    | {
        "counted": FLAG,
        **_BOUNDS,
        "sum_s": SECONDS,
        "operations": INTEGER,
        "bytes": INTEGER,
        "files": INTEGER,
    },
    "job_files": {
        "job": TEXT,
        "kind": TEXT,
        "position": INTEGER,
        "path": TEXT,
        "tier": TEXT,
        "time_s": SECONDS,
        "opens": INTEGER,
        "reads": INTEGER,
        "writes": INTEGER,
        "bytes_read": INTEGER,
        "bytes_written": INTEGER,
    },
    "job_sizes": {
        "job": TEXT,
        "tier": TEXT,
        "operation": TEXT,
        "position": INTEGER,
        "size": TEXT,
        "calls": INTEGER,
    },
    "job_estimates": _JOB_EPOCH
    | {
        "method": TEXT,
        "improvement": TEXT,
        "n_classes": INTEGER,
        "improvement_percent": INTEGER,
        **_BOUNDS,
        "saved_least_s": SECONDS,
        "saved_most_s": SECONDS,
    },
    "job_combinations": _JOB_EPOCH
    | {
        "method": TEXT,
        "goal_s": SECONDS,
        "position": INTEGER,
        "improvement": TEXT,
        "cost": NUMBER,
        "certain": FLAG,
        **_BOUNDS,
    },
    "fleet": {
        "job": TEXT,
        "exe": TEXT,
        "user": TEXT,
        "month": TEXT,
        "started_s": SECONDS,
        "run_time_s": SECONDS,
        "n_processes": INTEGER,
        "times_are": TEXT,
        "io_least_s": SECONDS,
        "io_most_s": SECONDS,
        "io_least_percent": NUMBER,
        "io_most_percent": NUMBER,
        "bottleneck": TEXT,
        "hours_of": TEXT,
        "io_hours": NUMBER,
        "meta_tier": TEXT,
        "meta_saved_least_hours": NUMBER,
        "meta_saved_most_hours": NUMBER,
        "outlier": TEXT,
    },
    "fleet_classes": {"job": TEXT}
    | _JOB_CLASS
    | {"hours_of": TEXT, "least_hours": NUMBER, "most_hours": NUMBER},
}

TABLES = {
    **_JOB_TABLES,
    "manifest": {
        "file_id": INTEGER,
        "path": TEXT,
        "size_bytes": INTEGER,
        "ost": INTEGER,
    },
    "run_epochs": _RUN_EPOCHS,
    "epochs": RUN_KEYS | _RUN_EPOCHS,
    "file_records": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "file_id": INTEGER,
        "opens": INTEGER,
        "reads": INTEGER,
        "bytes_read": INTEGER,
        "read_time_s": SECONDS,
        "meta_time_s": SECONDS,
    },
    "background_records": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "file_id": INTEGER,
        "opens": INTEGER,
        "reads": INTEGER,
        "bytes_read": INTEGER,
        "read_time_s": SECONDS,
        "writes": INTEGER,
        "bytes_written": INTEGER,
        "write_time_s": SECONDS,
        "meta_time_s": SECONDS,
    },
    "decisions": {
        "node": INTEGER,
        "step": INTEGER,
        "time_s": SECONDS,
        "event": TEXT,
        "epoch": INTEGER,
        "rank": INTEGER,
        "file_id": INTEGER,
        "place": TEXT,
        "detail": TEXT,
    },
    "peer_reads": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "file_id": INTEGER,
        "owner": INTEGER,
        "bytes": INTEGER,
        "time_s": SECONDS,
        "lfs_read_time_s": SECONDS,
        "lfs_meta_time_s": SECONDS,
    },
    "run_stage_in": _RUN_STAGE_IN,
    "stage_in": RUN_KEYS | _RUN_STAGE_IN,
    "run_peers": _RUN_PEERS,
    "peers": RUN_KEYS | _RUN_PEERS,
    "run_background": _RUN_BACKGROUND,
    "background": RUN_KEYS | _RUN_BACKGROUND,
    "policy_epochs": RUN_KEYS
    | {
        "epoch": INTEGER,
        "execution_time_s": SECONDS,
        "drain_time_s": SECONDS,
        "io_time_s": SECONDS,
        **_CLASS_TIMES,
        f"{NET_READ}_s": SECONDS,
        "gfs_opens": INTEGER,
        "gfs_reads": INTEGER,
        "lfs_opens": INTEGER,
        "background_gfs_opens": INTEGER,
        "background_gfs_reads": INTEGER,
        "placed_files": INTEGER,
        "evicted_files": INTEGER,
        "failed_files": INTEGER,
    },
    "policy_totals": RUN_KEYS
    | {
        "n_nodes": INTEGER,
        "n_epochs": INTEGER,
        "staging": TEXT,
        "staging_time_s": SECONDS,
        "staging_gfs_operations": INTEGER,
        "time_s": SECONDS,
        "reference_time_s": SECONDS,
        "io_time_s": SECONDS,
        "reference_io_time_s": SECONDS,
        "gfs_operations": INTEGER,
        "background_gfs_operations": INTEGER,
        "reference_gfs_operations": INTEGER,
    },
    "policy_summary": SCENARIO_KEYS
    | {
        "cache_rate_percent": INTEGER,
        "n_repetitions": INTEGER,
        "n_epochs": INTEGER,
        "staging": TEXT,
        "staging_time_s": SECONDS,
        "last_epoch_time_s": SECONDS,
        "reference_last_epoch_time_s": SECONDS,
        **_TIME_CUTS,
        "gfs_operations_cut_percent": NUMBER,
        "pays_after_epochs": NUMBER,
    },
    "node_epochs": SCENARIO_KEYS
    | {
        "cache_rate_percent": INTEGER,
        "n_nodes": INTEGER,
        "epoch": INTEGER,
        "n_repetitions": INTEGER,
        "gfs_reads": INTEGER,
        "reference_gfs_reads": INTEGER,
        "saved_percent": NUMBER,
        "saved_low_percent": NUMBER,
        "saved_high_percent": NUMBER,
        "law_percent": NUMBER,
    },
    "node_savings": SCENARIO_KEYS
    | {
        "cache_rate_percent": INTEGER,
        "n_nodes": INTEGER,
        "n_epochs": INTEGER,
        "n_repetitions": INTEGER,
        **_TIME_CUTS,
        "gfs_operations_cut_percent": NUMBER,
        "law_percent": NUMBER,
    },
    "node_switches": RUN_KEYS
    | {
        "n_nodes": INTEGER,
        "processes_per_node": INTEGER,
        "records": INTEGER,
        "access_time_s": SECONDS,
        "major_faults": INTEGER,
        "minor_faults": INTEGER,
        "voluntary_switches": INTEGER,
        "involuntary_switches": INTEGER,
    },
    "policy_claims": {
        "claim": TEXT,
        "paper": TEXT,
        "title": TEXT,
        "statement": TEXT,
        "stated": TEXT,
        "stated_number": TEXT,
        "here": TEXT,
        "value": NUMBER,
        "accepted": TEXT,
        "status": TEXT,
        "details": TEXT,
        "comparable": TEXT,
        "not_comparable": TEXT,
        "source": TEXT,
    },
    "read_calls": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "kind": TEXT,
        "mapped": FLAG,
        "offset": INTEGER,
        "bytes": INTEGER,
        "time_s": SECONDS,
        "faults": INTEGER,
    },
    "record_reads": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "file_id": INTEGER,
        "reader": INTEGER,
    },
    "faults": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "access_time_s": SECONDS,
        "major_faults": INTEGER,
        "minor_faults": INTEGER,
        "voluntary_switches": INTEGER,
        "involuntary_switches": INTEGER,
    },
    "io_time": RUN_KEYS
    | {
        "epoch": INTEGER,
        "rank": INTEGER,
        "io_class": TEXT,
        "time_s": SECONDS,
        "operations": INTEGER,
        "bytes": INTEGER,
    },
    "verdicts": RUN_KEYS
    | {
        "epoch": INTEGER,
        "tier": TEXT,
        "bytes": INTEGER,
        "verdict": TEXT,
        "device_percent": NUMBER,
        "told_by": TEXT,
        "reason": TEXT,
        "names": TEXT,
    },
    "drift": RUN_KEYS
    | {
        "tier": TEXT,
        "before_s": SECONDS,
        "after_s": SECONDS,
        "median_s": SECONDS,
        "drift_percent": NUMBER,
        "max_drift_percent": INTEGER,
        "flagged": FLAG,
    },
    "breakdown": RUN_KEYS
    | {
        "epoch": INTEGER,
        "io_class": TEXT,
        "slowest_rank": INTEGER,
        "time_s": SECONDS,
        "share": NUMBER,
    },
    "spread": SCENARIO_KEYS
    | {
        "cache_rate_percent": INTEGER,
        "epoch": INTEGER,
        "quantity": TEXT,
        "n_repetitions": INTEGER,
        "mean_s": SECONDS,
        "sd_s": SECONDS,
        "low_s": SECONDS,
        "high_s": SECONDS,
        "cv": NUMBER,
        "max_spread_percent": INTEGER,
        "flagged": FLAG,
    },
    "estimates": RUN_KEYS
    | {"epoch": INTEGER, "method": TEXT}
    | _IMPROVEMENTS
    | {"io_time_s": SECONDS, "slowest_rank": INTEGER}
    | _CLASS_TIMES,
    "goals": SCENARIO_KEYS
    | {
        "epoch": INTEGER,
        "goal_of": TEXT,
        "goal_s": SECONDS,
        "difference_s": SECONDS,
        "best_cache_rate_percent": INTEGER,
        "best_io_time_s": SECONDS,
        "n_combinations": INTEGER,
        "n_sufficient": INTEGER,
        "n_minimal": INTEGER,
    },
    "combinations": SCENARIO_KEYS
    | {"epoch": INTEGER, "goal_of": TEXT, "goal_s": SECONDS}
    | _IMPROVEMENTS
    | {
        "cost": NUMBER,
        "cheapest": FLAG,
        "min_cache_rate_percent": INTEGER,
        "lfs_gib_per_node": NUMBER,
        "io_time_s": SECONDS,
        "cv": NUMBER,
        "in_every_repetition": FLAG,
        "best_cache_rate_percent": INTEGER,
        "best_io_time_s": SECONDS,
    },
    "whatif_truth": SCENARIO_KEYS
    | {"cache_rate_percent": INTEGER}
    | _IMPROVEMENTS
    | {
        "n_repetitions": INTEGER,
        "base_io_time_s": SECONDS,
        "improved_io_time_s": SECONDS,
        "rule_io_time_s": SECONDS,
        "model_io_time_s": SECONDS,
        "measured_cut_percent": NUMBER,
        "measured_cut_low_percent": NUMBER,
        "measured_cut_high_percent": NUMBER,
        "rule_cut_percent": NUMBER,
        "model_cut_percent": NUMBER,
        "rule_error_points": NUMBER,
        "rule_error_low_points": NUMBER,
        "rule_error_high_points": NUMBER,
        "model_error_points": NUMBER,
        "model_error_low_points": NUMBER,
        "model_error_high_points": NUMBER,
        "base_among_best": FLAG,
        "measured_among_best": FLAG,
        "rule_among_best": FLAG,
        "model_among_best": FLAG,
        "model": TEXT,
        "calibration": TEXT,
    },
    "whatif_truth_summary": SCENARIO_KEYS
    | _IMPROVEMENTS
    | {
        "model": TEXT,
        "calibration": TEXT,
        "n_points": INTEGER,
        "n_repetitions": INTEGER,
        "cut_half_width_points": NUMBER,
        "rule_mean_error_points": NUMBER,
        "rule_largest_error_points": NUMBER,
        "rule_largest_error_cache_rate_percent": INTEGER,
        "model_mean_error_points": NUMBER,
        "model_largest_error_points": NUMBER,
        "model_largest_error_cache_rate_percent": INTEGER,
        "base_best_cache_rate_percent": INTEGER,
        "measured_best_cache_rate_percent": INTEGER,
        "rule_best_cache_rate_percent": INTEGER,
        "model_best_cache_rate_percent": INTEGER,
        "base_best_set_percent": TEXT,
        "measured_best_set_percent": TEXT,
        "rule_best_set_percent": TEXT,
        "model_best_set_percent": TEXT,
        "measured_best_cut_percent": NUMBER,
        "rule_best_cut_percent": NUMBER,
        "model_best_cut_percent": NUMBER,
    },
    "predictions": SCENARIO_KEYS
    | {
        "calibration": TEXT,
        "model": TEXT,
        "cache_rate_percent": INTEGER,
        "held_out": FLAG,
        "io_class": TEXT,
        "predicted_s": SECONDS,
        "measured_s": SECONDS,
        "measured_low_s": SECONDS,
        "measured_high_s": SECONDS,
        "measured_io_time_low_s": SECONDS,
        "measured_io_time_high_s": SECONDS,
    },
    "prediction_errors": SCENARIO_KEYS
    | {
        "calibration": TEXT,
        "model": TEXT,
        "n_points": INTEGER,
        "n_with_interval": INTEGER,
        "n_inside": INTEGER,
        "mape_percent": NUMBER,
        "largest_error_percent": NUMBER,
        "mean_error_percent": NUMBER,
    }
    | {f"{io_class}_share_error_points": NUMBER for io_class in IOClass}
    | {
        "dominant_right_percent": NUMBER,
        "dominant_wrong_at_percent": TEXT,
        "undecided_at_percent": TEXT,
        "best_predicted_percent": INTEGER,
        "best_measured_percent": INTEGER,
        "best_measured_set_percent": TEXT,
        "best_in_set": FLAG,
        "best_within_one_step": FLAG,
        "repeat_cv_percent": NUMBER,
        "largest_repeat_cv_percent": NUMBER,
        "goal_percent": INTEGER,
        "error_goal_met": FLAG,
        "dominant_goal_met": FLAG,
    },
    "probes": {
        "source": TEXT,
        "system": TEXT,
        "dataset": TEXT,
        "n_osts": INTEGER,
        "probe": TEXT,
        "tier": TEXT,
        "operation": TEXT,
        "n_clients": INTEGER,
        "repeat": INTEGER,
        "operations": INTEGER,
        "bytes": INTEGER,
        "time_s": SECONDS,
        "mean_call_s": SECONDS,
    },
    "calibration": {
        "source": TEXT,
        "system": TEXT,
        "calibration": TEXT,
        "parameter": TEXT,
        "unit": TEXT,
        "value": NUMBER,
        "standard_error": NUMBER,
        "status": TEXT,
        "reason": TEXT,
        "lower_bound": NUMBER,
        "upper_bound": NUMBER,
        "n_observations": INTEGER,
        "rms_percent": NUMBER,
    },
    "accuracy": {
        "source": TEXT,
        "network": TEXT,
        "shuffle": TEXT,
        "n_ranks": INTEGER,
        "n_classes": INTEGER,
        "repetition": INTEGER,
        "epoch": INTEGER,
        "accuracy_percent": NUMBER,
    },
    "accuracy_tests": {
        "source": TEXT,
        "network": TEXT,
        "shuffle": TEXT,
        "n_ranks": INTEGER,
        "n_repetitions": INTEGER,
        "chance_percent": NUMBER,
        "best_possible_percent": NUMBER,
        "global_accuracy_percent": NUMBER,
        "accuracy_percent": NUMBER,
        "difference_points": NUMBER,
        "difference_sd_points": NUMBER,
        "low_90_points": NUMBER,
        "high_90_points": NUMBER,
        "low_95_points": NUMBER,
        "high_95_points": NUMBER,
        "difference_p": NUMBER,
        "different": FLAG,
        "margin_points": NUMBER,
        "equivalence_p": NUMBER,
        "equivalent": FLAG,
        "shown_margin_points": NUMBER,
        "power_margin_points": NUMBER,
        "power_percent": NUMBER,
    },
    "run_facts": {
        "part": TEXT,
        "fact": TEXT,
        "value": TEXT,
        "n_runs": INTEGER,
        "run": TEXT,
    },
    "claims": {
        "source": TEXT,
        "system": TEXT,
        "claim": TEXT,
        "section": TEXT,
        "title": TEXT,
        "statement": TEXT,
        "scenarios": TEXT,
        "n_repetitions": INTEGER,
        "expected": TEXT,
        "accepted": TEXT,
        "tolerance": TEXT,
        "measured": TEXT,
        "details": TEXT,
        "value": NUMBER,
        "low": NUMBER,
        "high": NUMBER,
        "interval": TEXT,
        "status": TEXT,
        "reason": TEXT,
        "fitted": TEXT,
    },
}

ALLOWED = {
    "source": {"measured", "emulated", "simulated", "trained"},
    "network": {"plain", "batch-norm", "sync-batch-norm"},
    "shuffle": {"global", "local", "biased"},
    "tier": {"gfs", "lfs", "net"},
    "kind": {"tree", "data", "fault"},
    "operation": {"open", "read", "close"},
    "place": {"gfs", "lfs", "peer"},
    "event": {"begin", "end", "copy", "placed", "failed", "evict"},
    "detail": {"", "handed over", "read again", "full", "error"},
    "io_class": {str(io_class) for io_class in ALL_CLASSES},
    "quantity": {"execution time", "I/O time"},
    "method": {RULE, MODEL},
    "goal_of": {"io_time", "execution_time"},
    "verdict": {"device", "mixed", "page cache", "unknown"},
    "told_by": {BLOCK_DEVICE, SERVER, RESIDENT_PAGES, MEMORY, NOTHING},
    "names": {"dropped", "kept", "in memory"},
    "status": {"holds", "does not hold", "undecided", "not measurable here"},
    "calibration.status": {"fitted", "joined", "bound", "kept"},
    "fitted": {"no", "target", "by hand", "derived"},
    "part": {"tracer", "libraries", "modules", "machine", "software"},
    "staging": {"none", "while training", "estimated", "run"},
    "interface": set(INTERFACES),
    "times_are": {EXACT, BOUNDS, LOWER_BOUNDS},
    "hours_of": {"nodes", "processes"},
    "reader": {"tierscope", "PyDarshan"},
    "job_files.kind": {"file", "folder"},
    "job_sizes.operation": {"read", "write"},
}
for _name, _columns in _JOB_TABLES.items():
    if "tier" in _columns:
        ALLOWED[f"{_name}.tier"] = set()  # any name
    if "interface" in _columns:
        ALLOWED[f"{_name}.operation"] = set(OPERATIONS)
_CUT_ENDS = [
    f"{time}_cut_{end}_percent"
    for time in ("time", "io_time")
    for end in ("low", "high")
]
_TRUTH_ENDS = [
    name
    for end in ("low", "high")
    for name in (
        f"measured_cut_{end}_percent",
        f"rule_error_{end}_points",
        f"model_error_{end}_points",
    )
]
_MEASURED_LOWS = ["measured_low_s", "measured_io_time_low_s"]
_SIGNED = [
    *_TRUTH_ENDS,
    *_MEASURED_LOWS,
    "difference_s",
    "value",
    "low",
    "high",
    "low_s",
    "mean_error_percent",
    "drift_percent",
    "time_cut_percent",
    "io_time_cut_percent",
    *_CUT_ENDS,
    "gfs_operations_cut_percent",
    "saved_percent",
    "saved_low_percent",
    "saved_high_percent",
    *(f"{estimator}_cut_percent" for estimator in ("measured", "rule", "model")),
    *(f"{estimator}_best_cut_percent" for estimator in ("measured", "rule", "model")),
    *(f"{estimator}_error_points" for estimator in ("rule", "model")),
    *(f"{estimator}_largest_error_points" for estimator in ("rule", "model")),
    "difference_points",
    *(f"{end}_{level}_points" for end in ("low", "high") for level in (90, 95)),
]
# -1: OST unknown or none; slowest process of a model, which has no rank; owner unknown.
MINIMUM = {"ost": -1, "owner": -1, "slowest_rank": -1} | dict.fromkeys(
    _SIGNED, -math.inf
)
# -1: the job is one phase, or a file belongs to no epoch.
MINIMUM |= {f"{name}.epoch": -1 for name in _JOB_TABLES if "epoch" in _JOB_TABLES[name]}
MINIMUM |= {"job_times.rank": -1, "logs.process": -1, "logs.job_id": -math.inf}
# Written by the launch itself, with the log: only a whole run can be repeated.
OF_A_LAUNCH = {
    "run_epochs",
    "decisions",
    "peer_reads",
    "read_calls",
    "record_reads",
    "faults",
}
MAY_BE_MISSING = {
    *_TRUTH_ENDS,
    "cut_half_width_points",
    "sd_s",
    "low_s",
    "high_s",
    "cv",
    *_MEASURED_LOWS,
    "measured_high_s",
    "measured_io_time_high_s",
    "repeat_cv_percent",
    "largest_repeat_cv_percent",
    *_CUT_ENDS,
    "saved_low_percent",
    "saved_high_percent",
    "pays_after_epochs",
    "standard_error",
    "value",
    "device_percent",
    *(name for name, kind in _PAGE_CACHE.items() if kind == NUMBER),
    "low",
    "high",
    # Of logs: no upper bound if records are lost, no counts of a process if shared, no
    # run time without start or end, no mapped bytes in logs of Darshan.
    "run_time_s",
    "mapped_bytes",
    "most_s",
    "saved_most_s",
    "run_least_percent",
    "run_most_percent",
    "io_most_s",
    "io_least_percent",
    "io_most_percent",
    "most_hours",
    "meta_saved_most_hours",
    "job_times.operations",
    "job_times.bytes",
    "n_nodes",
}


def allowed_values(table: str, column: str) -> list[str]:
    """Return the allowed values of a column in words: a vocabulary, or a range."""
    kind = TABLES[table][column]
    if kind == FLAG:
        return []
    if kind == TEXT:
        return sorted(ALLOWED.get(f"{table}.{column}", ALLOWED.get(column, ())))
    where = f"{table}.{column}"
    least = MINIMUM.get(where, MINIMUM.get(column, 0))
    words = ["any number"] if least == -math.inf else [f"at least {least}"]
    missing = {column, where} & MAY_BE_MISSING
    return [*words, "may be missing"] if missing else words
