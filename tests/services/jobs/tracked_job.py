"""A training without a network that tells MLflow: python tracked_job.py RUN STEPS ... The server stands beside RUN."""

import sys
from pathlib import Path


def main(run: Path, steps: int, server: str) -> int:
    from dragoman.pipelines.tracking.run import TrackedRun
    from dragoman.pipelines.tracking.settings import TrackingConfig

    config = TrackingConfig(uri=server, flush_seconds=0.2, timeout=1.0, flush_timeout=1.0, system_metrics=False)
    tracked = TrackedRun(config, run, run.name)
    for step in range(1, steps + 1):
        tracked.metrics(step, {"loss": 1.0 / step})
    tracked.finish()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    name, steps, *_ = sys.argv[1:]
    sys.exit(main(Path(name), int(steps), (Path(name).parent / "server").read_text()))
