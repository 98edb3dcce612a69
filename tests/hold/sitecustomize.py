"""Hold a launch in its first training step until the test lets it go.

On PYTHONPATH of the ranks, Python imports this at its start. A step of `COMPUTE_S`
makes a file held-RATE in the working folder, of the launch's last cache rate, and lasts
until there is a file go-RATE. The launch ends if the test, process HOLD_OWNER, is gone.
"""

import os
import sys
import time

COMPUTE_S = 0.0625
_sleep = time.sleep


def _sleep_until_go(time_s: float) -> None:
    """Sleep; in a training step for as long as the test wants."""
    if time_s != COMPUTE_S:
        return _sleep(time_s)
    rate = int(sys.argv[-1].removeprefix("cache-").partition("/")[0])
    open(f"held-{rate}", "w").close()
    while not os.path.exists(f"go-{rate}"):
        if not os.path.exists(f"/proc/{os.environ['HOLD_OWNER']}"):
            sys.exit("the test that holds this launch is gone")
        _sleep(0.05)


time.sleep = _sleep_until_go
