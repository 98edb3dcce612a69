"""What storage costs: pairs of runs and ideal runs, and the sentence on them."""

import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.comparing.ideal import (
    storage_sentence,
    storage_sentences,
    storage_time,
)
from tierscope.core.columns import TABLES
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table

T_OF_ONE = 12.7062  # t of one degree of freedom
# What no loader of ours tells.
STEPS = dict.fromkeys(
    ("warmup_s", "loader_end_s", "loop_utilisation_percent"), math.nan
)
STEPS |= {"least_because": ""}
SCENARIO = {
    "source": "measured",
    "system": "small",
    "dataset": "tiny",
    "n_osts": 0,
    "policy": "none",
    "loader": "posix",
}


def epochs(times_s, rate=0, **scenario):
    """Return a table of epochs: of each repetition the times of its processes."""
    keys = SCENARIO | scenario
    rows = [
        {
            **keys,
            "cache_rate_percent": rate,
            "repetition": repetition,
            "rank": rank,
            "epoch": 0,
            "execution_time_s": time_s,
            "compute_time_s": 1.0 + rank,
            "utilisation_percent": 50.0 + 10 * repetition,
        }
        | STEPS
        for repetition, of_ranks in enumerate(times_s)
        for rank, time_s in enumerate(of_ranks)
    ]
    return pd.DataFrame(rows)


def test_storage_is_without_what_warm_up_differs_by_where_both_runs_know_it():
    steps = {"warmup_s": 4.0, "loader_end_s": 0.5, "loop_utilisation_percent": 30.0}
    real = epochs([(9, 10), (11, 12)]).assign(**steps)
    (known,) = storage_time(real, ideal([(5, 6), (7, 6)]).assign(warmup_s=1.0)).to_dict(
        "records"
    )
    assert known["storage_s"] == 4.5 - 3.0
    assert (known["warmup_s"], known["ideal_warmup_s"]) == (4.0, 1.0)
    assert known["loader_end_s"] == 0.5
    assert known["loop_utilisation_percent"] == 30.0
    assert storage_time(real, ideal([(5, 6), (7, 6)]))["storage_s"].tolist() == [4.5]


def test_what_no_storage_makes_shorter_has_the_warm_up_of_the_run_itself():
    values = {"execution_time_s": 10.0, "ideal_time_s": 9.0, "storage_s": 3.5}
    values |= {"warmup_s": 0.5, "ideal_warmup_s": 3.0, "storage_interval_s": 0.1}
    sentence = say(row(**values))
    assert sentence.startswith(
        "Of 10.0 s an epoch at cache rate 0 %, 3.5 ± 0.1 s are storage; no storage, "
        "however fast, makes an epoch shorter than 6.5 s."
    )
    unknown = say(row(**values | {"ideal_warmup_s": math.nan}))
    assert "shorter than 9.0 s" in unknown


@pytest.mark.parametrize("storage_s", [0.1, 0.0, -0.5])
def test_au_is_said_where_storage_cannot_be_told_from_0(storage_s):
    values = {"storage_s": storage_s, "ideal_time_s": 41.2 - storage_s}
    values |= {"compute_time_s": 39.0, "utilisation_percent": 94.7}
    sentence = say(row(**values | {"ideal_utilisation_percent": 96.0}))
    assert sentence.endswith(" The accelerators are used 94.7 % of the time (AU).")
    least = say(row(**values | {"least_because": "no events"}))
    assert "The accelerators are used at least 94.7 % of the time (AU)." in least


def test_one_process_whose_computation_is_a_least_makes_that_of_the_point_one():
    real = epochs([(9, 10), (11, 12)])
    real.loc[2, "least_because"] = "no events"
    table = storage_time(real, ideal([(5, 6), (7, 6)]))
    assert table["least_because"].tolist() == ["no events"]


def test_the_computation_of_an_ideal_run_that_is_a_least_makes_that_of_the_pair_one():
    best = ideal([(5, 6), (7, 6)])
    best.loc[2, "least_because"] = "never behind"
    table = storage_time(epochs([(9, 10), (11, 12)]), best)
    assert table["least_because"].tolist() == ["never behind"]
    values = {"utilisation_percent": 32.0, "ideal_utilisation_percent": 60.0}
    words = say(row(**values, least_because="never behind"))
    assert "60 %" not in words  # what no storage can exceed is not known


