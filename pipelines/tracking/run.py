"""The record of one run, for the other pipelines. Every call returns at once, whatever the server does."""

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import interrupt_in, reason
from dragoman.model.files import atomic_path
from dragoman.model.runs.spool import Spool
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.author import expected_owner, new_owner
from dragoman.pipelines.tracking.sender import Sender
from dragoman.pipelines.tracking.server import check, is_database, resolve_paths
from dragoman.pipelines.tracking.settings import TrackingConfig

if TYPE_CHECKING:
    from dragoman.pipelines.tracking.plots import Figure

LONGEST_PAUSE = 60.0  # seconds between two tries while the server is away


class BackgroundSender(threading.Thread):
    """Sends every `flush_seconds`, and less often while the server is away. Daemon: it keeps no process alive.

    `samples`: MLflow's own monitor samples this machine, from the first answer of the server on.
    """

    def __init__(self, sender: Sender, samples: bool) -> None:
        super().__init__(name="tracking", daemon=True)
        self.sender = sender
        self._samples = samples
        self._monitor: Any = None
        self.away: str | None = None  # why the last try failed
        self._wake = threading.Event()
        self._passes = 0
        self._ending = False

    def run(self) -> None:
        """Runs one pass after another until `end`."""
        pause = self.sender.config.flush_seconds
        while True:
            self._wake.wait(pause)
            if self._ending:
                if self._monitor is not None:
                    self._monitor.finish()
                return
            self._wake.clear()
            sent = self._try()
            self._passes += 1
            if self.away is not None:
                pause = min(LONGEST_PAUSE, 2 * pause + 0.1)
            else:
                pause = self.sender.config.flush_seconds if sent else 0.05  # another process is sending this spool

    def flush(self, timeout: float) -> bool:
        """Sends now; returns True if everything spooled has arrived. Stops after `timeout` seconds or a failure."""
        passes, until = self._passes, time.monotonic() + timeout
        self._wake.set()
        while self.is_alive() and self.sender.spool.pending() and time.monotonic() < until:
            if self.away is not None and self._passes > passes:
                break
            time.sleep(0.01)
        return self.sender.spool.pending() == 0

    def end(self) -> None:
        """Stops the thread after its present request; the run's next start sends the rest.

        Starts nothing, because loading MLflow alone takes seconds. Does not wait for a server that hangs."""
        self._ending = True
        self._wake.set()

    def _try(self) -> bool:
        spool, config = self.sender.spool, self.sender.config
        try:
            spool.sync()
            sent = self.sender.send()
            if sent and self._samples and (self._monitor is None or self.away is not None):
                self._monitor = self._start_monitor()  # it ends by itself when the server is away
        except Exception as problem:  # whatever is wrong with tracking, the training continues
            said = mask_secrets(f"{type(problem).__name__}: {reason(problem)}", config.uri)
            if self.away is None:
                logger.warning(
                    "MLflow at %s does not take records for now; training goes on, they are kept in %s (%s)",
                    mask_address(config.uri),
                    spool.folder,
                    said,
                )
            self.away = said
            return False
        if self.away is not None:
            logger.info("MLflow at %s takes records again", mask_address(config.uri))
        self.away = None
        return sent

    def _start_monitor(self) -> Any:
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)  # this thread says that MLflow is away
        monitor = SystemMetricsMonitor(
            self.sender.spool.mark().run_id,
            sampling_interval=self.sender.config.system_seconds,
            resume_logging=True,
            tracking_uri=self.sender.config.uri,
        )
        monitor.start()
        return monitor


logger = logging.getLogger(__name__)

Status = Literal["FINISHED", "FAILED", "KILLED"]
SILENT = 5.0  # seconds of waiting before it is said
LONGEST_WRITE = 120.0  # seconds for a database of this machine
INTERRUPTED_FLUSH = 10.0  # seconds that an interrupt waits at most; loading MLflow alone takes some


