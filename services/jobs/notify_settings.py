"""The section `service.notify`: how the service tells people about their jobs."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from dragoman.model.ranges import Interval, Range

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