def ideal(times_s, **scenario):
    """Return the table of epochs of ideal runs."""
    return epochs(times_s, 100, system="small+ideal", policy="pinning", **scenario)


def row(**values):
    """Return a row of table `storage_time`: 41.2 s at cache rate 0."""
    return {
        **SCENARIO,
        "cache_rate_percent": 0,
        "epoch": 0,
        "n_repetitions": 3,
        "execution_time_s": 41.2,
        "compute_time_s": 0.0,
        "ideal_time_s": 28.7,
        "other_s": 0.0,
        "ideal_other_s": 0.0,
        "other_io": "",
        "beside_s": 0.0,
        "beside_io": "",
        "storage_s": 12.5,
        "storage_interval_s": 0.8,
        "utilisation_percent": math.nan,
        "ideal_utilisation_percent": math.nan,
        "ideal_warmup_s": math.nan,
        **STEPS,
        **values,
    }


def say(row):
    """Return the sentence on a row: only what computes may hide I/O time."""
    return storage_sentence(row, may_hide=row["compute_time_s"] != 0)


def test_storage_is_the_mean_difference_of_the_pairs():
    real = pd.concat([epochs([(9, 10), (11, 12)]), epochs([(8, 8), (9, 8)], 50)])
    # Pairs differ by 4 and 5 s, and by 2 s twice.
    table = storage_time(real, ideal([(5, 6), (7, 6)]))
    assert check_table(table, "storage_time").shape == (2, len(TABLES["storage_time"]))
    first, second = table.to_dict("records")
    assert first["policy"] == "none"
    assert first["execution_time_s"] == 11
    assert first["ideal_time_s"] == 6.5
    assert first["storage_s"] == 4.5
    assert first["storage_interval_s"] == pytest.approx(T_OF_ONE * 0.5, rel=1e-4)
    assert first["compute_time_s"] == 1.5
    assert first["utilisation_percent"] == 55
    assert first["utilisation_interval_percent"] == pytest.approx(5 * T_OF_ONE, 1e-4)
    assert (second["storage_s"], second["storage_interval_s"]) == (2, 0)


def test_scenarios_are_paired_with_the_ideal_runs_of_their_loader():
    loaders = {"posix": 7, "tensorflow": 9}
    real = pd.concat(epochs([(10,)], loader=one) for one in loaders)
    best = pd.concat(ideal([(s,)], loader=one) for one, s in loaders.items())
    table = storage_time(real, best).set_index("loader")
    assert table["storage_s"].to_dict() == {"posix": 3, "tensorflow": 1}
    assert table["storage_interval_s"].isna().all()


def test_repetitions_without_ideal_run_do_not_count():
    table = storage_time(epochs([(10,), (20,), (90,)]), ideal([(5,), (5,)]))
    assert table["n_repetitions"].tolist() == [2]
    assert table["execution_time_s"].tolist() == [15]
    later = ideal([(5,)]).assign(repetition=7)
    with pytest.raises(ValueError, match=r"got repetitions \[0\] and ideal ones \[7\]"):
        storage_time(epochs([(10,)]), later)


def test_programs_tell_nothing_of_computation():
    unknown = {"compute_time_s": math.nan, "utilisation_percent": math.nan}
    table = storage_time(
        epochs([(10,), (11,)]).assign(**unknown), ideal([(5,), (5,)]).assign(**unknown)
    )
    assert check_table(table, "storage_time")["storage_s"].tolist() == [5.5]
    columns = [*unknown, "utilisation_interval_percent", "ideal_utilisation_percent"]
    assert table[columns].isna().all(axis=None)


