"""Striping of a Lustre directory by the `lfs` command of the Lustre client.

Files of one stripe over a limited number of OSTs: one OST by its index, all of them by
Lustre's own choice, any other number by a pool that the site has made.
"""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tierscope.tiers import Tier, TierError

SAMPLE_SIZE = 64


def stripe_directory(directory: Path, tier: Tier, n_osts: int) -> None:
    """Set the striping of an empty dataset directory and check that it took effect.

    Parameters
    ----------
    directory : Path
        Existing directory; files made in it later inherit the layout.
    tier : Tier
        Tier of kind `lustre` with `n_osts` and `pools`.
    n_osts : int
        Number of OSTs the files are to be spread over.

    Raises
    ------
    TierError
        With the command's own words, for example when this is not Lustre.
    """
    _lfs("setstripe", "-c", "1", *_placement(tier, n_osts), str(directory))
    count = _lfs("getstripe", "-d", "-c", str(directory))
    if count != "1":
        raise TierError(
            f"{directory}: lfs getstripe reports stripe count {count!r}, expected '1'."
        )


def _placement(tier: Tier, n_osts: int) -> list[str]:
    """Return the options of `lfs setstripe` that limit files to some OSTs."""
    if n_osts == tier.n_osts:
        return ["-i", "-1"]
    if n_osts == 1:
        return ["-i", "0"]
    pools = {str(count): pool for count, pool in (tier.pools or {}).items()}
    if str(n_osts) not in pools:
        raise TierError(
            f"{n_osts} OSTs need an OST pool: add it to gfs.pools of the system file "
            f"(there now: {pools or 'none'})."
        )
    return ["-p", pools[str(n_osts)]]


def sample_osts(files: Sequence[Path], n_osts: int) -> dict[int, int]:
    """Return the OST of a sample of files, after checking their number.

    Parameters
    ----------
    files : sequence of Path
        The dataset's files.
    n_osts : int
        Number of OSTs they may be on.

    Returns
    -------
    dict of int to int
        OST index by position in `files`.

    Raises
    ------
    TierError
        If the sample lies on more OSTs than asked for, or on one instead of several.
    """
    positions = random.Random(0).sample(range(len(files)), min(len(files), SAMPLE_SIZE))
    osts = {}
    for position in sorted(positions):
        index = _lfs("getstripe", "-i", str(files[position]))
        if not index.isdecimal():
            raise TierError(
                f"{files[position]}: lfs getstripe -i reports {index!r}, expected an "
                "OST index."
            )
        osts[position] = int(index)
    found = len(set(osts.values()))
    if found > n_osts or found < min(2, n_osts, len(osts)):
        raise TierError(
            f"{files[0].parent}: a sample of {len(osts)} files lies on {found} OSTs, "
            f"expected {n_osts}."
        )
    return osts


def _lfs(*arguments: str) -> str:
    """Run `lfs` and return its output; failure is a TierError with its words."""
    command = ["lfs", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TierError(
            f"{' '.join(command)}: no command lfs; kind lustre needs the Lustre client."
        ) from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())
        raise TierError(f"{' '.join(command)}: exit code {done.returncode}: {words}")
    return done.stdout.strip()
