"""Sends a spool to MLflow: each record once, in order, even after kills in between."""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.model.addresses import mask_address
from dragoman.model.bundles.directory import CONFIG
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.mlflow_pages import run_page, version_page
from dragoman.model.runs.record import read
from dragoman.model.runs.spool import REGISTRATIONS, Mark, Record, Spool
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.descriptions import EXPERIMENT, NOTE, SHARDINGS, with_lines
from dragoman.pipelines.tracking.server import Verdict, connect, is_database, verdict
from dragoman.pipelines.tracking.settings import TrackingConfig

logger = logging.getLogger(__name__)

BATCH_RECORDS = 500
BATCH_METRICS = 500  # MLflow takes 1,000 and a megabyte
BATCH_TEXTS = 100  # parameters and tags
STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")
SPOOL_TAG = "dragoman.spool"
OF_SHARDS = "/shards"  # suffix of the shardings' experiment, after the name of the trainings'
SHARDING = re.compile(r"shard-.+-[0-9a-f]{12}")  # a run's name by `record_sharding`
# MLflow's pages call this "model training"; without it they guess.
EXPERIMENT_KIND = ("mlflow.experimentKind", "custom_model_development")


class Sender:
    """Sends one spool. The client is created at the first send, on the sending thread."""

    def __init__(self, spool: Spool, config: TrackingConfig, name: str) -> None:
        self.spool = spool
        self.config = config
        self.name = name
        self.experiment = experiment_of(config, name)
        self._client: Any = None
        self._mark: Mark | None = None

    def send(self) -> bool:
        """Sends records until none is left; returns False if another process is sending this spool.

        Raises Exception: the server's, if it takes no records for now. Nothing is lost: the mark has not moved.
        """
        with self.spool.sending() as mine:
            if not mine:
                return False
            if self.spool.pending() == 0 and self.spool.mark().server == mask_address(self.config.uri):
                return True
            try:
                self._send_all(self._attach())
            except Exception:
                self._mark = None  # after any trouble the run is checked again first
                raise
            return self.spool.pending() == 0

    def _send_all(self, mark: Mark) -> None:
        while records := list(islice(self.spool.records(mark.offset), BATCH_RECORDS)):
            for group in _groups(records):
                self._send_group(mark, group)
                mark = Mark(group[-1].end, mark.server, mark.run_id)
                self.spool.set_mark(mark)
                self._mark = mark

    # ------------------------------------------------------------------ the run

    def _attach(self) -> Mark:
        """Finds the run on the server: the recorded one, or one with the spool's id, or a new one."""
        server = mask_address(self.config.uri)
        if self._client is None:
            self._client = connect(self.config)
        mark = self.spool.mark()
        if mark.server == server and mark.run_id:
            if self._mark and self._mark.run_id == mark.run_id:
                return mark  # seen by this sender before
            try:
                self._client.get_run(mark.run_id)
            except Exception as problem:  # whatever MLflow raises: only "there is no such run" is handled here
                if verdict(problem) is not Verdict.GONE:
                    raise
                logger.warning("%s: the run %s is not there any more: it is sent anew", server, mark.run_id)
            else:
                self._mark = mark
                return mark
        mark = Mark(0, server, self._find() or self._create())
        self.spool.set_mark(mark)
        self._mark = mark
        return mark

    def _experiment(self) -> str:
        experiment = self._client.get_experiment_by_name(self.experiment)
        if experiment is None:
            place = self.config.artifacts if is_database(self.config.uri) else None
            try:
                tags = dict([EXPERIMENT_KIND, (NOTE, SHARDINGS if self.experiment.endswith(OF_SHARDS) else EXPERIMENT)])
                return str(self._client.create_experiment(self.experiment, place, tags))
            except Exception:  # another process was faster: now it exists; any other cause is raised below
                experiment = self._client.get_experiment_by_name(self.experiment)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise UserError(f"tracking.experiment: {self.experiment!r} was deleted in MLflow; restore or rename")
        if EXPERIMENT_KIND[0] not in experiment.tags:
            self._client.set_experiment_tag(experiment.experiment_id, *EXPERIMENT_KIND)
        return str(experiment.experiment_id)

    def _experiments(self) -> list[str]:
        """Returns the ids of the existing experiments of trainings and of shardings."""
        experiment_names = (self.config.experiment, self.config.experiment + OF_SHARDS)
        experiments = [self._client.get_experiment_by_name(name) for name in experiment_names]
        return [str(experiment.experiment_id) for experiment in experiments if experiment is not None] or [
            self._experiment()
        ]

    def _find(self) -> str | None:
        query = f"tags.`{SPOOL_TAG}` = '{self.spool.identity()}'"
        runs = self._client.search_runs(self._experiments(), query, max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def _create(self) -> str:
        first = next(iter(self.spool.records()), None)
        run = self._client.create_run(
            self._experiment(),
            start_time=first.time if first else None,
            run_name=self.name,
            tags={SPOOL_TAG: self.spool.identity()},
        )
        return str(run.info.run_id)

    # ------------------------------------------------------------------ records

    def _send_group(self, mark: Mark, group: list[Record]) -> None:
        """Sends records of one kind in one request; if that is refused, one by one."""
        try:
            self._dispatch(mark, group)
        except Exception as problem:  # MLflow raises many kinds, which `verdict` sorts
            if verdict(problem) is not Verdict.REFUSED and not isinstance(problem, UserError):
                raise
            if len(group) > 1:
                for record in group:
                    self._send_group(mark, [record])
                return
            self._check_run_is_active(mark)
            reason = str(problem).splitlines()[0][:500]
            self.spool.refuse(group[0], reason)
            logger.warning("MLflow refused a record (%s), kept in refused.jsonl: %s", group[0].kind, reason)

    def _check_run_is_active(self, mark: Mark) -> None:
        """Raises if a person has deleted the run: then it refuses everything, so the record is kept."""
        if self._client.get_run(mark.run_id).info.lifecycle_stage != "active":
            raise RuntimeError(f"the run {mark.run_id} was deleted in MLflow; restore it there and sync again")

    def _dispatch(self, mark: Mark, group: list[Record]) -> None:
        kind, run_id = group[0].kind, str(mark.run_id)
        if kind == "metrics":
            self._metrics(run_id, group)
            return
        calls = {
            "params": self._parameters,
            "tags": self._tags,
            "dataset": self._dataset,
            "artifact": self._artifact,
            "status": self._status,
            "register": self._register,
            "link": self._link,
        }
        if kind not in calls:
            raise UserError(f"a record of kind {kind!r}, written by a newer version")
        for record in group:
            calls[kind](run_id, record)

    def _metrics(self, run_id: str, group: list[Record]) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(names.metric(key), float(value), record.time, int(record.fields["step"]))
            for record in group
            for key, value in record.fields["values"].items()
        ]
        for part in _parts(metrics, BATCH_METRICS):
            self._client.log_batch(run_id, metrics=part, synchronous=True)

    def _parameters(self, run_id: str, record: Record) -> None:
        """Sends parameters, which never change in MLflow: a resumed run's new value becomes the tag `changed.KEY`."""
        from mlflow.entities import Param

        logged = self._client.get_run(run_id).data.params
        new, changed = [], {}
        for key, value in record.fields["values"].items():
            text = names.cut(str(value), names.PARAMETER_LENGTH)
            if key not in logged:
                new.append(Param(key, text))
            elif logged[key] != text:
                changed[f"changed.{key}"] = text
        for part in _parts(new, BATCH_TEXTS):
            self._client.log_batch(run_id, params=part, synchronous=True)
        if changed:
            self._set_tags(run_id, changed)

    def _tags(self, run_id: str, record: Record) -> None:
        values = dict(record.fields["values"])
        note = values.pop(NOTE, None)
        self._set_tags(run_id, values)
        if note:
            self._describe(run_id, note)

    def _set_tags(self, run_id: str, values: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        tags = [RunTag(names.key(key), names.cut(str(value), names.TAG_LENGTH)) for key, value in values.items()]
        for part in _parts(tags, BATCH_TEXTS):
            self._client.log_batch(run_id, tags=part, synchronous=True)

    def _dataset(self, run_id: str, record: Record) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        fields = record.fields
        dataset = Dataset(
            name=fields["name"],
            digest=fields["digest"][:36],  # MLflow's limit; the whole hash is in the source
            source_type="dragoman-shards",
            source=json.dumps(fields["source"], ensure_ascii=False),
            profile=json.dumps(fields["profile"], ensure_ascii=False) if fields.get("profile") else None,
        )
        tags = [InputTag("mlflow.data.context", fields.get("context") or "training")]
        inputs = [DatasetInput(dataset, tags)]
        try:
            self._client.log_inputs(run_id, inputs)
        except Exception as problem:  # MLflow raises many kinds, which `verdict` sorts
            if verdict(problem) is not Verdict.REFUSED:
                raise
            # Runs that begin at once on the same shards enter them at once, and the database keeps the first, which is
            # found now. A refusal for another reason is repeated.
            self._client.log_inputs(run_id, inputs)

    def _artifact(self, run_id: str, record: Record) -> None:
        path = self.spool.run_dir / record.fields["path"]
        to = record.fields.get("to") or None
        if path.is_dir():
            self._client.log_artifacts(run_id, str(path), to)
        elif path.exists():
            self._client.log_artifact(run_id, str(path), to)
        else:
            raise UserError(f"the file {path} was gone before it could be sent")
        if record.fields.get("table"):
            self._announce_table(run_id, record.fields["table"])

    def _announce_table(self, run_id: str, name: str) -> None:
        """Sets the tag by which MLflow's pages find tables."""
        entry = {"path": name, "type": "table"}
        tables = json.loads(self._client.get_run(run_id).data.tags.get("mlflow.loggedArtifacts", "[]"))
        if entry not in tables:
            self._client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([*tables, entry]), synchronous=True)

    def _status(self, run_id: str, record: Record) -> None:
        status = record.fields["status"]
        if status == "RUNNING":
            self._client.update_run(run_id, status="RUNNING")
        elif status in STATUSES:
            self._client.set_terminated(run_id, status=status, end_time=record.time)

    def _link(self, run_id: str, record: Record) -> None:
        """Tags the run with the one it was made from, and that one with this run."""
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in record.fields["where"].items())
        runs = self._client.search_runs(self._experiments(), query, max_results=1)
        if not runs:
            logger.info("no run on the server has %s; the tags of this run name it all the same", query)
            return
        origin = str(runs[0].info.run_id)
        self._set_tags(run_id, {record.fields["tag"]: origin})
        self._set_tags(origin, {f"used_by.{self.name}": run_id})
        made = run_page(runs[0].info.experiment_id, origin)
        self._describe(run_id, f"**Shards** [the run that made them]({made})")

    def _register(self, run_id: str, record: Record) -> None:
        from dragoman.pipelines.tracking.version import create_version  # imports much of MLflow, so only when needed

        fields = record.fields
        bundle = self.spool.run_dir / fields["bundle"]
        if not (bundle / CONFIG).exists():
            raise UserError(f"the bundle {bundle} was gone before it could be registered")
        owners = {key: str(fields.get(key) or "") for key in ("owner", "expected")}
        version = create_version(self._client, run_id, bundle, fields["name"], dict(fields["tags"]), **owners)
        path = self.spool.folder / REGISTRATIONS
        registered = read(path) or {}
        atomic_write(path, json.dumps(registered | {fields["key"]: {"name": fields["name"], "version": version}}))
        logger.info("registered %s version %s", fields["name"], version)
        name = fields["name"]
        self._describe(run_id, f"**Model** [{name} version {version}]({version_page(name, version)})")

    def _describe(self, run_id: str, lines: str) -> None:
        """Adds lines to the run's description; a person's words in it stay."""
        description = self._client.get_run(run_id).data.tags.get(NOTE, "")
        if (text := with_lines(description, lines)) != description:
            self._set_tags(run_id, {NOTE: text})


def experiment_of(config: TrackingConfig, name: str) -> str:
    """Returns the experiment of the run `name`; shardings have one of their own beside the trainings'."""
    return config.experiment + (OF_SHARDS if SHARDING.fullmatch(name) else "")


def _groups(records: Iterable[Record]) -> Iterable[list[Record]]:
    """Yields consecutive metrics together, and every other record separately."""
    group: list[Record] = []
    size = 0
    for record in records:
        count = max(1, len(record.fields["values"])) if record.kind == "metrics" else BATCH_METRICS
        if group and size + count > BATCH_METRICS:
            yield group
            group, size = [], 0
        group.append(record)
        size += count
    if group:
        yield group


def _parts(entries: list[Any], size: int) -> Iterable[list[Any]]:
    return (entries[start : start + size] for start in range(0, len(entries), size))


def find_registration(run_dir: Path, key: str) -> dict[str, str] | None:
    """Returns name and version of a bundle that was registered from this run; None until it was."""
    return (read(Spool(run_dir).folder / REGISTRATIONS) or {}).get(key)