def test_ideal_runs_tell_the_most_that_accelerators_can_be_used():
    best = ideal([(5,), (6,)]).assign(utilisation_percent=[80.0, 90.0])
    table = storage_time(epochs([(10,), (11,)]), best)
    assert table["ideal_utilisation_percent"].tolist() == [85]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"ideal_time_s": 18.7, "storage_s": 22.5},
            "Of 41.2 s an epoch at cache rate 0 %, 22.5 ± 0.8 s are storage; no "
            "storage, however fast, makes an epoch shorter than 18.7 s.",
        ),
        (
            {},
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are storage; no "
            "storage, however fast, makes an epoch shorter than 28.7 s. Most of the "
            "epoch is the processor's.",
        ),
        (
            {"compute_time_s": 20.0},
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are storage; no "
            "storage, however fast, makes an epoch shorter than 28.7 s. Most of the "
            "epoch is computation and the processor.",
        ),
        (
            {"ideal_time_s": 18.7, "storage_s": 22.5, "compute_time_s": 16.0}
            | {"utilisation_percent": 40.0, "ideal_utilisation_percent": 87.5},
            "Of 41.2 s an epoch at cache rate 0 %, 22.5 ± 0.8 s are storage; no "
            "storage, however fast, makes an epoch shorter than 18.7 s. The "
            "accelerators are used 40 % of the time (AU), with storage that costs "
            "nothing 87.5 %.",
        ),
        (
            {"storage_s": 0.5, "ideal_time_s": 40.7, "storage_interval_s": 50.0},
            "Of 41.2 s an epoch at cache rate 0 %, 0.5 ± 50.0 s are storage, which "
            "cannot be told from 0; more repetitions, longer epochs or an idle machine "
            "tell more.",
        ),
        (
            {"storage_s": 0.5, "ideal_time_s": 40.7, "source": "emulated"},
            "Of 41.2 s an epoch at cache rate 0 %, 0.5 ± 0.8 s are storage, which "
            "cannot be told from 0; at least 39.9 s are the processor's (emulated).",
        ),
        (
            {"storage_s": 0.58, "ideal_time_s": 40.62, "storage_interval_s": 0.023},
            "Of 41.20 s an epoch at cache rate 0 %, 0.58 ± 0.02 s are storage; no "
            "storage, however fast, makes an epoch shorter than 40.62 s. Most of the "
            "epoch is the processor's.",
        ),
        (
            {"storage_s": 0.0, "ideal_time_s": 41.2, "storage_interval_s": 0.0},
            "Nothing of 41.2 s an epoch at cache rate 0 % is storage: the time is the "
            "processor's.",
        ),
        (
            {"compute_time_s": 40.0, "storage_s": 0.0, "ideal_time_s": 41.2}
            | {"storage_interval_s": 0.0},
            "Nothing of 41.2 s an epoch at cache rate 0 % is storage: the time is "
            "computation and the processor.",
        ),
        (
            {"compute_time_s": 40.0, "storage_s": 0.5, "ideal_time_s": 40.7},
            "Of 41.2 s an epoch at cache rate 0 %, 0.5 ± 0.8 s are storage, which "
            "cannot be told from 0; at least 39.9 s are computation and the processor.",
        ),
        (
            {"storage_interval_s": math.nan, "execution_time_s": 0.0412}
            | {"ideal_time_s": 0.0187, "storage_s": 0.0225},
            "Of 0.0412 s an epoch at cache rate 0 %, 0.0225 s (one repetition, no "
            "interval) are storage; if storage costs nothing, an epoch takes 0.0187 s.",
        ),
    ],
)
def test_sentence_says_what_storage_costs(values, words):
    assert say(row(**values)) == words


def calls(*times_s, rank=0, in_loop=True, call="fsync", **scenario):
    """Return rows of table `other_time`: seconds of each repetition."""
    keys = SCENARIO | {"cache_rate_percent": 0} | scenario
    place = {"mount": "/scratch", "fs_type": "ext4", "holds": "none"}
    rows = [
        keys
        | place
        | {"repetition": repetition, "epoch": 0, "rank": rank, "call": call}
        | {"in_loop": in_loop, "time_s": time_s}
        for repetition, time_s in enumerate(times_s)
    ]
    return pd.DataFrame(rows)


def ideal_calls(*times_s, **options):
    return calls(
        *times_s,
        system="small+ideal",
        policy="pinning",
        cache_rate_percent=100,
        **options,
    )


def test_writes_that_differ_between_a_run_and_its_ideal_one_are_not_the_dataset():
    # Without writes the pairs differ by 3 and 3 s.
    table = storage_time(
        epochs([(9, 10), (11, 12)]),
        ideal([(5, 5), (7, 7)]),
        pd.concat([calls(4, 6), calls(1, 1, rank=1)]),
        ideal_calls(2, 4),
    )
    (row,) = check_table(table, "storage_time").to_dict("records")
    assert (row["other_s"], row["ideal_other_s"], row["beside_s"]) == (5, 3, 0)
    assert row["other_io"] == "fsync 5.00 s on /scratch (ext4)"
    assert (row["storage_s"], row["storage_interval_s"]) == (3, 0)


