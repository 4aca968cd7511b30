"""Where notices go: signed webhooks, Slack, Teams and mail.

A webhook is signed as Standard Webhooks says (standardwebhooks.com, specification 1.0): HMAC-SHA256 of `ID.TIME.BODY`.
Users name the targets, so a name is resolved here, every address is checked, and the checked one is connected to.
"""

import base64
import binascii
import hashlib
import hmac
import html
import json
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

import httpx

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import read_secret
from dragoman.model.storage.hosts import check_host
from dragoman.services.jobs.settings import NotifyConfig

SHAPES = ("slack", "teams")
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}")
SECRET = "whsec_"
SHORTEST = 24  # bytes of a key, as Standard Webhooks wants
PASSING = (408, 425, 429)  # refusals of 4xx that another try may not meet
CARD = "application/vnd.microsoft.card.adaptive"


class RefusedError(Exception):
    """The target will not take it, however often it is tried."""


@dataclass(frozen=True)
class Message:
    """A notice as it is told; `id` is the same for every try."""

    id: str
    subject: str
    text: str
    link: str
    event: Mapping[str, Any]  # for programs


def check_settings(config: NotifyConfig) -> None:
    """Refuses settings with which nobody could be told. Raises UserError."""
    if config.secret is not None:
        read_key(config.secret)
    if config.mail.server is not None and not re.fullmatch(r"\[?[\w.:-]+\]?:\d{1,5}", config.mail.server):
        raise UserError(
            f"service.notify.mail.server={config.mail.server}: write HOST:PORT, such as mail.example.org:587"
        )
    for owner, targets in config.owners.items():
        for target in targets:
            check_target(target, config, f"service.notify.owners.{owner}")


def check_target(target: str, config: NotifyConfig, key: str = "jobs.notify") -> None:
    """Refuses a target that cannot be told. Raises UserError, which names the setting `key`."""
    shape, url = _split(target)
    if shape == "mailto":
        if not ADDRESS.fullmatch(url):
            raise UserError(f"{key}: {target[:80]}: no mail address; write mailto:anna@example.org")
        if config.mail.server is None:
            raise UserError(f"{key}: mailto: this service sends no mail (service.notify.mail.server)")
        return
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise UserError(
            f"{key}: {shown(target)}: write https://HOST/PATH, slack:https://..., teams:https://... or mailto:WHO"
        )
    if parsed.scheme == "http" and parsed.host not in config.hosts:
        raise UserError(f"{key}: {shown(target)}: only https; service.notify.hosts names the hosts with http")
    if not shape and config.secret is None:
        raise UserError(f"{key}: this service has no key to sign webhooks with (service.notify.secret)")


def shown(target: str) -> str:
    """Returns a target without its path: who has a chat's webhook can write there."""
    shape, url = _split(target)
    if shape == "mailto":
        return target
    return f"{shape}{':' if shape else ''}{'/'.join(url.split('/')[:3])[:100]}"


def read_key(path: str) -> bytes:
    """Returns the key that signs webhooks."""
    try:
        text = read_secret("service.notify.secret", path)
        key = base64.b64decode(text.removeprefix(SECRET), validate=True)
    except binascii.Error as problem:
        raise UserError(f"service.notify.secret: {path} holds no {SECRET}BASE64 ({problem})") from None
    if len(key) < SHORTEST:
        raise UserError(f"service.notify.secret: {path}: {len(key)} bytes; at least {SHORTEST} are needed")
    return key


def signature(key: bytes, identity: str, at: int, body: bytes) -> str:
    """Returns the header webhook-signature."""
    digest = hmac.new(key, f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def send(target: str, message: Message, config: NotifyConfig) -> None:
    """Tells a target.

    Raises:
        RefusedError: it refuses, for good.
        ServiceError: it does not answer, or not now.
    """
    shape, url = _split(target)
    try:
        check_target(target, config)
        if shape == "mailto":
            _send_mail(url, message, config)
        else:
            _post(url, _body(shape, message), message, config, signed=not shape)
    except UserError as problem:
        raise RefusedError(str(problem)) from None


def _split(target: str) -> tuple[str, str]:
    shape, colon, url = target.partition(":")
    return (shape, url) if colon and shape in (*SHAPES, "mailto") else ("", target)


def _body(shape: str, message: Message) -> bytes:
    content: dict[str, Any] = dict(message.event)
    if shape == "slack":
        content = {"text": f"{html.escape(message.text, quote=False)}\n{message.link}"}
    elif shape == "teams":
        block = {"type": "TextBlock", "text": message.text, "wrap": True}
        action = {"type": "Action.OpenUrl", "title": "Open the job", "url": message.link}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [block], "actions": [action]}
        content = {"type": "message", "attachments": [{"contentType": CARD, "content": card}]}
    return json.dumps(content).encode()


def _post(url: str, body: bytes, message: Message, config: NotifyConfig, signed: bool) -> None:
    place, at = httpx.URL(url), int(time.time())
    headers = {"Content-Type": "application/json", "Host": place.netloc.decode()}
    if signed and config.secret is not None:
        headers |= {"webhook-id": message.id, "webhook-timestamp": str(at)}
        headers["webhook-signature"] = signature(read_key(config.secret), message.id, at, body)
    # the address that was checked: a second look-up could give another
    where = place.copy_with(host=_checked_address(place, config))
    extensions = {"sni_hostname": place.host}  # the certificate is that of the name
    try:
        with (
            httpx.Client(timeout=config.timeout, trust_env=False, follow_redirects=False) as http,
            http.stream("POST", where, content=body, headers=headers, extensions=extensions) as answer,
        ):
            code = answer.status_code
    except httpx.HTTPError as problem:
        raise ServiceError(f"no answer ({str(problem) or type(problem).__name__})") from None
    if 300 <= code < 500 and code not in PASSING:
        raise RefusedError(f"HTTP {code}")
    if code >= 300:
        raise ServiceError(f"HTTP {code}")


def _checked_address(place: httpx.URL, config: NotifyConfig) -> str:
    """Returns an address of the host. Raises UserError if one of them must not be reached."""
    port = place.port or {"http": 80, "https": 443}[place.scheme]
    try:
        addresses = socket.getaddrinfo(place.host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise ServiceError(f"{place.host}: {problem}") from None
    for *_, address in addresses:
        check_host(str(address[0]), public=place.host not in config.hosts)
    return str(addresses[0][4][0])


def _send_mail(to: str, message: Message, config: NotifyConfig) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = config.mail.sender, to, message.subject
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{message.id}@dragoman>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{message.text}\n\n{message.link}\n")
    host, _, port = str(config.mail.server).rpartition(":")
    kind = smtplib.SMTP_SSL if config.mail.security == "tls" else smtplib.SMTP
    try:
        with kind(host, int(port), timeout=config.timeout) as server:
            if config.mail.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if config.mail.user and config.mail.password:
                server.login(config.mail.user, read_secret("service.notify.mail.password", config.mail.password))
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as problem:
        code = max(code for code, _ in problem.recipients.values())
        raise (RefusedError if code >= 500 else ServiceError)(f"the mail server refuses {to}: {code}") from None
    except (OSError, smtplib.SMTPException) as problem:
        raise ServiceError(f"the mail server: {problem}") from None
