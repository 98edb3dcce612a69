"""Settings of an experiment: keys of its configuration, of which the schema is made.

`tierscope.core.given.keys` says how. Keys that other code holds in a dataclass are the
fields of that; `config.schema.yaml` names it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tierscope.core.given.keys import above, from_to, rules
from tierscope.core.io_class import IOClass
from tierscope.core.lmdb_loaders import LOADERS
from tierscope.policies import POLICIES

PARAMETERS = (  # of devices, that a calibration can fit
    "gfs.open_s",
    "gfs.close_s",
    "gfs.metadata_latency_s",
    "gfs.ost_bandwidth_bytes_per_s",
    "gfs.request_s",
    "gfs.read_latency_s",
    "gfs.link_bytes_per_s",
    "gfs.limit_bytes_per_s",
    "gfs.limit_credit_bytes",
    "lfs.request_s",
    "lfs.latency_s",
)
_NAME = "a name of letters, digits, '.', '_' and '-' that begins with a letter or digit"
_SOME, _SEVERAL = rules(minItems=1), rules(minItems=1, uniqueItems=True)
_Percent = Annotated[int, from_to(0, 100)]
_OstCount = Annotated[int, from_to(0, 100_000)]
_Many = Annotated[int, from_to(1, 1_000_000)]
_Samples = Annotated[int, from_to(2, 9_999_999)]
_Repetition = Annotated[int, from_to(0, 999)]
_Loader = Literal["tensorflow", "posix", "pytorch", *LOADERS, "program"]
_Policy = Literal[tuple(POLICIES)]
_Class = Literal[tuple(map(str, IOClass))]
_Name = Annotated[str, rules(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", expected=_NAME)]
_Auto = Annotated[str, rules(pattern=r"^auto\Z")]
_Root = Annotated[
    str | None,
    rules(
        minLength=1,
        pattern=r"^[^\x00\t\n]+\Z",
        expected="a path without NUL, tabs and line breaks, or null",
    ),
]
Improvement = TypedDict(
    "Improvement",
    {
        one.value: Annotated[_Many, f"Improvement of {one.label} in percent."]
        for one in IOClass
    },
    total=False,
)
_Improvement = Annotated[Improvement, rules(minProperties=1)]
Cost = TypedDict(
    "Cost",
    {
        one.value: Annotated[
            float, from_to(0, 1_000_000_000_000), f"Cost of one percent of {one.label}."
        ]
        for one in IOClass
    },
)


class Points(TypedDict, total=False):
    """Points of the sweep that have all of these values."""

    dataset: Annotated[
        str | Annotated[Sequence[str], _SOME],
        "Points of this dataset, or of those listed.",
    ]
    n_osts: Annotated[
        _OstCount | Annotated[Sequence[_OstCount], _SOME],
        "Points of this OST count, or of those listed.",
    ]
    policy: Annotated[
        _Policy | Annotated[Sequence[_Policy], _SOME],
        "Points of this policy, or of those listed.",
    ]
    loader: Annotated[
        _Loader | Annotated[Sequence[_Loader], _SOME],
        "Points of this loader, or of those listed.",
    ]
    cache_rate_percent: Annotated[
        _Percent | Annotated[Sequence[_Percent], _SOME],
        "Points of this cache rate, in percent, or of those listed.",
    ]


class _HowOften(TypedDict):
    n_repetitions: Annotated[int, from_to(2, 1000), "How often these points are run."]


class Repeated(_HowOften, Points):
    """Points that are run more than once."""


class Exclusion(Points, total=False):
    """Points that are left out."""

    repetition: Annotated[
        _Repetition | Annotated[Sequence[_Repetition], _SOME],
        "Points of this repetition, counted from 0, or of those listed.",
    ]


class Roots(TypedDict):
    """Directories of the tiers."""

    gfs: Annotated[_Root, "Directory of the GFS that tierscope may fill."]
    lfs: Annotated[_Root, "Directory of the LFS that tierscope may fill and empty."]
    ideal: Annotated[
        NotRequired[_Root],
        "Directory in memory that tierscope may fill and empty in ideal runs on "
        "real tiers (`sweep.ideal`).",
    ]


class Sweep(TypedDict):
    """The points that are run."""

    datasets: Annotated[
        Sequence[str],
        _SEVERAL,
        "Names of presets in `resources/datasets.yaml`, or of `datasets`.",
    ]
    n_osts: Annotated[
        Sequence[_OstCount],
        _SEVERAL,
        "Numbers of object storage targets over which the dataset is spread on the "
        "GFS; 0 where the GFS is a plain directory (kind `directory`) without "
        "`gfs.n_osts`.",
    ]
    policies: Annotated[
        Sequence[_Policy],
        _SEVERAL,
        "Policies, which decide from which tier files are read. `none` reads all "
        "files from the GFS (at cache rate 0 only, for any list of rates). `pinning` "
        "holds a fixed part of the dataset on every node's LFS; `stratified-pinning` "
        "holds the same part, distributed so that all processes read equally many "
        "files from it. `lru`, `monarch` and `clairvoyant` fill the LFS while they "
        "run (section `policies`): `lru` places every file that is read and evicts "
        "the least recently used, `monarch` places files after their first read and "
        "evicts nothing, `clairvoyant` fetches the files that a node's processes will "
        "read most often. `adhoc` joins the LFS of all nodes to one namespace without "
        "duplicates (`policies.adhoc`).",
    ]
    loaders: Annotated[
        Sequence[_Loader],
        _SEVERAL,
        "How a process reads its files, or its records from one LMDB file with the "
        "same samples. `lmdbio` has the optimisations of section `lmdb`; its named "
        "variants have the optimisations in their names.",
    ]
    cache_rates_percent: Annotated[
        Sequence[_Percent],
        _SEVERAL,
        "Percent of the dataset's files that the LFS of each node holds, or may hold; "
        "under `adhoc` that the LFS of all nodes together may hold.",
    ]
    repetitions: Annotated[
        Annotated[int, from_to(1, 1000)] | Annotated[Sequence[Repeated], _SOME],
        "How often each point is run: a number for all, or a list of points that are "
        "run more than once. Each repetition has an order and a pinned part of its "
        "own.",
    ]
    ideal: Annotated[
        bool,
        "Whether each repetition also has a run whose storage costs nothing. On real "
        "tiers all files are in memory (`roots.ideal`, or `ideal.root` of the "
        "system's file); emulated and simulated devices take no time. The difference "
        "is what storage costs (table `storage_time`). For files that lie on their "
        "tiers before the first epoch, and for programs.",
    ]
    exclude: Annotated[
        Mapping[str, Annotated[Exclusion, rules(minProperties=1)]],
        "Named exclusions. A point is left out if, for every key of an exclusion, it "
        "has the value given there, or one of the values listed there.",
    ]


class Adhoc(TypedDict):
    """The ad hoc file system of policy `adhoc`."""

    mount: Annotated[
        Annotated[str, rules(minLength=1)] | None,
        "Path where the site has mounted an ad hoc file system (GekkoFS, BurstFS or "
        "the like), absolute and the same on all nodes; it then replaces our servers. "
        "A launch stops if the mount is on the file system of the GFS or the LFS, or "
        "if a node cannot read there what another one wrote. A launch also stops when "
        "reading or writing a file there takes more than a minute. Null if there is "
        "no such file system; not with emulated tiers.",
    ]
    server_threads: Annotated[
        int, from_to(1, 1024), "Files that a node reads for other nodes at a time."
    ]


class Policies(TypedDict):
    """What policies that fill the LFS do while they run."""

    adhoc: Annotated[
        Adhoc,
        "The ad hoc file system. Before the first epoch every node copies the files "
        "that it owns (hash of the path modulo the nodes) from the GFS to its LFS; "
        "then all nodes read them from there. Files beyond the cache rate are read "
        "from the GFS.",
    ]
    copy_threads: Annotated[
        int,
        from_to(1, 1024),
        "Files that a node copies to its LFS at a time, in the background.",
    ]
    drain: Annotated[
        bool,
        "Whether an epoch begins only when all copies have ended. The waiting time is "
        "in table `background` and in no epoch's time. Not for programs of yours.",
    ]
    hand_over: Annotated[
        bool,
        "Whether a process hands over the bytes that it has read, so that a copy need "
        "not read its file from the GFS a second time. Not for programs of yours.",
    ]
    stop: Annotated[
        Literal["first-misfit", "first-fit"],
        "`monarch` only: what happens after the first file without room. "
        "`first-misfit` ends all placement (as Monarch's code does), `first-fit` "
        "still places files that fit (as its paper says). There is no difference if "
        "all files have the same size.",
    ]


class Optimisations(TypedDict):
    """The optimisations of loader `lmdbio`."""

    lmm: Annotated[
        bool, "One process of a node reads for all of them (localised mmap)."
    ]
    dm: Annotated[
        bool,
        "One reader walks the tree and tells the others where their records lie "
        "(distributed memory).",
    ]
    dio: Annotated[bool, "Explicit reads instead of page faults (direct I/O)."]
    prov: Annotated[
        bool,
        "The places of the records are computed from how the file was written "
        "(provenance).",
    ]
    coal: Annotated[bool, "The batches of several steps are read at once (coalescing)."]
    stag: Annotated[bool, "Readers take turns (staggering)."]


class Darshan(TypedDict):
    """Which tracer is used."""

    runtime: Annotated[
        str,
        rules(minLength=1),
        "`auto` (the site's Darshan where there is one, else the builtin tracer), "
        "`builtin`, or the path of a `libdarshan.so`.",
    ]


class Audit(TypedDict):
    """Limits of the audit."""

    io_time_tolerance_percent: Annotated[
        float,
        from_to(0, 1_000_000),
        "By how many percent the I/O time of a process may exceed its execution time "
        "(with one read thread).",
    ]


class Goal(TypedDict):
    """What improvements have to reach."""

    of: Annotated[
        Literal["io_time", "execution_time", "utilisation"],
        "Whether the goal is an I/O time of the slowest process, an execution time, "
        "or an accelerator utilisation (AU). Execution time is estimated as I/O time "
        "plus the measured mean difference of the two. AU is estimated by the model "
        "only, and needs a `training.compute_time_s` above 0.",
    ]
    seconds: Annotated[
        Annotated[float, above(0, 1_000_000_000)] | None,
        "The goal in seconds; null takes `percent_of_best` of the best time of each "
        "scenario and epoch. Neither matters to a goal of utilisation.",
    ]
    percent_of_best: Annotated[
        int,
        from_to(1, 100),
        "The goal in percent of the best time over the cache rates; used if `seconds` "
        "is null. The best time is measured for a goal of I/O time, and estimated for "
        "a goal of execution time.",
    ]
    percent: Annotated[
        Annotated[float, above(0, 100)] | None,
        "The least AU that meets a goal of utilisation: the mean over all processes "
        "and repetitions, as MLPerf Storage defines it; null for other goals.",
    ]


class Search(TypedDict):
    """The grid of improvements, and what they cost."""

    max_improvement_percent: Annotated[
        _Many, "Largest improvement of a class, in percent."
    ]
    step_percent: Annotated[_Many, "Step of the improvements, in percent."]
    cost_per_percent: Annotated[
        Cost,
        "Cost of one percent of improvement, in any unit. The cheapest sufficient "
        "combination has the least cost.",
    ]


class WhatIf(TypedDict):
    """What faster storage is to bring."""

    goal: Annotated[Goal, "What improvements of I/O classes have to reach in an epoch."]
    search: Annotated[
        Search,
        "The grid of improvements of all four classes that is searched; figure 4 "
        "shows two of them.",
    ]


class Scenario(TypedDict):
    """One scenario of the sweep."""

    dataset: Annotated[
        str,
        rules(pattern=r"^[a-z0-9][a-z0-9_]*\Z", expected="the name of a dataset"),
        "Name of a dataset of the sweep.",
    ]
    n_osts: Annotated[_OstCount, "An OST count of the sweep."]
    policy: Annotated[_Policy, "A policy of the sweep."]
    loader: Annotated[_Loader, "A loader of the sweep."]


class Calibration(TypedDict, total=False):
    """A fit of the devices to measurements."""

    scenario: Annotated[
        Scenario,
        rules(required=()),
        "The scenario of the sweep whose runs are fitted. Keys that you omit are "
        "those of `figures.scenario`, or of the scenario that is most like it if the "
        "models do not know that one.",
    ]
    cache_rates_percent: Annotated[
        _Auto | Annotated[Sequence[_Percent], _SEVERAL],
        rules(expected="auto, or list of different integers from 0 to 100"),
        "Cache rates of the sweep, in percent, whose runs are fitted (of measured "
        "runs all repetitions, of emulated ones the first). Choose few, so that the "
        "others remain for prediction. `auto` (the default): the lowest, the highest, "
        "and the one nearest to two thirds of the way between; of a sweep with fewer "
        "than four rates, all but one.",
    ]
    probed_n_osts: Annotated[
        _Auto | Annotated[Sequence[_OstCount], rules(uniqueItems=True)],
        rules(expected="auto, or list of different integers of at least 0"),
        "OST counts of the sweep on which micro-probes are run; the fit uses these "
        "probes, too. `[]` fits the runs alone. `auto` (the default): the most and "
        "the fewest OSTs on which the sweep has the dataset.",
    ]
    parameters: Annotated[
        _Auto | Annotated[Sequence[Literal[PARAMETERS]], _SEVERAL],
        rules(expected=f"auto, or list of different ones of {', '.join(PARAMETERS)}"),
        "Keys of the system's `devices` that are fitted. `auto` (the default): those "
        "that the data can tell. The calibration says what became of each. A list "
        "fits exactly these, and all others keep their values. If the data cannot "
        "determine a listed parameter, calibration stops.",
    ]
    structures: Annotated[
        Literal["auto", "none"],
        "How a real GFS is modelled. `auto` (the default): files lie on the servers "
        "on which they were observed (bricks of GlusterFS), and with `parameters: "
        "auto` calibration tries files at random servers and a limit of the rate; it "
        "takes these only where the data tell them apart. `none`: file i lies on "
        "server i modulo their number, and nothing is tried.",
    ]


class Model(TypedDict):
    """The model and its calibrations."""

    calibrations: Annotated[
        Mapping[_Name, Calibration],
        "Fits of the system's `devices` to measurements, by a name of your choice: "
        "`snakemake --profile local calibrate`. A calibration for which the sweep "
        "lacks the runs is left out, and the last lines of the start say why.",
    ]
    calibration: Annotated[
        str | None,
        "Name of the calibration that models and figures use; null: figures do not "
        "use the model. Simulated runs need no calibration.",
    ]
    whatif: Annotated[
        Literal["simulation", "order-statistics"],
        "How the model estimates improvements, for figures 3 and 4 and the explorer: "
        "event by event (half a millisecond per point with 8 processes, a quarter of "
        "a second with 3072), or by mean values and the distribution of the slowest "
        "process. If `whatif.search` has more than 20 steps per class, the model "
        "takes a multiple of the step.",
    ]


class WhatIfTruth(TypedDict):
    """The study that makes the devices faster."""

    improvements: Annotated[
        Sequence[_Improvement], _SEVERAL, "Improvements to try, one after the other."
    ]
    cache_rates_percent: Annotated[
        Sequence[_Percent], _SEVERAL, "Cache rates at which the improvements are tried."
    ]
    repetitions: Annotated[
        int,
        from_to(2, 1000),
        "How often each point is run, including the runs of the sweep.",
    ]


class Nodes(TypedDict):
    """The study of numbers of nodes."""

    n_nodes: Annotated[
        Sequence[_Many],
        rules(uniqueItems=True),
        "Numbers of nodes, divisors of the number of processes; the nodes are virtual "
        "if those of the system are. If the list is empty, the study is not made.",
    ]
    loaders: Annotated[
        Sequence[Literal[LOADERS]],
        _SEVERAL,
        "Loaders of LMDB whose context switches are compared, on the GFS.",
    ]
    cache_rate_percent: Annotated[
        int,
        from_to(1, 100),
        "Percent of the dataset for which Monarch has room on a node.",
    ]
    repetitions: Annotated[
        int,
        from_to(1, 1000),
        "How often each point is run, including the runs of the sweep.",
    ]


class Accuracy(TypedDict):
    """The study that trains a network."""

    with_policies: Annotated[
        bool,
        "Whether the comparison of policies includes this study, to check the claims "
        "about partitions.",
    ]
    networks: Annotated[
        Sequence[Literal["plain", "batch-norm", "sync-batch-norm"]],
        _SEVERAL,
        "`plain`: without batch normalisation; `batch-norm`: with the statistics of "
        "each process's own batch, as is usual; `sync-batch-norm`: with the "
        "statistics of all processes' batches.",
    ]
    repetitions: Annotated[
        int,
        from_to(5, 1000),
        "How often each network is trained, each time with other weights and orders; "
        "the seeds are `training.seed` and the number of the repetition.",
    ]
    margin_points: Annotated[
        float,
        above(0, 100),
        "Largest difference of accuracy, up or down, that does not matter, in "
        "percentage points.",
    ]
    n_processes: Annotated[
        int, from_to(2, 10_000), "Processes among which the files are divided."
    ]
    batch_size: Annotated[_Samples, "Samples that a process trains on per step."]
    epochs: Annotated[
        int, from_to(1, 100_000), "Passes over the files; the learning rate falls to 0."
    ]
    learning_rate: Annotated[float, above(0, 1000), "Learning rate of the first epoch."]
    n_classes: Annotated[_Samples, "Number of classes."]
    n_train_files: Annotated[
        _Samples,
        "Files to train on, one sample each; a multiple of `n_processes` times "
        "`batch_size`.",
    ]
    n_test_files: Annotated[_Samples, "Files to test on, never trained on."]


class Studies(TypedDict):
    """Runs that are made on request."""

    whatif_truth: Annotated[
        WhatIfTruth,
        "Target `whatif-truth`. It makes the devices faster and compares the benefit "
        "with the promises of rule and model, for the scenario of figures 3 to 5. For "
        "emulated or simulated devices only.",
    ]
    nodes: Annotated[
        Nodes,
        "Target `nodes`. It runs the system's processes on several numbers of nodes, "
        "with Monarch and without LFS, and with loaders of LMDB. Dataset, OSTs and "
        "the loader of files are those of figures 3 to 5. Not for simulated runs.",
    ]
    accuracy: Annotated[
        Accuracy,
        "Target `accuracy`. It trains a small network with global shuffle, with a "
        "fixed partition of the files, and with a partition that is biased by class. "
        "It does not depend on system and sweep.",
    ]


class Figures(TypedDict):
    """What the figures show."""

    epoch: Annotated[
        int,
        from_to(0, 99_999),
        'Epoch of figures 2 to 5, counted from 0; the paper\'s "#2 epoch" is 1.',
    ]
    scenario: Annotated[
        Scenario,
        "The scenario of figures 3 to 5; it must be one of the sweep. If the sweep "
        "lacks a default of these keys, such as policy `pinning`, set another value "
        "here, too.",
    ]
    improvements: Annotated[
        Sequence[_Improvement],
        _SEVERAL,
        "Improvements of figure 3, one panel for each: more throughput of a class, in "
        "percent.",
    ]
    pairs: Annotated[
        Sequence[
            Annotated[
                Sequence[_Class],
                rules(minItems=2, maxItems=2, uniqueItems=True),
            ]
        ],
        _SEVERAL,
        "Pairs of classes, on x and y, of figure 4, which shows the improvements that "
        "meet the goal; one figure for each pair.",
    ]
    methods: Annotated[
        Sequence[Literal["rule", "model"]],
        _SEVERAL,
        "How figures 3 and 4 and the explorer estimate improvements, side by side if "
        "both are listed. `rule` is the paper's, which leaves waiting where it was. "
        "`model` is the calibrated network of queues, in which waiting moves. Without "
        "`devices` or a calibration there is no model; the start then says so and "
        "uses the rule only.",
    ]
    max_spread_percent: Annotated[
        int,
        from_to(0, 1_000_000),
        "Repetitions whose standard deviation is above this percentage of their mean "
        "are flagged on the figures and in table `spread`.",
    ]
    max_drift_percent: Annotated[
        _Many,
        "On one machine with real tiers, the same files are read before and after each "
        "point. Points at which these reads take longer or shorter than their median "
        "by more than this percentage are named on the figures and in table `drift`.",
    ]


class Report(TypedDict):
    """What the report shows."""

    anonymous: Annotated[
        bool,
        "Whether `report.html` leaves out paths, hosts, jobs of the scheduler, the "
        "kernel and preload libraries of others. Names that you have chosen stay: of "
        "the experiment, the system and its description.",
    ]


class Settings(TypedDict):
    """All keys of the configuration."""

    experiment: Annotated[
        str,
        rules(
            pattern=r"^(?!(bench|native)\Z)[A-Za-z0-9][A-Za-z0-9._-]*\Z",
            expected=f"{_NAME}, such as my-run; not bench or native",
        ),
        "Name of the experiment; results are written to `results/<experiment>/`.",
    ]
    system: Annotated[
        _Name,
        "Name of a file in `resources/systems/`, without `.yaml`.",
    ]
    roots: Annotated[
        Roots,
        "Directories that replace those in the system's file; null for the latter.",
    ]
    simulate: Annotated[
        bool,
        "Whether runs are simulated from the system's `devices` instead of measured.",
    ]
    sweep: Annotated[
        Sweep, "The sweep is the product of these lists, minus the exclusions."
    ]
    policies: Annotated[
        Policies,
        "Settings of the policies that fill the LFS while they run (`lru`, `monarch`, "
        "`clairvoyant`) and of `adhoc`. Runs with other policies do not depend on "
        "them.",
    ]
    datasets: Any
    training: Any
    loader: Any
    lmdb: Any
    darshan: Darshan
    audit: Audit
    allow_mixed: Annotated[
        Sequence[Literal["tracer", "libraries", "modules"]],
        rules(uniqueItems=True),
        "What may differ between runs that are joined into one table: `tracer` is its "
        "name and version, `libraries` the files of the tracer and of the emulated "
        "devices, and `modules` the source code that the benchmark uses. Runs that "
        "differ otherwise are refused. Table `run_facts` and the report show what "
        "differs.",
    ]
    whatif: WhatIf
    model: Model
    studies: Annotated[
        Studies, "Further runs, which are made only if you request their study."
    ]
    figures: Figures
    report: Report