def test_calls_beside_the_loop_take_nothing_from_the_storage_of_the_dataset():
    beside = [calls(4, 6, in_loop=False), calls(5, 8, rank=1, in_loop=False)]
    of_ideal = ideal_calls(2, 4, in_loop=False)
    table = storage_time(
        epochs([(9,), (11,)]), ideal([(5,), (7,)]), pd.concat(beside), of_ideal
    )
    (row,) = table.to_dict("records")
    assert (row["storage_s"], row["other_s"], row["beside_s"]) == (4, 0, 6.5)
    assert row["beside_io"] == "fsync 6.50 s on /scratch (ext4)"


def test_other_calls_that_no_tracer_has_seen_are_missing():
    table = storage_time(
        epochs([(9,)]), ideal([(5,)]), calls(math.nan), ideal_calls(math.nan)
    )
    (row,) = check_table(table, "storage_time").to_dict("records")
    assert math.isnan(row["other_s"])
    assert row["storage_s"] == 4


OTHERS = {"other_s": 20.0, "other_io": "fsync 20.0 s on /scratch (ext4)"}
BESIDE = {"beside_s": 3.0, "beside_io": "read 3.00 s on / (ext4)"}
SAID_OF_OTHERS = (
    "Other storage I/O takes 20.0 s, which the ideal run does not take away: fsync "
    "20.0 s on /scratch (ext4). Faster storage there saves at most this."
)
SAID_OF_BESIDE = (
    "Threads and processes beside the loop spend 3.0 s in such calls: read 3.00 s on / "
    "(ext4). How long the loop waits for them is not known."
)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            OTHERS | {"ideal_other_s": 19.0},
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are the dataset's "
            f"storage. {SAID_OF_OTHERS} No storage, however fast, makes an epoch "
            "shorter than 9.7 s.",
        ),
        (
            OTHERS | {"ideal_other_s": 19.0, "storage_s": 0.5},
            "Of 41.2 s an epoch at cache rate 0 %, 0.5 ± 0.8 s are the dataset's "
            f"storage, which cannot be told from 0. {SAID_OF_OTHERS} At least 8.9 s "
            "are the processor's.",
        ),
        (
            OTHERS
            | {"ideal_time_s": 41.2, "ideal_other_s": 20.0}
            | {"storage_s": 0.0, "storage_interval_s": 0.0},
            "Nothing of 41.2 s an epoch at cache rate 0 % is the dataset's storage. "
            f"{SAID_OF_OTHERS} The rest is the processor's.",
        ),
        (
            BESIDE,
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are the dataset's "
            f"storage. {SAID_OF_BESIDE} If the dataset's storage costs nothing, an "
            "epoch takes 28.7 s.",
        ),
        (
            OTHERS | BESIDE | {"storage_s": 0.0, "storage_interval_s": 0.0},
            "Nothing of 41.2 s an epoch at cache rate 0 % is the dataset's storage. "
            f"{SAID_OF_OTHERS} {SAID_OF_BESIDE}",
        ),
        (
            {"other_s": math.nan},
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are the dataset's "
            "storage. Other storage I/O, such as that of checkpoints, is not measured. "
            "If the dataset's storage costs nothing, an epoch takes 28.7 s.",
        ),
        (  # too little to speak of
            {"other_s": 0.3, "ideal_other_s": 0.2, "other_io": "read 0.300 s on /"},
            "Of 41.2 s an epoch at cache rate 0 %, 12.5 ± 0.8 s are storage; no "
            "storage, however fast, makes an epoch shorter than 28.5 s. Most of the "
            "epoch is the processor's.",
        ),
    ],
)
def test_storage_outside_of_the_dataset_is_said_beside_it(values, words):
    assert say(row(**values)) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"storage_s": -0.21, "ideal_time_s": 2.58, "storage_interval_s": math.nan},
            "Of 2.37 s an epoch at cache rate 0 %, what is storage cannot be told from "
            "0: the ideal run takes 0.21 s (one repetition, no interval) longer.",
        ),
        (
            {"storage_s": -0.21, "ideal_time_s": 2.58, "storage_interval_s": 0.3},
            "Of 2.37 s an epoch at cache rate 0 %, what is storage cannot be told from "
            "0: the ideal run takes 0.21 ± 0.30 s longer; at least 2.28 s are the "
            "processor's.",
        ),
        (
            {"storage_s": -0.21, "ideal_time_s": 2.58, "storage_interval_s": 0.1},
            "Of 2.37 s an epoch at cache rate 0 %, what is storage cannot be told from "
            "0: the ideal run takes 0.21 ± 0.10 s longer.",
        ),
        (
            {"storage_s": 0.2, "ideal_time_s": 2.17, "storage_interval_s": 0.1}
            | {"utilisation_percent": 82.4, "ideal_utilisation_percent": 66.3},
            "Of 2.37 s an epoch at cache rate 0 %, 0.20 ± 0.10 s are storage; no "
            "storage, however fast, makes an epoch shorter than 2.17 s. Most of the "
            "epoch is the processor's. The accelerators are used 82.4 % of the time "
            "(AU); the ideal runs do not tell how much more is possible.",
        ),
        (
            {"storage_s": 0.2, "ideal_time_s": 2.17, "storage_interval_s": 0.1}
            | {"fastest_s": 2.1},
            "Of 2.37 s an epoch at cache rate 0 %, 0.20 ± 0.10 s are storage; if "
            "storage costs nothing, an epoch takes 2.17 s. Most of the epoch is the "
            "processor's.",
        ),
    ],
)
def test_an_ideal_run_that_is_slower_by_chance_contradicts_nothing(values, words):
    assert say(row(execution_time_s=2.37, **values)) == words


