"""A small home: a ledger with jobs and tokens, files of runs, a database of MLflow's kind, keys of the endpoint."""

import sqlite3
from pathlib import Path

from dragoman.services.backup.settings import BackupConfig
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.states import State


def config_of(home: Path, **more: object) -> BackupConfig:
    values: dict[str, object] = {
        "home": str(home),
        "leave": [str(home / "cache")],
        "ledger": f"sqlite:///{home}/service/ledger.db",
        "endpoint": f"sqlite:///{home}/endpoint/endpoint.db",
        "mlflow": f"sqlite:///{home}/mlflow/mlflow.db",
    }
    return BackupConfig(**{**values, **more})  # type: ignore[arg-type]


def fill_ledger(url: str, home: Path) -> list[str]:
    """Enters two jobs, one of them planned, and a token; returns the jobs' ids."""
    database = Database(url)
    ledger = Ledger(database)
    first = ledger.submit("anna", "train", ["name=a"], tags=["x"])
    plan = {"run_dir": f"{home}/runs/a", "places": [{"path": f"{home}/runs/a", "use": "write"}]}
    ledger.change(first, State.PLANNED, "planner", "planned", plan=plan, run="run a")
    second = ledger.submit("ben", "doctor", [])
    Access(ledger).issue("root", "root", "admin", "up")
    database.close()
    return [first.id, second.id]


def make_home(home: Path) -> list[str]:
    """Fills the folder; returns the ids of its jobs."""
    for name, text in {
        "runs/a/run.json": "{}",
        "runs/a/steps.jsonl": '{"step": 1}\n' * 1000,
        "shards/s/manifest.json": "[1]",
        "service/ray_token": "secret",
        "service/address.json": "{}",
        "cache/models/big": "fetched again",
        "jobs/j1/a1.log": "said",
        "mlflow/artifacts/1/model": "weights",
    }.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "service" / "ray_token").chmod(0o600)
    (home / "runs" / "link").symlink_to(home / "shards")
    mlflow = sqlite3.connect(home / "mlflow" / "mlflow.db")
    with mlflow:
        mlflow.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        mlflow.execute("INSERT INTO runs VALUES ('1', ?)", (f"{home}/mlflow/artifacts/1",))
    mlflow.close()
    keys = KeyStore(f"sqlite:///{home}/endpoint/endpoint.db")
    keys.add("anna")
    keys.close()
    return fill_ledger(f"sqlite:///{home}/service/ledger.db", home)


def contents(home: Path) -> dict[str, bytes]:
    """Returns name -> content of the files that are no databases."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.is_symlink() and not path.name.partition("-")[0].endswith(".db")
    }
