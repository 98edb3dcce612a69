"""Keys of the files of claims, of which their schemas are made."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tierscope.core.given.keys import above, from_to, rules
from tierscope.core.io_class import IOClass

_SOME, _NOT_EMPTY = rules(minItems=1), rules(minLength=1)
_ClaimId = Annotated[str, rules(pattern=r"^C[0-9]+\Z")]
_Percent = Annotated[int, from_to(0, 1_000_000)]
_CacheRate = Annotated[int, from_to(0, 100)]
_Many = Annotated[int, from_to(1, 1_000_000)]
_Count = Annotated[int, from_to(1, 9_999_999)]
_Epochs = Annotated[int, from_to(1, 100_000)]
_Bound = Annotated[float, from_to(-1_000_000_000_000, 1_000_000_000_000)]
_Class = Literal[tuple(map(str, IOClass))]
Improvement = TypedDict(
    "Improvement", dict.fromkeys(map(str, IOClass), _Percent), total=False
)
_Improvement = Annotated[Improvement, "Improvements in percent by I/O class."]


class Bounds(TypedDict, total=False):
    """Within which a number is accepted."""

    at_least: Annotated[_Bound, "Lower bound, inclusive."]
    at_most: Annotated[_Bound, "Upper bound, inclusive."]
    more_than: Annotated[_Bound, "Lower bound, exclusive."]


_Bounds = Annotated[Bounds, rules(minProperties=1)]


class Scenario(TypedDict):
    """A scenario of the paper."""

    file_size_bytes: Annotated[
        int, from_to(1, 1 << 40), "Size of every file of the dataset in bytes."
    ]
    gfs: Annotated[
        Literal["fast", "slow"],
        "`fast` is the GFS as provided (the most OSTs, or a plain directory), `slow` "
        "one OST.",
    ]


class FittedRuns(TypedDict):
    """Runs of a scenario to which a model was fitted."""

    policy: str
    loader: str
    n_osts: Annotated[int, from_to(0, 100_000)]
    n_processes: _Count
    n_files: _Count


class Misses(TypedDict):
    """Why a fitted model misses claims."""

    of: Annotated[
        Mapping[str, FittedRuns],
        "Runs for which the reasons are true, by scenario; a reason is shown only if "
        "all scenarios of its claim agree.",
    ]
    why: Annotated[Mapping[str, Annotated[str, _NOT_EMPTY]], "The reasons, by claim."]


class Fitted(TypedDict):
    """To which claims a model was fitted."""

    system: Annotated[str, "Name of a file in `resources/systems/`, without `.yaml`."]
    targets: Annotated[Sequence[_ClaimId], "Claims that were targets of the fit."]
    by_hand: Annotated[Sequence[_ClaimId], "Claims for which a parameter was chosen."]
    derived: Annotated[
        Sequence[_ClaimId], "Claims that follow from the targets of the fit."
    ]
    misses: Annotated[
        Misses,
        "Why simulations of the system miss claims; shown with a claim that does not "
        "hold.",
    ]


class Grid(TypedDict):
    """A grid of improvements."""

    max_improvement_percent: _Many
    step_percent: _Many


class Goal(TypedDict):
    """A goal for the I/O time on a system."""

    system: str
    seconds: Annotated[float, above(0, 1_000_000_000)]
    percent_of_best: Annotated[float, above(0, 1_000_000)]


class Parameters(TypedDict, total=False):
    """Arguments of the formulas of the paper's claims."""

    io_class: _Class
    io_classes: Annotated[Sequence[_Class], _SOME]
    others: Sequence[_Class]
    below_percent: _Percent
    above_percent: _Percent
    at_percent: _Percent
    rates_percent: Annotated[Sequence[_Percent], _SOME]
    within_percent: _Percent
    dataset_gb: Annotated[float, above(0, 1_000_000_000_000)]
    improvement_percent: _Improvement
    fixed_percent: _Improvement
    max_improvement_percent: _Many
    grid: Grid
    goal: Goal
    claims: Annotated[Sequence[_ClaimId], _SOME]