class TrackedRun:
    """Spools what is logged under `run_dir` and sends it to MLflow in the background.

    The run directory is the run's identity: opened again, it continues the same MLflow run, and steps that are repeated
    after a resume are not logged again. As a context manager it ends the run FINISHED, FAILED on an exception, KILLED
    on an interrupt.

    The constructor raises UserError: `tracking.uri` is no address.
    """

    def __init__(
        self, tracking: TrackingConfig, run_dir: Path, name: str, system: bool = True, begin: bool = True
    ) -> None:
        """Opens the record.

        Args:
            system: sample this process and machine. One of the processes that share a run does, best rank 0.
            begin: record that the run is running. A worker does not, because the command may have ended the run
            meanwhile.
        """
        check(tracking)
        self.config = resolve_paths(tracking)
        self.run_dir = run_dir.absolute()
        self.name = name
        self.spool = Spool(self.run_dir)
        self.spool.open()
        self._steps = self.spool.last_steps()
        self._lock = threading.Lock()
        self._ended = False
        if begin:
            self.spool.append("status", status="RUNNING")
        sender = Sender(self.spool, self.config, name)
        self._background = BackgroundSender(sender, samples=system and self.config.system_metrics)
        if not self.config.offline:
            self._background.start()

    @property
    def run_id(self) -> str | None:
        """Returns MLflow's id of the run; None until the server has answered once."""
        mark = self.spool.mark()
        return mark.run_id if mark.server == mask_address(self.config.uri) else None

    @property
    def trouble(self) -> str | None:
        """Returns why the server takes no records at present; None if it does."""
        return self._background.away

    # ------------------------------------------------------------------ what can be logged

    def params(self, values: Mapping[str, Any]) -> None:
        """Logs parameters; nested sections become `section.key`. A value that changed on resume becomes a tag."""
        self.spool.append("params", values=names.keys(names.flat_texts(values)))

    def tags(self, values: Mapping[str, Any]) -> None:
        """Logs tags; a later value replaces an earlier one."""
        self.spool.append("tags", values={key: str(value) for key, value in values.items()})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values at a step. A key's steps only grow: values that a resumed run measures again are dropped."""
        with self._lock:
            fresh = {key: value for key, value in names.keys(values).items() if step > self._steps.get(key, step - 1)}
            if fresh:
                self.spool.append("metrics", step=step, values=fresh)
                self._steps |= dict.fromkeys(fresh, step)

    def dataset(
        self,
        name: str,
        digest: str,
        source: Mapping[str, Any],
        context: str = "training",
        profile: Mapping[str, Any] | None = None,
    ) -> None:
        """Logs a dataset that the run reads. `digest`: the manifest's hash; `profile`: its sizes."""
        self.spool.append(
            "dataset",
            name=name,
            digest=digest,
            source={"digest": digest, **source},
            context=context,
            profile=dict(profile) if profile else None,
        )

    def artifact(self, path: Path, to: str = "", keep: bool = False) -> None:
        """Logs a file or directory as an artifact in the folder `to`. It is read when it is sent; `keep` copies a
        (small) file that may change or disappear before."""
        folder = names.artifact_path(to)
        if keep:
            path = self.spool.keep(path, str(PurePosixPath(folder) / path.name))
        self._artifact(path, folder)

    def text(self, text: str, to: str) -> None:
        """Logs `text` as the artifact file `to`."""
        target = names.artifact_path(to)
        self._artifact(self.spool.write_text(text, target), str(PurePosixPath(target).parent))

    def figure(self, figure: "Figure | None", to: str) -> None:
        """Logs a picture as the artifact file `to` (.png, .svg); a later one replaces it. None is ignored."""
        if figure is None:
            return
        target = names.artifact_path(to)
        path = self.spool.folder / "files" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path, durable=False) as part:
            figure.savefig(part)
        self._artifact(path, str(PurePosixPath(target).parent))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], to: str) -> None:
        """Logs a table as the artifact file `to` (.json), shown by MLflow's pages; a later one replaces it."""
        target = names.artifact_path(to)
        content = json.dumps({"columns": list(columns), "data": [list(row) for row in rows]}, ensure_ascii=False)
        self._artifact(self.spool.write_text(content, target), str(PurePosixPath(target).parent), table=target)

    def link(self, tag: str, where: Mapping[str, str]) -> None:
        """Tags this run with the id of the newest run whose tags are `where`, which is found when this is sent."""
        self.spool.append("link", tag=tag, where=dict(where))

    def history(self) -> dict[str, list[tuple[int, float]]]:
        """Returns what was logged so far: metric key -> (step, value) in order, over all starts of the run."""
        points: dict[str, list[tuple[int, float]]] = {}
        for record in self.spool.records():
            if record.kind == "metrics":
                for key, value in record.fields["values"].items():
                    points.setdefault(key, []).append((record.fields["step"], float(value)))
        return points

    def register(self, bundle: Path, model_name: str, key: str, tags: Mapping[str, str]) -> None:
        """Registers `bundle` as a version of `model_name` once it is sent; `key` finds the answer."""
        self.spool.append(
            "register",
            bundle=self._relative(bundle),
            name=model_name,
            key=key,
            tags=dict(tags),
            owner=new_owner(),  # both by this job, whoever sends the record
            expected=expected_owner(),
        )

    # ------------------------------------------------------------------ sending and ending

    def flush(self, timeout: float | None = None) -> bool:
        """Sends now and waits at most `timeout` seconds (`tracking.flush_timeout`); returns True if all has arrived."""
        return self._background.flush(self.config.flush_timeout if timeout is None else timeout)

    def finish(self, status: Status = "FINISHED", timeout: float | None = None) -> bool:
        """Ends the run: flushes and stops the thread. Unsent records stay in the spool; returns True if all has
        arrived.

        `timeout` is as in `flush`.
        """
        if self._ended:
            return self.spool.pending() == 0
        self._ended = True
        self.spool.append("status", status=status)
        self.spool.sync()
        self._flush_last(timeout)
        self._stop_sending()
        arrived = self.spool.pending() == 0
        if not arrived:
            logger.log(
                logging.INFO if self.config.offline else logging.WARNING,
                "MLflow at %s lacks the last records of this run; they are kept in %s. Send them with: "
                "dragoman sync name=%s",
                mask_address(self.config.uri),
                self.spool.folder,
                self.name,
            )
        self.spool.close()
        return arrived

    def leave(self) -> None:
        """Stops writing from this process without ending the run: another process continues it and sends the rest."""
        if self._ended:
            return
        self._ended = True
        self.spool.sync()
        self._stop_sending()
        self.spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish("FINISHED")
        elif interrupt_in(problem) is not None:
            self.finish("KILLED", INTERRUPTED_FLUSH)
        else:
            self.finish("FAILED")

    # ------------------------------------------------------------------ inside

    def _stop_sending(self) -> None:
        """Ends the thread; one that hangs in a server is left behind and dies with the process."""
        self._background.end()
        if self._background.is_alive():
            self._background.join(min(1.0, self.config.flush_timeout))

    def _flush_last(self, timeout: float | None) -> None:
        """Sends the rest. A database of this machine answers or fails, however slowly: its end is awaited."""
        limit = self.config.flush_timeout if timeout is None else timeout
        if self.flush(min(SILENT, limit)) or self.config.offline or self.trouble is not None:
            return
        database = is_database(self.config.uri)
        rest = LONGEST_WRITE if timeout is None and database else limit - SILENT
        if rest > 0:
            said = "writing the last records into MLflow's database %s" if database else "waiting for MLflow at %s"
            logger.info(said, mask_address(self.config.uri))
            self.flush(rest)

    def _artifact(self, path: Path, to: str, table: str | None = None) -> None:
        self.spool.append("artifact", path=self._relative(path), to=names.artifact_path(to), table=table)

    def _relative(self, path: Path) -> str:
        """Returns a path relative to the run directory if it is inside, so that the directory can be moved."""
        absolute = path.absolute()
        return str(absolute.relative_to(self.run_dir) if absolute.is_relative_to(self.run_dir) else absolute)
