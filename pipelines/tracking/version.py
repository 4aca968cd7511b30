"""Registers one bundle directory as one version of a registered model."""

import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dragoman.model.bundles.ancestry import ancestry, ancestry_lines
from dragoman.model.bundles.directory import CONFIG, bundle_hash
from dragoman.model.inference.kinds import KINDS
from dragoman.model.mlflow_pages import run_page
from dragoman.model.model_owner import OWNER_TAG, check_model_owner
from dragoman.model.untrusted import read_json
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.cards import BUNDLE_TAG, CARDS, KIND_TAG, Card
from dragoman.pipelines.tracking.descriptions import JOB_TAG, PAGE_TAG, job_line, without_markup
from dragoman.pipelines.tracking.server import Verdict, verdict


def parameters(config: Mapping[str, Any]) -> Any:
    """Returns MLflow's `ParamSchema` for a bundle with this `config.json`; None if it has no settings."""
    from mlflow.types import DataType, ParamSchema, ParamSpec

    types = {int: DataType.long, float: DataType.double}
    kind = KINDS.get(str(config.get("kind", "translation")))
    values = kind.settings(config) if kind else {}
    return (
        ParamSchema([ParamSpec(name, types[type(value)], value) for name, value in values.items()]) if values else None
    )


HASH_SHOWN = 12  # characters
USER, AUTHOR_TAG = "mlflow.user", "author"  # tags of a run, of a version
MODEL_PACKAGE = Path(__file__).resolve().parents[2] / "model"  # without links, in a checkout too
# Tags of the run that are copied to a version.
INHERITED = ("manifest_hash", "config_hash", "git_commit", "shard_run_id", JOB_TAG, PAGE_TAG)


def create_version(
    client: Any, run_id: str, bundle: Path, name: str, tags: Mapping[str, str], owner: str = "", expected: str = ""
) -> str:
    """Registers `bundle` as a new version of `name` under the run; returns the version's number, as text.

    The same bundle of the same run is registered once: repeated, it returns the existing version. So this may be
    retried after a kill at any point.

    Args:
        owner: the owner of a new registered model.
        expected: the required owner of an existing one; empty: any.
    """
    digest = bundle_hash(bundle)
    model_tags = ensure_model(client, name, owner)
    if expected:
        check_model_owner(name, model_tags.get(OWNER_TAG, ""), expected)
    for existing in client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'"):
        if existing.tags.get(BUNDLE_TAG) == digest:
            return str(existing.version)
    config = read_json(bundle / CONFIG) or {}
    run = client.get_run(run_id)
    of_run = {key: value for key, value in run.data.tags.items() if key in INHERITED}
    author = {AUTHOR_TAG: run.data.tags[USER]} if USER in run.data.tags else {}
    every_tag = {BUNDLE_TAG: digest, **of_run, **author, **facts(config), **tags}
    model = _logged_model(client, run_id, bundle, name, every_tag)
    sharding = client.get_run(of_run["shard_run_id"]) if "shard_run_id" in of_run else run
    made = client.create_model_version(
        name,
        source=f"models:/{model.model_id}",
        run_id=run_id,
        tags=every_tag,
        description=describe(run.info.experiment_id, run_id, every_tag, sharding.info.experiment_id),
        model_id=model.model_id,
    )
    return str(made.version)


def ensure_model(client: Any, name: str, owner: str = "") -> dict[str, str]:
    """Creates the registered model `name` as `owner`'s if it does not exist; returns its tags."""
    from mlflow.exceptions import MlflowException

    try:
        return dict(client.get_registered_model(name).tags)
    except MlflowException as problem:
        if verdict(problem) is not Verdict.GONE:
            raise
        try:
            made = client.create_registered_model(
                name,
                tags={OWNER_TAG: owner} if owner else None,
                description="Versions made by `dragoman train`. The alias `champion` is served; it moves by "
                "`dragoman promote` and `dragoman rollback`.",
            )
            return dict(made.tags)
        except MlflowException as late:
            if late.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            return dict(client.get_registered_model(name).tags)


def kind_of(config: Mapping[str, Any]) -> str:
    """Returns the kind of a bundle's `config.json`; that of translations does not state it."""
    return str(config.get("kind", "translation"))


