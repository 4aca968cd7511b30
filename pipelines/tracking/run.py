"""The record of one run, for the other pipelines. Every call returns at once, whatever the server does."""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Literal, Self

import psutil

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import interrupt_in, reason
from dragoman.model.files import atomic_path
from dragoman.model.repeated import repeated
from dragoman.model.runs.record import read_tracked
from dragoman.model.runs.spool import Spool
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.author import expected_owner, new_owner
from dragoman.pipelines.tracking.plots import Figure
from dragoman.pipelines.tracking.sender import Sender
from dragoman.pipelines.tracking.server import TrackingConfig, check, resolve_paths


def sampler(record: Callable[[Mapping[str, float]], None], seconds: float) -> contextlib.AbstractContextManager[None]:
    """Calls `record` with a sample every `seconds` within the block, the first one after `seconds`.

    MLflow's own monitor sends directly to the server and gives up when it is away; ours writes to the spool. The thread
    has the same name.
    """
    process, ended = psutil.Process(), threading.Event()
    psutil.cpu_percent()  # the first call starts the measurement
    process.cpu_percent()

    def take(last: bool) -> None:
        if last or ended.is_set():
            return
        try:
            record(sample(process))
        except (OSError, psutil.Error) as problem:  # a machine that hides its counters, or a failing disk
            logger.warning("system metrics end: %s", problem)
            ended.set()

    return repeated(take, seconds, "system-metrics", 5.0)


def sample(process: psutil.Process) -> dict[str, float]:
    """Takes one sample: percentages 0 to 100 (the process's: 100 per core), sizes in megabytes of 10^6 bytes."""
    memory = psutil.virtual_memory()
    values = {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": memory.used / 1e6,
        "system/system_memory_usage_percentage": 100.0 * memory.used / memory.total,
        "system/process_cpu_percentage": process.cpu_percent(),
        "system/process_memory_megabytes": process.memory_info().rss / 1e6,
    }
    return values | gpu_sample()


def gpu_sample() -> dict[str, float]:
    """Returns the memory of each GPU that this process already uses; initialises none."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    values = {}
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        values[f"system/gpu_{index}_memory_usage_megabytes"] = (total - free) / 1e6
        values[f"system/gpu_{index}_memory_usage_percentage"] = 100.0 * (total - free) / total
    return values


LONGEST_PAUSE = 60.0  # seconds between two tries while the server is away


class BackgroundSender(threading.Thread):
    """Sends every `flush_seconds`, and less often while the server is away. Daemon: it keeps no process alive."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(name="tracking", daemon=True)
        self.sender = sender
        self.away: str | None = None  # why the last try failed
        self._wake = threading.Event()
        self._passed = threading.Condition()
        self._passes = 0
        self._asked = 0
        self._ending = False

    def run(self) -> None:
        """Runs one pass after another until `end`."""
        pause = self.sender.config.flush_seconds
        while True:
            self._wake.wait(pause)
            if self._ending:
                return
            self._wake.clear()
            with self._passed:
                answer = self._asked
            sent = self._try()
            pause = self.sender.config.flush_seconds if self.away is None else min(LONGEST_PAUSE, 2 * pause + 0.1)
            with self._passed:
                self._passes = max(self._passes, answer) if sent or self.away else self._passes
                self._passed.notify_all()
            if not sent and self.away is None:
                time.sleep(0.05)  # another process is sending this spool: check again soon
                self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Sends now; returns True if everything spooled has arrived. Stops after `timeout` seconds or a failure."""
        if not self.is_alive():
            return self.sender.spool.pending() == 0
        with self._passed:
            self._asked += 1
            step = self._asked
            self._wake.set()
            self._passed.wait_for(lambda: self._passes >= step, timeout)
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


logger = logging.getLogger(__name__)

Status = Literal["FINISHED", "FAILED", "KILLED"]
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
        self._background = BackgroundSender(Sender(self.spool, self.config, name))
        if not self.config.offline:
            self._background.start()
        self._sampling = contextlib.ExitStack()
        if self.config.system_metrics and system:
            self._sampling.enter_context(sampler(self._system, self.config.system_seconds))

    @property
    def run_id(self) -> str | None:
        """Returns MLflow's id of the run; None until the server has answered once."""
        note = read_tracked(self.run_dir)
        return str(note["run_id"]) if note and note["server"] == mask_address(self.config.uri) else None

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
        source: Mapping[str, Any] | str,
        context: str = "training",
        profile: Mapping[str, Any] | None = None,
    ) -> None:
        """Logs a dataset that the run reads. `digest`: the manifest's hash; `profile`: its sizes."""
        fields = {"source": source} if isinstance(source, str) else dict(source)
        self.spool.append(
            "dataset",
            name=name,
            digest=digest,
            source={"digest": digest, **fields},
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

    def figure(self, figure: Figure | None, to: str) -> None:
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
                    points.setdefault(key, []).append((record.fields["step"], names.number(value)))
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
        self._sampling.close()
        self.spool.append("status", status=status)
        self.spool.sync()
        arrived = self.flush(timeout)
        self._stop_sending()
        if not arrived:
            logger.log(
                logging.INFO if self.config.offline else logging.WARNING,
                "%d bytes of records were not sent to MLflow at %s; they are safe in %s. "
                "When it is there, send them with: dragoman sync name=%s",
                self.spool.pending(),
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
        self._sampling.close()
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

    def _artifact(self, path: Path, to: str, table: str | None = None) -> None:
        self.spool.append("artifact", path=self._relative(path), to=names.artifact_path(to), table=table)

    def _relative(self, path: Path) -> str:
        """Returns a path relative to the run directory if it is inside, so that the directory can be moved."""
        absolute = path.absolute()
        return str(absolute.relative_to(self.run_dir) if absolute.is_relative_to(self.run_dir) else absolute)

    def _system(self, values: Mapping[str, float]) -> None:
        """Logs a sample of the machine; its step is the sample's number, which continues after a resume."""
        self.metrics(1 + max((self._steps.get(key, -1) for key in values), default=-1), values)
