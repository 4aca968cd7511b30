"""The section `backup`: what is copied, and where a restore puts it."""

from dataclasses import dataclass, field

from dragoman.model.ranges import Amount


@dataclass
class BackupConfig:
    """The places of a service's files and databases."""

    home: str = "artifacts"
    leave: list[str] = field(default_factory=list)  # folders of the home that are fetched again when needed
    ledger: str = "sqlite:///artifacts/service/ledger.db"  # of the job service
    ledger_password: str | None = None  # a file with the password of the ledger's database
    endpoint: str = "sqlite:///artifacts/endpoint/endpoint.db"  # of `dragoman serve`
    endpoint_password: str | None = None
    mlflow: str = "sqlite:///artifacts/mlflow/mlflow.db"  # MLflow's own database
    mlflow_password: str | None = None
    buckets: list[str] = field(default_factory=list)  # addresses whose objects are copied too
    patience: Amount = 120.0  # seconds that a request to an address may fail
