"""Tables of papers' claims beside what was found here."""

from tierscope.core.columns.column import (
    ANY_NUMBER,
    Columns,
    count,
    if_known,
    text,
)
from tierscope.core.columns.shared import common

_CLAIM = text("Number of the claim in the file of claims.")
_TITLE = text("The claim in a few words.")
_STATEMENT = text("The claim in our words.")
_ACCEPTED = text("Bounds within which the claim holds, in words.")
_VALUE = if_known.number(
    "The number that was found, in the claim's unit; missing if there is none.",
    "",
    ANY_NUMBER,
)
_DETAILS = text("What the number rests on, in words.")

TABLES: dict[str, Columns] = {
    "policy_claims": {
        "claim": _CLAIM,
        "paper": text("Citation of the paper."),
        "title": _TITLE,
        "statement": _STATEMENT,
        "stated": text("What the paper says, with its number if there is one."),
        "stated_number": text(
            "The number that the paper says, with its unit; empty if none."
        ),
        "here": text(
            "The number that was found, with its unit; empty if not measurable."
        ),
        "value": _VALUE,
        "accepted": _ACCEPTED,
        **common("status"),
        "details": text(
            "What the number rests on, or what prevents a verdict, in words."
        ),
        "comparable": text("What is the same there and here."),
        "not_comparable": text("What differs between there and here."),
        **common("source"),
    },
    "claims": {
        **common("source", "system"),
        "claim": _CLAIM,
        "section": text("Where the paper makes the claim."),
        "title": _TITLE,
        "statement": _STATEMENT,
        "scenarios": text("Titles of the scenarios that the number is of."),
        "n_repetitions": count(
            "The least number of repetitions of a scenario; 0 if none was used."
        ),
        "expected": text("What the paper says."),
        "accepted": _ACCEPTED,
        "tolerance": text("Why the claim is accepted within these bounds."),
        "measured": text(
            "The number that was found, with its unit; empty if not measurable."
        ),
        "details": _DETAILS,
        "value": _VALUE,
        "low": if_known.number(
            "Lower end of the number's 95 % confidence interval; missing if there is "
            "none.",
            "",
            ANY_NUMBER,
        ),
        "high": if_known.number(
            "Upper end of the number's 95 % confidence interval; missing if there is "
            "none.",
            "",
            ANY_NUMBER,
        ),
        "interval": text("The interval and what it is over, or that there is none."),
        **common("status"),
        "reason": text(
            "Why there is no verdict, or why the fitted model misses the claim; may be "
            "empty."
        ),
        "fitted": text(
            "Whether the devices behind the numbers were fitted to the claim: it was a "
            "target of the fit, a parameter was chosen `by hand` for it, or it follows "
            "from a target (`derived`).",
            words=("no", "target", "by hand", "derived"),
        ),
    },
}
