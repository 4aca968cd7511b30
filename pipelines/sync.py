"""`dragoman sync`: sends spooled records that the server has not received, and settles killed runs.

dragoman sync                                   every run under paths.runs
dragoman sync name=everyday-en-de-tiny        one run
dragoman sync tracking.uri=http://host:5000     all of it to another server
"""

import sys
from functools import partial
from pathlib import Path
from typing import Literal

from dragoman.conf import compose
from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import UserError, unknown
from dragoman.model.runs.spool import Spool, spooled_runs
from dragoman.pipelines.config import Config
from dragoman.pipelines.settle import settle as settled
from dragoman.pipelines.tracking.sender import Sender
from dragoman.pipelines.tracking.server import check, resolve_paths
from dragoman.pipelines.tracking.settings import TrackingConfig

State = Literal["sent", "running", "left"]


def main(argv: list[str]) -> int:
    """Returns exit code 0 if everything has arrived, 1 if something could not be sent."""

    def task(config: Config) -> int:
        return sync(config.tracking, config.paths.local(config.paths.runs), config.name or None)

    return compose.run(task, Config, argv, "sync", settle=partial(settled, "sync"), shown=["name", "paths", "tracking"])


def sync(tracking: TrackingConfig, runs: Path, name: str | None = None) -> int:
    """Sends the spools under `runs` (only that of the run `name`), oldest first so that links find their origin.

    Raises UserError: no such run, or an invalid address.
    """
    check(tracking)
    tracking = resolve_paths(tracking)
    folders = {path.name: path for path in spooled_runs(runs)}
    if name is not None and name not in folders:
        raise unknown("name: no run", name, folders) if folders else UserError(f"{runs}: no runs here")
    chosen = [folders[name]] if name is not None else sorted(folders.values(), key=_began)
    if not chosen:
        print(f"{runs}: no runs here, nothing to send")
    states = [sync_run(tracking, run) for run in chosen]
    return int("left" in states)


def sync_run(tracking: TrackingConfig, run: Path) -> State:
    """Sends one run's spool and prints the result."""
    spool = Spool(run)
    running = spool.writer_alive()
    if not running:
        settle(spool)
    try:
        arrived = Sender(spool, tracking, run.name).send()
    except Exception as problem:  # MLflow raises many kinds; each means that this run's records stay here
        reason = mask_secrets(f"{type(problem).__name__}: {problem}".splitlines()[0], tracking.uri)
        print(f"{run.name}: not sent to {mask_address(tracking.uri)}, nothing is lost ({reason})", file=sys.stderr)
        return "left"
    if not arrived:
        note = "another process is sending it" if not running else "it is running and sends for itself"
        print(f"{run.name}: {note}")
        return "running" if running else "left"
    mark = spool.mark()
    print(f"{run.name}: all sent, MLflow run {mark.run_id}")
    return "sent"


def settle(spool: Spool) -> None:
    """Ends a run that was killed without notice: KILLED, at the time of its last record."""
    status, last = None, None
    for record in spool.records():
        last = record
        if record.kind == "status":
            status = record.fields["status"]
    if last is not None and status == "RUNNING":
        spool.open()
        spool.append("status", when=last.time, status="KILLED")
        spool.close()


def _began(run: Path) -> int:
    first = next(iter(Spool(run).records()), None)
    return first.time if first else 0
