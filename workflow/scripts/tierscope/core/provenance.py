"""Say in words what the numbers of each source and of each estimate are worth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierscope.core.columns import MODEL, RULE
from tierscope.core.words import (
    BYTE_RATE_LABEL,
    CACHE_RATE_LABEL,
    WHOLE_RUN,
    epoch_words,
)

_NOTES = {
    "measured": "Measured: real processes read real files.",
    "emulated": "Emulated: real processes made real calls, a model of the devices said "
    "how long each took.",
    "simulated": "Simulated: a model of the whole system, no process read a file.",
    "trained": "Real trainings with TensorFlow on generated data; nothing was timed.",
}
_FITTED = (
    "The properties of the devices stand in a system file; those of fugaku were fitted "
    "to statements of the paper, not measured on the machine."
)


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a figure come from, in words.

    Parameters
    ----------
    words : str
        Source, system and size.
    observed : sequence of str
        Notes on where reads of real tiers came from, and on drift.
    mark : str
        Stands in titles if numbers are not those of devices; sources other than
        measurement stand there anyway.
    drifted : sequence of tuple
        Values of `SCENARIO` and the cache rate, of the points at which the machine
        drifted.
    is_program : bool
        Whether a program of the user was run, so that cache rates are of bytes.
    is_whole_run : bool
        Whether it marks no epochs, so that the first epoch is the whole run.
    """

    words: str
    observed: Sequence[str] = ()
    mark: str = ""
    drifted: Sequence[tuple] = ()
    is_program: bool = False
    is_whole_run: bool = False

    def epoch_words(self, epoch: int) -> str:
        """Return an epoch, counted from 0, in words."""
        return WHOLE_RUN if self.is_whole_run else epoch_words(epoch)

    @property
    def phase(self) -> str:
        """Return what times are of: an epoch, or a run that marks none."""
        return "run" if self.is_whole_run else "epoch"

    @property
    def cache_rate_label(self) -> str:
        """Return the label of an axis of cache rates."""
        return BYTE_RATE_LABEL if self.is_program else CACHE_RATE_LABEL

    def __str__(self) -> str:
        return "; ".join((self.words, *self.observed))


NO_ORIGIN = Origin("")


def source_note(source: str, system_description: str = "") -> str:
    """Return what to know before believing numbers of a source.

    Parameters
    ----------
    source : {"measured", "emulated", "simulated", "trained"}
        Where the numbers come from, as in the tables.
    system_description : str, optional
        What the devices model, such as ``Fugaku in small``; named where the devices
        are not real.
    """
    note = _NOTES[source]
    if source in ("measured", "trained"):
        return note
    model = f" Model: {system_description}." if system_description else ""
    return f"{note}{model} {_FITTED}"


RULE_NOTE = (
    "Estimated by the paper's rule (Sec. 4.4): a class that is N % faster takes "
    "100/(100 + N) of its time, in every process. The rule does not move waiting to "
    "other classes. It promises too much where the improved class is not the one that "
    "all processes wait for, and too little where all processes wait for it."
)
METHOD_WORDS = {RULE: "by the rule", MODEL: "by the model"}
_EVALUATIONS = {
    "simulation": "simulated event by event",
    "order-statistics": "approximated by mean values and order statistics, as if files "
    "lay evenly on the servers",
}


def model_words(model: str, calibration: str | None) -> str:
    """Return what the model of an estimate is; its service times are of a calibration.

    Without one they are those of the system's file.
    """
    fitted = "service times of the system's file"
    if calibration is not None:
        fitted = f"service times of calibration {calibration}"
    return f"a network of queues, {fitted}, {_EVALUATIONS[model]}"


def model_note(model: str) -> str:
    """Return how the model estimates; `model` is what `model_words` returns."""
    return (
        f"Estimated by the model ({model}): the devices of a class that is N % faster "
        "need 100/(100 + N) of their time, and waiting moves on to the next busy "
        "device. The time without improvement is multiplied by what the model's "
        "slowest process takes then over what it takes now; classes are shown as the "
        "model divides them."
    )


def utilisation_note(model: str) -> str:
    """Return how the model estimates AU; `model` is what `model_words` returns."""
    return (
        f"Estimated by the model ({model}): the devices of a class that is N % faster "
        "need 100/(100 + N) of their time, and waiting moves on to the next busy "
        "device. The time of each process is multiplied by what the model takes then "
        "over what it takes now; its computation stays."
    )


def method_notes(methods: Iterable[str], model: str) -> list[str]:
    """Return how some of the methods ``rule`` and ``model`` estimate."""
    notes = {RULE: RULE_NOTE, MODEL: model_note(model)}
    return [notes[method] for method in methods]
