"""The pages' requests to MLflow, over its REST interface: models, versions, runs. Loads nothing of MLflow."""

import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from dragoman.model import mlflow_pages
from dragoman.model.addresses import mask_address, mlflow_login
from dragoman.model.errors import ServiceError

PATIENCE = 5.0  # seconds
AGAIN = 30.0  # seconds before MLflow is asked again for a run that it did not know
MOST = 200  # models or versions on a page
OWNER_TAG = "dragoman.owner"  # tag of a registered model
HISTORY = "history/"  # prefix of a registered model's tags with its alias' history
DRAWN = {"test": 0, "gate": 1, "valid": 2}  # splits in display order


@dataclass(frozen=True)
class Score:
    """One measured value of a version, and how it was measured."""

    split: str
    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class Version:
    """A registered version."""

    model: str
    number: str
    run: str
    created: float
    aliases: tuple[str, ...]
    tags: dict[str, str]
    status: str
    scores: tuple[Score, ...] = ()

    def score(self) -> Score | None:
        """Returns the score that lists show."""
        return self.scores[0] if self.scores else None


@dataclass(frozen=True)
class Move:
    """An event of the promotion history."""

    action: str
    to: str
    before: str
    reason: str
    by: str
    time: str  # ISO 8601, UTC

    @property
    def at(self) -> float | None:
        """Returns seconds since 1970; None if `time` cannot be read."""
        try:
            return datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            return None


@dataclass(frozen=True)
class Model:
    """A registered model with its versions, newest first."""

    name: str
    aliases: dict[str, str]
    moves: list[Move] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    owner: str = ""

    @property
    def earlier(self) -> bool:
        """Returns True if another version was champion before the one that is."""
        champion = self.aliases.get("champion")
        return any(move.action != "refused" and (move.before or move.to != champion) for move in self.moves)


SCORES = {  # tag after the split -> its label
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "bits_per_character": "bits per character",
    "nats": "nats per token",
    "perplexity": "perplexity",
    "accuracy": "accuracy",
}


