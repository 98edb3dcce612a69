"""Say in words what the numbers of each source are worth."""

_NOTES = {
    "measured": "Measured on real storage devices.",
    "emulated": "Emulated: real processes made real calls, emulated devices set the "
    "pace.",
    "simulated": "Simulated: a model of the whole system, no process read a file.",
}
_FITTED = (
    "The properties of the devices stand in a system file; those of fugaku were fitted "
    "to statements of the paper, not measured on the machine."
)


def source_note(source: str, system_description: str = "") -> str:
    """Return what to know before believing numbers of a source.

    Parameters
    ----------
    source : {"measured", "emulated", "simulated"}
        Where the numbers come from, as in the tables.
    system_description : str, optional
        What the devices model, such as ``Fugaku in small``; named where the devices
        are not real.
    """
    note = _NOTES[source]
    if source == "measured":
        return note
    model = f" Model: {system_description}." if system_description else ""
    return f"{note}{model} {_FITTED}"