class Claim(TypedDict):
    """A claim of the paper."""

    id: _ClaimId
    section: Annotated[str, "Where the paper says it."]
    title: Annotated[
        str, rules(maxLength=48), "The claim in a few words, for the figure."
    ]
    statement: Annotated[str, "The claim in our words."]
    scenarios: Annotated[
        Any,
        rules(
            oneOf=(
                {"const": "all"},
                {"type": "array", "minItems": 1, "items": {"type": "string"}},
            )
        ),
        "The scenarios that the claim needs, in the order in which the formula takes "
        "them, or `all` scenarios.",
    ]
    least_epochs: Annotated[
        _Epochs, "Epochs that a run must have; 2 if the paper uses the second epoch."
    ]
    cache_rates_percent: Annotated[
        Sequence[_CacheRate],
        "Cache rates that must have been measured, in percent; a rate within half a "
        "step (2.5 points) is enough.",
    ]
    formula: Annotated[
        str, "Name of the function in `tierscope/claims/paper_formulas.py`."
    ]
    parameters: Annotated[NotRequired[Parameters], "Further arguments of the formula."]
    expected: Annotated[str, "What the paper says."]
    unit: Annotated[str, "Unit of the number that the formula gives."]
    accept: Annotated[_Bounds, "Bounds of that number within which the claim holds."]
    stated: Annotated[
        NotRequired[_Bounds],
        "What the paper says, if `accept` allows more; a claim that holds outside "
        "these bounds is shown as holding within tolerance.",
    ]
    tolerance: Annotated[str, "Why these bounds."]


class PaperClaims(TypedDict):
    """All keys of `claims.yaml`."""

    paper: Annotated[str, "Citation of the paper."]
    scenarios: Annotated[
        Mapping[str, Scenario], "The paper's scenarios, by a name that the claims use."
    ]
    fitted: Annotated[
        Fitted, "Claims to which the device parameters of a system were fitted."
    ]
    claims: Annotated[Sequence[Claim], _SOME]


class StatedNumber(TypedDict):
    """A number that a paper states of Monarch."""

    of: Literal["time", "gfs_operations"]
    percent: _CacheRate
    where: str


class PolicyParameters(TypedDict, total=False):
    """Arguments of the formulas of other papers' claims."""

    policy: str
    slow: str
    fast: str
    shuffle: str
    at_percent: _CacheRate
    n_epochs: _Epochs
    n_nodes: _Many


class PolicyClaim(TypedDict):
    """A claim of another paper."""

    id: Annotated[str, rules(pattern=r"^P[0-9]+\Z")]
    paper: Annotated[str, "Short name of a paper."]
    title: Annotated[
        str,
        rules(minLength=1, maxLength=60),
        "The claim in a few words, for one line on a terminal.",
    ]
    statement: Annotated[str, "The claim in our words."]
    stated: Annotated[str, "The number that the paper states, if any."]
    stated_number: Annotated[
        NotRequired[str],
        _NOT_EMPTY,
        'Only the number, such as "up to 28 %"; left out if there is none.',
    ]
    number: Annotated[
        NotRequired[StatedNumber],
        "That number, if figure `nodes` draws it beside ours.",
    ]
    formula: Annotated[
        str | None,
        "Name of a function in `tierscope/claims/other_papers_formulas.py`; null if "
        "the claim cannot be measured here.",
    ]
    parameters: Annotated[NotRequired[PolicyParameters], "Arguments of the formula."]
    unit: Annotated[NotRequired[str], "Unit of the number that the formula gives."]
    unit_below_zero: Annotated[
        NotRequired[str],
        'Unit that replaces sign and unit of a number below 0, such as "% more '
        'time" beside "% less time".',
    ]
    accept: Annotated[NotRequired[_Bounds], "Bounds within which the claim holds."]
    comparable: Annotated[str, "What is the same there and here."]
    not_comparable: Annotated[str, "What differs."]


class PolicyClaims(TypedDict):
    """All keys of `policy_claims.yaml`."""

    papers: Annotated[Mapping[str, str], "The papers' citations, by a short name."]
    claims: Annotated[Sequence[PolicyClaim], _SOME]