class Tracking:
    """MLflow at `address`; its pages are at `pages`. An empty address means none."""

    def __init__(self, address: str, pages: str) -> None:
        self.address, self.pages = address.rstrip("/"), (pages or address).rstrip("/")
        self._runs: dict[str, tuple[str, float]] = {}  # run -> its experiment, when to ask again

    def models(self) -> list[Model]:
        """Returns all registered models, without their versions."""
        models = self._get("registered-models/search", max_results=MOST).get("registered_models", [])
        return [_model(row, [_version(version) for version in row.get("latest_versions", [])]) for row in models]

    def model(self, name: str) -> Model | None:
        """Returns a model with its versions; None if there is none of that name."""
        row = self._get("registered-models/get", name=name).get("registered_model")
        if row is None:
            return None
        query = "name='" + name.replace("'", "''") + "'"
        rows = self._get("model-versions/search", filter=query, max_results=MOST).get("model_versions", [])
        aliases = _aliases(row)
        versions = [
            _version(version, tuple(key for key, to in aliases.items() if to == version["version"])) for version in rows
        ]
        return _model(row, sorted(versions, key=lambda version: -int(version.number)))

    def versions_with(self, tag: str, value: str, most: int) -> list[Version]:
        """Returns the newest versions of all models whose tag has this value. Raises ServiceError as `models` does."""
        query = f"tags.`{tag}` = '" + value.replace("'", "''") + "'"
        query_values = {"filter": query, "max_results": most, "order_by": "creation_timestamp DESC"}
        return [
            _version(version)
            for version in self._get("model-versions/search", **query_values).get("model_versions", [])
        ]

    @property
    def home(self) -> str:
        """Returns the address of MLflow's first page; empty without MLflow."""
        return f"{self.pages}/{mlflow_pages.HOME}" if self.pages else ""

    def run_page(self, run_id: str, part: str = "") -> str:
        """Returns the address of a run's page, or of a part such as `artifacts`; empty without MLflow."""
        if not self.pages or not run_id:
            return ""
        experiment = self._experiment_of(run_id)
        return f"{self.pages}/{mlflow_pages.run_page(experiment, run_id, part)}" if experiment else ""

    def _experiment_of(self, run_id: str) -> str:
        """Returns the experiment of a run; MLflow is asked once, or again after a while."""
        experiment, until = self._runs.get(run_id, ("", 0.0))
        if not experiment and time.monotonic() > until:
            try:
                run = self._get("runs/get", run_id=run_id).get("run") or {}
            except ServiceError:
                run = {}
            experiment = str((run.get("info") or {}).get("experiment_id") or "")
            self._runs[run_id] = experiment, time.monotonic() + AGAIN
        return experiment

    def version_page(self, name: str, number: str) -> str:
        return f"{self.pages}/{mlflow_pages.version_page(name, number)}" if self.pages else ""

    def artifacts(self, run_id: str, folder: str = "") -> set[str]:
        """Returns the paths of a run's artifacts in a folder. Raises ServiceError as `models` does."""
        query_values = {"run_id": run_id, **({"path": folder} if folder else {})}
        return {str(file.get("path")) for file in self._get("artifacts/list", **query_values).get("files", [])}

    def artifact(self, run_id: str, path: str, most: int) -> bytes | None:
        """Returns the content of a run's artifact; None if there is none, or it has more than `most` bytes."""
        content = b""
        try:
            with httpx.stream(
                "GET", f"{self.address}/get-artifact", params={"run_id": run_id, "path": path}, **self._login()
            ) as answer:
                if answer.is_error:
                    return None
                for block in answer.iter_bytes():
                    content += block
                    if len(content) > most:
                        return None
        except httpx.HTTPError as problem:
            raise ServiceError(f"MLflow at {mask_address(self.address)} does not answer ({problem})") from None
        return content

    def set_model_tag(self, name: str, key: str, value: str) -> None:
        self._ask("POST", "registered-models/set-tag", json={"name": name, "key": key, "value": value})

    def _get(self, path: str, /, **params: Any) -> dict[str, Any]:
        return self._ask("GET", path, params=params)

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Returns MLflow's answer; empty if the object does not exist."""
        if not self.address:
            raise ServiceError("no MLflow server belongs to this service (service.tracking=false)")
        try:
            where = f"{self.address}/api/2.0/mlflow/{path}"
            answer = httpx.request(method, where, **self._login(), **more)
            content = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as problem:
            raise ServiceError(f"MLflow at {mask_address(self.address)} does not answer ({problem})") from None
        if answer.status_code == 404 or content.get("error_code") == "RESOURCE_DOES_NOT_EXIST":
            return {}
        if answer.is_error:
            raise ServiceError(
                f"MLflow at {mask_address(self.address)}: {answer.status_code} {content.get('message', '')}"
            )
        return dict(content)

    def _login(self) -> dict[str, Any]:
        """Returns how every request is made: the patience, and the service's login."""
        login = mlflow_login()
        if "username" in login and "password" in login:
            return {"timeout": PATIENCE, "auth": (login["username"], login["password"])}
        if "token" in login:
            return {"timeout": PATIENCE, "headers": {"Authorization": f"Bearer {login['token']}"}}
        return {"timeout": PATIENCE}


def _aliases(row: dict[str, Any]) -> dict[str, str]:
    return {alias["alias"]: str(alias["version"]) for alias in row.get("aliases", [])}


def _tags(row: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: str(tag.get("value", "")) for tag in row.get("tags", [])}


def _model(row: dict[str, Any], versions: list[Version]) -> Model:
    tags = _tags(row)
    moves = [_move(tags[key]) for key in sorted(tags, reverse=True) if key.startswith(HISTORY)]
    return Model(
        row["name"], _aliases(row), [move for move in moves if move is not None], versions, tags.get(OWNER_TAG, "")
    )


def _move(text: str) -> Move | None:
    try:
        values = json.loads(text)
        return Move(*(str(values.get(key) or "") for key in ("action", "to", "before", "reason", "by", "time")))
    except (ValueError, AttributeError):
        return None


def _version(row: dict[str, Any], aliases: tuple[str, ...] = ()) -> Version:
    tags = _tags(row)
    return Version(
        model=row["name"],
        number=str(row["version"]),
        run=row.get("run_id", ""),
        aliases=aliases,
        created=row.get("creation_timestamp", 0) / 1000,
        tags=tags,
        status=row.get("status", ""),
        scores=tuple(sorted(_scores(tags), key=lambda score: (DRAWN.get(score.split, 9), score.split))),
    )


def _scores(tags: dict[str, str]) -> list[Score]:
    scores = []
    for key, value in tags.items():
        split, _, name = key.partition("_")
        label = SCORES.get(name) or (key if key.startswith(("similarity/", "analogies/")) else None)
        try:
            number = float(value)
        except ValueError:
            continue
        if label:
            signature = tags.get(f"{split}_signature", "") if name == "bleu" else ""
            scores.append(Score(split if name in SCORES else "", label, number, signature))
    return scores
