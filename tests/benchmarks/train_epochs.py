"""Print processor and wall time, and files, of epochs of the TensorFlow example.

    python train_epochs.py DATASET EPOCHS

The example runs unchanged; its prints say when an epoch has ended.
"""

import builtins
import runpy
import sys
import time
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow_files.py"


def main(dataset: str, epochs: str) -> None:
    """Run the example, and print a line after each epoch."""
    say, last = print, [time.process_time(), time.perf_counter()]

    def at_end(*words: object, **options: object) -> None:
        now = [time.process_time(), time.perf_counter()]
        n_files = str(words[0]).partition(": ")[2].split()[0]
        say(now[0] - last[0], now[1] - last[1], n_files, flush=True)
        last[:] = now

    sys.argv = [str(EXAMPLE), f"--data={dataset}", f"--epochs={epochs}"]
    builtins.print = at_end
    runpy.run_path(str(EXAMPLE), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