TIME_S = st.floats(0.01, 1000)
LESS_S = st.one_of(st.just(0.0), TIME_S)
UNKNOWN_S = st.one_of(st.just(math.nan), LESS_S)
PERCENT = st.one_of(st.just(math.nan), st.floats(0, 100))


@given(
    st.lists(st.tuples(TIME_S, UNKNOWN_S, LESS_S, PERCENT, PERCENT), min_size=1),
    TIME_S,
    UNKNOWN_S,
    UNKNOWN_S,
)
def test_no_sentence_contradicts_another_one(runs, ideal_s, ideal_other_s, half_s):
    rows = []
    for rate, (whole_s, other_s, beside_s, used, most) in enumerate(runs):
        other_s, of_ideal_s = min(other_s, whole_s), min(ideal_other_s, ideal_s)
        more_s = other_s - of_ideal_s
        storage_s = whole_s - ideal_s - (0 if math.isnan(more_s) else more_s)
        rows.append(
            row(
                cache_rate_percent=rate,
                execution_time_s=whole_s,
                ideal_time_s=ideal_s,
                other_s=other_s,
                ideal_other_s=of_ideal_s,
                other_io="fsync on /scratch (ext4)",
                beside_s=beside_s,
                beside_io="read on / (ext4)",
                storage_s=storage_s,
                storage_interval_s=half_s,
                utilisation_percent=used,
                ideal_utilisation_percent=most,
            )
        )
    for one in rows:
        check_words(say(one), one)
    several = " ".join(storage_sentences(pd.DataFrame(rows), 0, False))
    shortest_s = min(one["execution_time_s"] for one in rows)
    for least in re.findall(r"makes an epoch shorter than (\S+) s", several):
        assert float(least) <= shortest_s * 1.01


def check_words(words, one):
    """Check what may be said of a row at all."""
    whole_s, storage_s = one["execution_time_s"], one["storage_s"]
    is_seen = not math.isnan(one["other_s"] + one["ideal_other_s"])
    has_other, waits = (one[key] >= whole_s / 100 for key in ("other_s", "beside_s"))
    assert "nan" not in words
    assert " -" not in words
    if storage_s < -1e-9:
        assert "cannot be told from 0" in words
    if math.isnan(one["storage_interval_s"]) and abs(storage_s) > 1e-9:
        assert "one repetition, no interval" in words
        assert "however fast" not in words
    if is_seen and has_other:
        assert re.search(r"I/O takes \S+ s, which the ideal run does not take", words)
    if not is_seen or has_other or waits:
        assert "the dataset's storage" in words
        assert "the time is" not in words
    if not is_seen or waits:
        assert "however fast" not in words
        assert "at least" not in words
    if found := re.search(r"used (\S+) % of the time \(AU\), with .* (\S+) %", words):
        assert float(found[2]) >= float(found[1])


