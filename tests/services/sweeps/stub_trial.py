"""A trial without a network: its validation loss falls towards what its setting makes of it.

A setting above 5 is slow and goes on until it is stopped: the others overtake it.

python stub_trial.py HOME VALIDATIONS SETTING NAME
"""

import json
import signal
import sys
import time
from pathlib import Path


def main(home: str, validations: str, setting: str, name: str) -> int:
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    run = Path(home) / name
    run.mkdir()  # a second job of the same trial would fail here
    if setting == "broken":
        return 1
    slow = float(setting) > 5
    for step in range(1, 120 if slow else int(validations) + 1):
        time.sleep(0.5 if slow else 0.03)
        line = {"step": step, "valid_loss": abs(float(setting) - 0.3) + 1 / step, "seconds": step}
        with (run / "steps.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        if asked:
            return 143
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
