"""The section `service`: how `dragoman up` runs the job service."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from model.ranges import Amount, Count, Interval, Port, Positive, Range, Whole, check_ranges
from services.jobs.kueue_settings import KueueConfig
from services.telemetry.traceparent import check_address


@dataclass
class FairShareConfig:
    """The section `service.fair_share`: turns of owners who want more than there is."""

    half_life: Amount = 86_400.0  # seconds after which what was used counts half; 0: priority and age alone
    weights: dict[str, Positive] = field(default_factory=dict)  # owner: parts of the cluster; others have 1


@dataclass
class ServiceConfig:
    """Where it listens, where it remembers, what it runs jobs on. Times in seconds."""

    host: str = "127.0.0.1"  # on another one tokens are asked for
    port: Port = 8300  # 0: a free one
    ledger: str = "sqlite:///artifacts/service/ledger.db"  # or postgresql://USER@HOST/NAME
    ledger_password: str | None = None  # a file with the password of the ledger's database
    tokens: dict[str, str] = field(default_factory=dict)  # role: FILE with a token that lets in from the start
    executor: Literal["ray", "kueue"] = "ray"
    kueue: KueueConfig = field(default_factory=KueueConfig)
    address: str | None = None  # of a standing Ray head's dashboard, http://HOST:8265; null: one is started here
    cpus: Whole = 0  # of the Ray that is started here; 0: the cores of this machine
    roots: list[str] = field(default_factory=list)  # folders that jobs may read beside paths.root
    environment: dict[str, str] = field(default_factory=dict)  # variables of every job
    url: str | None = None  # of the pages, as others reach them; null: where it listens
    tracking_url: str | None = None  # of MLflow's pages; null: of the one that is started here
    endpoint_url: str | None = None  # of the endpoint that model cards ask; null: of the one that is started here
    tracking: bool = True  # start MLflow here
    endpoint: bool = True  # start the endpoint here
    ports: Port = 8310  # MLflow, the endpoint and Ray's dashboard take this one and the next two; 0: free ones
    tick: Annotated[float, Range(0.01)] = 1.0  # between two looks at what runs
    drivers: Count = 20  # jobs that are active at once
    losses: Whole = 5  # attempts that may vanish before a job is given up
    stop_timeout: Annotated[float, Range(1)] = 120.0  # for a job's checkpoint before it is killed
    preempt_after: Amount = 120.0  # that a job runs from its first step on before it makes room for a higher priority
    patience: Amount = 86_400.0  # a job that has waited for so long goes first, one at a time; 0: never
    fair_share: FairShareConfig = field(default_factory=FairShareConfig)
    rate: Annotated[float, Range(0.1)] = 50.0  # requests a second of one person, after the first `burst`
    burst: Count = 200
    waiting: Count = 20_000  # jobs of one owner that have not ended
    body: Annotated[int, Range(1024)] = 262_144  # bytes of a request
    connections: Count = 1024  # at once; where there are so many, the one that has waited longest makes room
    receive_timeout: Interval = 15.0  # for a request's header to come
    traces: str | None = None  # an OpenTelemetry collector (OTLP over HTTP), http://HOST:4318; null: none

    def check(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            UserError: names the key and the value.
        """
        self.kueue.check()
        if self.traces is not None:
            check_address(self.traces)
        check_ranges("service", self)
