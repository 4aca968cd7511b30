"""The sections `service` of `dragoman up` and `jobs` of the commands that talk to it."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.model.ranges import Amount, Count, Interval, Port, Positive, Range, Whole, check_ranges
from dragoman.services.http.addresses import check_addresses, check_url


@dataclass
class WebhookConfig:
    """The operator's webhook, which is told what becomes of all jobs."""

    url: str | None = None  # null: nobody is told
    secret: str | None = None  # a file with the key that signs: whsec_ and base64
    timeout: Annotated[float, Range(0.1, 120)] = 10.0  # seconds for one delivery, from the connection to the answer
    stuck: Interval = 14_400.0  # seconds of waiting in the queue

    def check(self) -> None:
        """Refuses impossible values."""
        if self.url is None:
            return
        check_url("service.webhook.url", self.url)
        if self.secret is None:
            raise UserError("service.webhook.secret: is missing; name a file with the key that signs")


ROLES = ("viewer", "submitter", "admin")
ANYBODY = "*"


@dataclass
class ProxyConfig:
    """The headers of the proxy, and how they become an owner with a role."""

    header: str | None = None  # with the person's name, X-Forwarded-Preferred-Username; null: nobody comes by a proxy
    secret: str | None = None  # a file; the proxy sends its content with each request
    secret_header: str = "X-Dragoman-Proxy-Secret"
    groups_header: str = "X-Forwarded-Groups"  # names with commas between
    domain: str | None = None  # of names like anna@DOMAIN: it is left out, and others are refused
    roles: dict[str, list[str]] = field(default_factory=dict)  # role: groups that have it; "*": everybody
    teams: list[str] = field(default_factory=list)  # groups that own jobs, shards, runs and models as a person does

    def check(self) -> None:
        """Refuses impossible values."""
        if self.header is None:
            return
        if self.secret is None:
            raise UserError("service.proxy.secret: is missing; without it anybody could send the header")
        for role in self.roles:
            if role not in ROLES:
                raise unknown("service.proxy.roles", role, ROLES)
        if not any(self.roles.values()):
            raise UserError(
                "service.proxy.roles: nobody would be let in; say who is: '+service.proxy.roles.submitter=[GROUP]'"
            )
        for team in self.teams:
            check_name("service.proxy.teams", team)


@dataclass
class FairShareConfig:
    """The section `service.fair_share`: the order of owners who want more than there is."""

    half_life: Amount = 86_400.0  # seconds after which past use counts half; 0: only what is held now counts
    weights: dict[str, Positive] = field(default_factory=dict)  # owner: parts of the cluster; others have 1


@dataclass
class ServiceConfig:
    """Addresses, storage and limits of the job service. Times are in seconds."""

    host: str = "127.0.0.1"  # any other host needs tokens
    proxies: list[str] = field(default_factory=list)  # addresses and networks whose X-Forwarded-For says who asks
    port: Port = 8300  # 0: a free one
    ledger: str = "sqlite:///artifacts/service/ledger.db"  # or postgresql://USER@HOST/NAME
    ledger_password: str | None = None  # a file with the database's password
    tokens: dict[str, str] = field(default_factory=dict)  # role: FILE with a token that is valid from the start
    address: str | None = None  # dashboard of an existing Ray head, http://HOST:8265; null: start one here
    auth: Literal["token", "disabled"] = "token"  # as that cluster was started
    token_file: str | None = None  # its token; null: the variable RAY_AUTH_TOKEN, else Ray's own file
    python: str = "python"  # the interpreter on its nodes
    cpus: Whole = 0  # of the Ray started here; 0: the cores of this machine
    roots: list[str] = field(default_factory=list)  # folders that jobs may read beside paths.root
    environment: dict[str, str] = field(default_factory=dict)  # variables of every job
    url: str | None = None  # public address of the pages; null: where the service listens
    tracking_url: str | None = None  # of MLflow's pages; null: those of the MLflow started here
    tracking: bool = True  # start MLflow here
    endpoint: bool = True  # start the endpoint here
    ports: Port = 8310  # MLflow, the endpoint and Ray's dashboard take this one and the next two; 0: free ones
    tick: Annotated[float, Range(0.01)] = 1.0  # between two checks of running jobs
    rest: Amount = 600.0  # time without a job after which the Ray started here ends until the next; 0: never
    drivers: Count = 20  # most active jobs
    losses: Whole = 5  # lost attempts before a job is given up
    stop_timeout: Annotated[float, Range(1)] = 120.0  # for a job's checkpoint before it is killed
    preempt_after: Amount = 120.0  # time that a job runs from its first step before it yields to a higher priority
    fair_share: FairShareConfig = field(default_factory=FairShareConfig)
    webhook: WebhookConfig = field(default_factory=WebhookConfig)
    proxy: ProxyConfig = field(default_factory=ProxyConfig)
    rate: Annotated[float, Range(0.1)] = 50.0  # requests per second of one user, after the first `burst`
    burst: Count = 200
    waiting: Count = 20_000  # most unfinished jobs of one owner
    body: Annotated[int, Range(1024)] = 262_144  # bytes of a request
    connections: Count = 4096  # at once, of one address a 64th; more are refused
    receive_timeout: Interval = 15.0  # for a request's header to arrive, and for its body

    @property
    def per_address(self) -> int:
        """Returns how many connections, or behind a proxy requests at once, a client may have."""
        return max(1, self.connections // 64)

    def check(self) -> None:
        """Refuses invalid numbers."""
        check_addresses("service.proxies", self.proxies)
        self.proxy.check()
        self.webhook.check()
        for key in ("url", "tracking_url", "address"):
            if (url := getattr(self, key)) is not None:
                check_url(f"service.{key}", url)
        check_ranges("service", self)


@dataclass
class JobsConfig:
    """The job service, and the options of a submission."""

    service: str | None = None  # http://host:8300; null: the one that `dragoman up` runs here
    key_file: str | None = None  # a file with the service's token
    owner: str | None = None  # null: who asks; or a team of theirs. Believed where the service requires no token
    priority: Literal["low", "normal", "high"] = "normal"
    after: list[str] = field(default_factory=list)  # jobs that must succeed before
    tags: list[str] = field(default_factory=list)  # to find the job by
    retries: Whole = 0  # failures after which the job is retried
    max_hours: Amount = 0.0  # of running; 0: unlimited
    key: str | None = None  # the same key gives the same job: what cron repeats is queued once
    plan: Literal["first", "only"] = "first"  # only: print the plan and queue nothing
    show: Count = 20
    stop_timeout: Amount = 30.0  # seconds


@dataclass
class Root:
    """The sections that name the service."""

    FILE: ClassVar = "jobs"

    jobs: JobsConfig
    paths: dict[str, Any]


@dataclass
class UpRoot:
    """The service's own sections typed, those of the processes beside it as they are."""

    FILE: ClassVar = "up"

    service: ServiceConfig
    jobs: JobsConfig
    serve: dict[str, Any]
    paths: dict[str, Any]