def test_program_that_marks_no_epochs_has_a_run():
    unknown = row(compute_time_s=math.nan)
    words = storage_sentence(unknown, True, Origin("", is_whole_run=True))
    assert words.startswith("Of 41.2 s a run at")
    assert words.endswith("Most of the run is computation and the processor.")


def test_sentences_are_of_the_lowest_rate_and_of_the_shortest_epoch():
    rows = [
        row(cache_rate_percent=rate, execution_time_s=time_s)
        for rate, time_s in ((0, 40.0), (50, 35.0), (100, 37.0))
    ]
    table = pd.DataFrame([*rows, row(epoch=1)])
    lines = storage_sentences(table, 0, True)
    assert [line.partition(",")[0] for line in lines] == [
        "Of 40.0 s an epoch at cache rate 0 %",
        "Of 35.0 s an epoch at cache rate 50 %",
    ]
    several = pd.DataFrame([row(), row(policy="pinning", loader="tensorflow")])
    titles = [line.partition(":")[0] for line in storage_sentences(several, 0, True)]
    assert titles == [
        "tiny dataset, posix, none",
        "tiny dataset, tensorflow, pinning",
    ]


def test_warm_up_and_the_end_of_the_loader_are_said_if_they_count():
    words = say(row(warmup_s=4.0, loader_end_s=0.5))
    assert "Warm-up takes 4.0 s: so much longer does the first step compute" in words
    assert "The end of the loader takes 0.5 s." in words
    little = say(row(warmup_s=0.4, loader_end_s=0.4))  # of 41.2 s
    assert "arm-up" not in little
    assert "loader" not in little


def test_a_utilisation_that_is_a_least_is_said_as_one_and_the_reason_once():
    used = {"compute_time_s": 9.0, "utilisation_percent": 32.0}
    used |= {"ideal_utilisation_percent": 60.0}
    points = [
        row(**used, least_because="no events", cache_rate_percent=r) for r in (0, 9)
    ]
    points[1]["execution_time_s"] = 40.0
    *both, reason = storage_sentences(pd.DataFrame(points), 0, may_hide=True)
    words = "The accelerators are used at least 32 % of the time (AU)."
    assert [one.endswith(words) for one in both] == [True, True]
    assert reason.startswith("The device has no events that tell its own time.")
    exact = say(row(**used, loop_utilisation_percent=20.0))
    assert "used 32 % of the time (AU; as the loop sees it 20 %), with sto" in exact


def test_what_limits_is_the_first_line_unless_storage_does():
    near = {"storage_s": 0.2, "storage_interval_s": 0.3, "compute_time_s": 30.0}
    table = pd.DataFrame([row(), row(cache_rate_percent=50, **near)])
    table.loc[1, "execution_time_s"] = 40.0
    first, *others = storage_sentences(table, 0, True)
    assert first == (
        "Computation limits at cache rate 50 %: no faster storage of the dataset saves "
        "more than 0.500 s (1.2\N{NO-BREAK SPACE}%) of the epoch."
    )
    assert [one.partition(",")[0] for one in others] == [
        "Of 41.2 s an epoch at cache rate 0 %",
        "Of 40.0 s an epoch at cache rate 50 %",
    ]
    assert len(storage_sentences(table[:1], 0, True)) == 1
    (run, _) = storage_sentences(table[1:], 0, True, Origin("", is_whole_run=True))
    assert run.endswith(" of the run.")


def test_a_training_that_computes_nothing_is_the_processors_where_no_loader_tells_it():
    near = {"storage_s": 0.2, "ideal_time_s": 41.0, "compute_time_s": math.nan}
    table = pd.DataFrame([row(**near)])
    first, second = storage_sentences(table, 0, may_hide=False)
    assert first.startswith("Processor limits at cache rate 0 %: no faster storage")
    assert second.endswith("; at least 40.2 s are the processor's.")
    once = table.assign(storage_interval_s=math.nan)
    assert len(storage_sentences(once, 0, may_hide=False)) == 1  # nothing is undecided
    assert "undecided" in storage_sentences(once, 0, may_hide=True)[0]
