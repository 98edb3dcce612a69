"""List the Darshan logs of an analysis, by chunk."""

import json
from collections.abc import Mapping
from pathlib import Path

from tierscope.core.files import log_to, write_text
from tierscope.core.words import count_words
from tierscope.logs.chunks.folders import damaged_chunks, to_be_tried_again
from tierscope.logs.chunks.listing import Listing, list_logs
from tierscope.logs.settings import KEEP


def facts_of(listing: Listing, folder: Path, is_new: bool) -> dict[str, object]:
    """Return what rules must know of chunks, whose tables are in a folder.

    With new settings, all have to be read.
    """
    chunks = {
        name: {
            "n_logs": len(logs),
            "largest_bytes": max(0, *(log.size_bytes for log in logs)),
        }
        for name, logs in listing.chunks.items()
    }
    changed = [
        name
        for name in chunks
        if is_new or name in listing.changed or not (folder / name).exists()
    ]
    n_logs = sum(chunks[name]["n_logs"] for name in changed)
    return {"chunks": chunks, "n_changed": len(changed), "n_logs_changed": n_logs}


def summary(facts: Mapping, n_vanished: int) -> str:
    """Return what was found in a line or two."""
    n_all = sum(chunk["n_logs"] for chunk in facts["chunks"].values())
    chunks = count_words(len(facts["chunks"]), "chunk", "chunks")
    lines = [
        f"Logs in chunks that are new or changed: {facts['n_logs_changed']} of {n_all}"
        f" ({facts['n_changed']} of {chunks}). Of these only new logs are read."
    ]
    if n_vanished:
        words = count_words(n_vanished, "log has", "logs have")
        lines.append(f"{words} vanished. What was read before stays (vanished: keep).")
    return "\n".join(lines)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    lists = Path(snakemake.output.listed).parent
    chunks = Path(params.chunks)
    for name in (damaged := damaged_chunks(chunks)):
        print(f"{chunks / name}: is damaged, so it is made again.")
    listing = list_logs(
        params.logs,
        lists,
        keep_vanished=params.vanished == KEEP,
        again=to_be_tried_again(chunks),
        damaged=damaged,
    )
    settings, known = json.dumps(params.settings), lists / "settings.json"
    is_new = not known.exists() or known.read_text(encoding="utf-8") != settings
    facts = facts_of(listing, chunks, is_new)
    write_text(known, settings)
    write_text(snakemake.output.listed, json.dumps(facts, indent=1))
    print(summary(facts, listing.n_vanished))