def facts(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns the facts in a bundle's `config.json` as tags."""
    run = config.get("run") or {}
    kind = kind_of(config)
    plain = {
        KIND_TAG: kind,
        "pair": config.get("pair"),
        "architecture": config.get("architecture"),
        "manifest_hash": config.get("manifest_hash"),
        "config_hash": config.get("config_hash"),
        "run_name": run.get("name"),
        "format_version": config.get("format_version"),
        "bundle_bytes": sum(entry["bytes"] for entry in (config.get("files") or {}).values()) or None,
        **CARDS[kind].tags(config),
        **ancestry(config),
    }
    return {key: names.cut(str(value), names.TAG_LENGTH) for key, value in plain.items() if value is not None}


def describe(experiment: str, run_id: str, tags: Mapping[str, str], of_shards: str) -> str:
    """Returns the version's description: scores first, because lists show the beginning; then links to its run, its
    job, its configuration, its shards (whose run is in the experiment `of_shards`) and their sources.

    Links are relative to MLflow's page, so they hold at any address. Hashes are shortened: the tags have them whole.
    """

    def short(tag: str) -> str:
        return tags.get(tag, "unknown")[:HASH_SHOWN]

    job, run = job_line(tags), run_page(experiment, run_id)
    tags = {key: without_markup(value) for key, value in tags.items()}  # a bundle may come from anybody
    shards = f"**Shards** manifest `{short('manifest_hash')}`: "
    if "shard_run_id" in tags:
        made, folder = tags["shard_run_id"], "artifacts/shards"
        shards += (
            f"[the run that made them]({run_page(of_shards, made)}), "
            f"[their sources]({run_page(of_shards, made, f'{folder}/sources.json')}), "
            f"[their manifest]({run_page(of_shards, made, f'{folder}/manifest.json')})"
        )
    else:
        shards += "recorded elsewhere, by a run with the same tag `manifest_hash` and `kind` = `shard`"
    lines = [
        *CARDS[tags.get(KIND_TAG, "translation")].lines(tags),
        *(["**Comes from** " + "; ".join(begun)] if (begun := list(ancestry_lines(tags))) else []),
        f"**Run** [{tags.get('run_name') or run_id}]({run}): metrics, curves, samples",
        *([f"**Author** {tags[AUTHOR_TAG]}"] if AUTHOR_TAG in tags else []),
        *job,
        f"**Configuration** [config.yaml]({run_page(experiment, run_id, 'artifacts/config.yaml')}), "
        f"hash `{short('config_hash')}`",
        shards,
        f"**Bundle** `{short(BUNDLE_TAG)}`",
    ]
    return "\n\n".join(lines)


def requirements(card: Card) -> list[str]:
    """Returns the requirements of the stored model, in this process's versions. Inferring them would run processes."""
    lines = []
    for package in card.requirements:
        try:
            lines.append(f"{package}=={version(package).partition('+')[0]}")
        except PackageNotFoundError:
            continue
    return lines


def _logged_model(client: Any, run_id: str, bundle: Path, name: str, tags: Mapping[str, str]) -> Any:
    """Returns MLflow's record of the model in the run, with its files uploaded."""
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus
    from mlflow.models import Model, ModelSignature
    from mlflow.pyfunc import save_model
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array

    config = read_json(bundle / CONFIG) or {}
    card = CARDS[kind_of(config)]
    run = client.get_run(run_id)
    model = client.create_logged_model(
        run.info.experiment_id,
        name=re.sub(r"[/:.%\"']", "-", name),  # what MLflow forbids here
        source_run_id=run_id,
        tags=dict(tags),
        model_type=card.type,
    )
    with tempfile.TemporaryDirectory() as folder:
        target, code = Path(folder) / "model", Path(folder) / "dragoman"
        shutil.copytree(MODEL_PACKAGE, code / "model", ignore=shutil.ignore_patterns("__pycache__"))
        (code / "__init__.py").write_text('"""What a stored model needs of Dragoman."""\n', encoding="utf-8")
        save_model(
            path=str(target),
            mlflow_model=Model(
                artifact_path=model.artifact_location, model_uuid=model.model_id, run_id=run_id, model_id=model.model_id
            ),
            python_model=str(Path(__file__).with_name("pyfunc.py")),
            artifacts={"bundle": str(bundle)},
            code_paths=[str(code)],
            pip_requirements=requirements(card),
            metadata={key: tags[key] for key in ("pair", "manifest_hash", "config_hash") if key in tags},
        )
        # MLflow reads the inputs from the type hint of `predict`, and the settings only from a test run.
        saved = Model.load(target)
        answer: Any = Array(DataType.double) if card.vectors else DataType.string
        saved.signature = ModelSignature(saved.signature.inputs, Schema([ColSpec(answer)]), parameters(config))
        saved.save(str(target / "MLmodel"))
        client.log_model_artifacts(model.model_id, str(target))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return model
