"""The section `service`: the settings of `dragoman up`'s job service."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from dragoman.model.ranges import Amount, Count, Interval, Port, Positive, Range, Whole, check_ranges
from dragoman.services.http.proxies import networks
from dragoman.services.jobs.idle_settings import IdleConfig
from dragoman.services.jobs.keep_settings import KeepConfig
from dragoman.services.jobs.kueue_settings import KueueConfig
from dragoman.services.jobs.notify_settings import NotifyConfig
from dragoman.services.jobs.proxy_settings import ProxyConfig
from dragoman.services.telemetry.traceparent import check_address


@dataclass
class FairShareConfig:
    """The section `service.fair_share`: the order of owners who want more than there is."""

    half_life: Amount = 86_400.0  # seconds after which past use counts half; 0: only priority and age count
    weights: dict[str, Positive] = field(default_factory=dict)  # owner: parts of the cluster; others have 1


@dataclass
class ServiceConfig:
    """Addresses, storage and executors of the job service. Times are in seconds."""

    host: str = "127.0.0.1"  # any other host needs tokens
    proxies: list[str] = field(default_factory=list)  # addresses and networks whose X-Forwarded-For says who asks
    port: Port = 8300  # 0: a free one
    ledger: str = "sqlite:///artifacts/service/ledger.db"  # or postgresql://USER@HOST/NAME
    ledger_password: str | None = None  # a file with the database's password
    tokens: dict[str, str] = field(default_factory=dict)  # role: FILE with a token that is valid from the start
    executor: Literal["ray", "kueue"] = "ray"
    kueue: KueueConfig = field(default_factory=KueueConfig)
    address: str | None = None  # dashboard of an existing Ray head, http://HOST:8265; null: start one here
    auth: Literal["token", "disabled"] = "token"  # as that cluster was started
    token_file: str | None = None  # its token; null: the variable RAY_AUTH_TOKEN, else Ray's own file
    python: str = "python"  # the interpreter on its nodes
    cpus: Whole = 0  # of the Ray started here; 0: the cores of this machine
    roots: list[str] = field(default_factory=list)  # folders that jobs may read beside paths.root
    environment: dict[str, str] = field(default_factory=dict)  # variables of every job
    url: str | None = None  # public address of the pages; null: where the service listens
    tracking_url: str | None = None  # of MLflow's pages; null: those of the MLflow started here
    endpoint_url: str | None = None  # of the endpoint that pages ask; null: the endpoint started here
    tracking: bool = True  # start MLflow here
    endpoint: bool = True  # start the endpoint here
    ports: Port = 8310  # MLflow, the endpoint and Ray's dashboard take this one and the next two; 0: free ones
    tick: Annotated[float, Range(0.01)] = 1.0  # between two checks of running jobs
    drivers: Count = 20  # most active jobs
    losses: Whole = 5  # lost attempts before a job is given up
    stop_timeout: Annotated[float, Range(1)] = 120.0  # for a job's checkpoint before it is killed
    preempt_after: Amount = 120.0  # time that a job runs from its first step before it yields to a higher priority
    patience: Amount = 86_400.0  # a job that has waited this long goes first, one at a time; 0: never
    fair_share: FairShareConfig = field(default_factory=FairShareConfig)
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    idle: IdleConfig = field(default_factory=IdleConfig)
    keep: KeepConfig = field(default_factory=KeepConfig)
    proxy: ProxyConfig = field(default_factory=ProxyConfig)
    rate: Annotated[float, Range(0.1)] = 50.0  # requests per second of one user, after the first `burst`
    burst: Count = 200
    waiting: Count = 20_000  # most unfinished jobs of one owner
    body: Annotated[int, Range(1024)] = 262_144  # bytes of a request
    connections: Count = 1024  # at once; when all are in use, the one that has waited longest is closed
    receive_timeout: Interval = 15.0  # for a request's header to arrive
    traces: str | None = None  # an OpenTelemetry collector (OTLP over HTTP), http://HOST:4318; null: none

    def check(self) -> None:
        """Refuses invalid numbers.

        Raises:
            UserError: names the key and the value.
        """
        networks("service.proxies", self.proxies)
        self.kueue.check()
        self.proxy.check()
        if self.traces is not None:
            check_address(self.traces)
        check_ranges("service", self)
