"""A training without a network: steps in a journal, a checkpoint every few, an end in order on SIGTERM.

python stub_job.py RUN STEPS SECONDS [EXIT_CODE]
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main(run: Path, steps: int, pause: float, code: int) -> int:
    asked: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, hear)
    run.mkdir(parents=True, exist_ok=True)
    kept = max((int(path.name[5:]) for path in run.glob("checkpoints/step-*")), default=0)
    with (run / "starts").open("a") as file:
        file.write(f"{os.getpid()} {kept}\n")
    lines = (run / "steps.jsonl").read_text().splitlines() if (run / "steps.jsonl").exists() else []
    (run / "steps.jsonl").write_text("".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= kept))
    for step in range(kept + 1, steps + 1):
        time.sleep(pause)
        with (run / "steps.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, "loss": 1.0, "tokens": 10, "seconds": step * pause}) + "\n")
        print("step", step, flush=True)
        ending = bool(asked)  # looked at once: the signal may come between two looks, and its step must be kept
        if step % 5 == 0 or ending or step == steps:
            checkpoint(run, step)
        if ending:
            return 143
    return code


def checkpoint(run: Path, step: int) -> None:
    """Written aside, then named; the disk is full where RUN/full-at says so, once."""
    full = run / "full-at"
    if full.exists() and full.read_text() == str(step):
        full.unlink()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    folder = run / "checkpoints" / f".part-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / "weights").write_bytes(b"w" * 1000)
    except OSError as problem:
        shutil.rmtree(folder)
        print(problem, flush=True)
        raise SystemExit(1) from None
    folder.rename(run / "checkpoints" / f"step-{step:08d}")


if __name__ == "__main__":
    name, steps, pause, *code = sys.argv[1:]
    sys.exit(main(Path(name), int(steps), float(pause), int(code[0]) if code else 0))
