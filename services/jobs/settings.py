"""The section `service`: the settings of `dragoman up`'s job service."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import Amount, Count, Interval, Port, Positive, Range, Share, Whole, check_ranges
from dragoman.services.http.listening import check_proxies
from dragoman.services.telemetry.traceparent import check_address


@dataclass
class IdleConfig:
    """A GPU idles if in every sample of these minutes it was at work for less than this share of the time."""

    share: Share = 0.05  # 0: none ever idles; counts for attempts that start from now on
    minutes: Annotated[float, Range(1, 1440)] = 15.0


@dataclass
class KeepConfig:
    """Ages are in days since a job's end; 0: jobs that ended so are never deleted."""

    succeeded: Amount = 0.0
    failed: Amount = 0.0  # or lost
    stopped: Amount = 0.0
    newest: Whole = 100  # ended jobs of each owner that stay, whatever their age
    most: Whole = 0  # ended jobs of each owner; older ones are deleted, whatever their age; 0: no limit
    runs: bool = True  # delete a training's folder with its last job; never that of a registered version

    audit: Amount = 365.0  # days that a row of the audit is kept; 0: for ever

    def active(self) -> bool:
        """Returns True if any job may ever be deleted."""
        return bool(self.succeeded or self.failed or self.stopped or self.most)


# forecast: it runs longer than was promised; idle: GPUs that it holds do not work
Event = Literal["succeeded", "failed", "stuck", "preempted", "forecast", "idle"]


@dataclass
class MailConfig:
    """The mail server that messages are handed to."""

    server: str | None = None  # HOST:PORT; null: no mail is sent
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = None  # a file with the user's password
    sender: str = "dragoman@localhost"


@dataclass
class NotifyConfig:
    """Targets by owner, and what targets may be. A target is https://..., slack:https://..., teams:https://... or
    mailto:..."""

    owners: dict[str, list[str]] = field(default_factory=dict)  # owner: targets, for all jobs; beside jobs.notify
    events: list[Event] = field(default_factory=lambda: list(get_args(Event)))
    secret: str | None = None  # a file with the key that signs webhooks: whsec_ and base64; null: no webhooks
    hosts: list[str] = field(default_factory=list)  # private hosts that targets may name, also by http
    stuck: Interval = 14_400.0  # seconds of waiting in the queue
    timeout: Annotated[float, Range(0.1, 120)] = 10.0  # seconds for one delivery
    mail: MailConfig = field(default_factory=MailConfig)


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
    session: Interval = 43_200.0  # seconds that a `dragoman login` lasts

    def check(self) -> None:
        """Refuses impossible values. Raises UserError: names the key and the value."""
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


@dataclass
class FairShareConfig:
    """The section `service.fair_share`: the order of owners who want more than there is."""

    half_life: Amount = 86_400.0  # seconds after which past use counts half; 0: only priority and age count
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
    endpoint_url: str | None = None  # of the endpoint that pages ask; null: the endpoint started here
    tracking: bool = True  # start MLflow here
    endpoint: bool = True  # start the endpoint here
    ports: Port = 8310  # MLflow, the endpoint and Ray's dashboard take this one and the next two; 0: free ones
    tick: Annotated[float, Range(0.01)] = 1.0  # between two checks of running jobs
    rest: Amount = 600.0  # time without a job after which the Ray started here ends until the next; 0: never
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
    connections: Count = 4096  # at once; more are refused: 503
    receive_timeout: Interval = 15.0  # for a request's body to arrive
    traces: str | None = None  # an OpenTelemetry collector (OTLP over HTTP), http://HOST:4318; null: none

    def check(self) -> None:
        """Refuses invalid numbers. Raises UserError: names the key and the value."""
        check_proxies("service.proxies", self.proxies)
        self.proxy.check()
        if self.traces is not None:
            check_address(self.traces)
        check_ranges("service", self)
