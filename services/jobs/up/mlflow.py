"""The logins of the MLflow that `dragoman up` starts: one for people, an admin's, and one for jobs, with fewer rights.

Each is in a file of HOME/service that only this user can read, in the form of ~/.mlflow/credentials. The jobs' user may
write runs and models, but neither delete those of others nor change users or permissions. MLflow keeps the users in a
database of its own: docs/backup.md says how both get a new password.

People have the login of the service's pages: what its proxy says of them, or a token as their password. MLflow asks the
service whether it knows them. They read, whatever their role; only jobs write.
"""

import configparser
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from dragoman.model.errors import ServiceError
from dragoman.model.files import atomic_write, secret_file
from dragoman.model.mlflow_client import make_database
from dragoman.services.jobs.routes import ROUTES
from dragoman.services.jobs.settings import ROLES, ServiceConfig

ADMIN, JOBS, READERS = "dragoman", "dragoman-jobs", "dragoman-readers"  # users
WHO, WHO_HEADERS = "DRAGOMAN_WHO", "DRAGOMAN_WHO_HEADERS"  # variables: where to ask, and what to pass on
REMEMBERED = 60.0  # seconds
READING = ("search", "get-", "graphql")  # begins the last part of a path that MLflow's pages read by POST
HERE = ("localhost", "127.0.0.1")
FILES = {ADMIN: "mlflow_credentials", JOBS: "mlflow_jobs_credentials"}
GRANTED = {"experiment": "EDIT", "registered_model": "EDIT"}  # the jobs' rights on what others have made
LOGINS = "mlflow_auth.db"  # of users and permissions
PAUSE = 1.0  # seconds until MLflow is asked again
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Login:
    """A user of MLflow."""

    user: str
    password: str

    def variables(self) -> dict[str, str]:
        """Returns the variables by which MLflow's clients log in."""
        return {"MLFLOW_TRACKING_USERNAME": self.user, "MLFLOW_TRACKING_PASSWORD": self.password}


def logins(folder: Path) -> tuple[Login, Login]:
    """Returns the admin's login and the jobs'; makes a missing one."""
    return _login(folder, ADMIN), _login(folder, JOBS)


def read_login(path: Path) -> Login:
    """Returns the login in a file."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        return Login(parser["mlflow"]["mlflow_tracking_username"], parser["mlflow"]["mlflow_tracking_password"])
    except (OSError, UnicodeDecodeError, KeyError, configparser.Error) as problem:
        raise ServiceError(f"{path}: holds no login of MLflow ({type(problem).__name__})") from None


def server_variables(folder: Path, admin: Login, service: str, config: ServiceConfig) -> dict[str, str]:
    """Writes MLflow's login settings to `folder` and returns the variables of its server; `service` is our address."""
    settings = folder / "mlflow_auth.ini"
    # hashing a password is slow on purpose, and a registration makes over a hundred requests: cached for a minute
    lines = (
        "[mlflow]",
        "default_permission = READ",
        "auth_cache_ttl_seconds = 60",
        f"authorization_function = {__name__}:authenticate",
    )
    atomic_write(settings, "\n".join([*lines, f"database_uri = sqlite:///{folder}/{LOGINS}", ""]))
    proxy = config.proxy
    passed = (proxy.header, proxy.secret_header, proxy.groups_header) if proxy.header else ()
    outside = urlsplit(config.tracking_url or "")
    hosts = [*HERE, *(f"{host}:*" for host in HERE), *filter(None, [outside.netloc])]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(hosts),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": f"{outside.scheme}://{outside.netloc}" if outside.netloc else "",
        WHO: f"{service}{ROUTES['me'].path}",
        WHO_HEADERS: ",".join(map(str, passed)),
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32),
        "MLFLOW_AUTH_ADMIN_USERNAME": admin.user,
        "MLFLOW_AUTH_ADMIN_PASSWORD": admin.password,
    }


def admit_jobs(address: str, admin: Login, jobs: Login) -> bool:
    """Gives the jobs' user access; returns True once an MLflow that asks for a login has answered.

    Repeating it changes nothing."""
    who = (admin.user, admin.password)
    named = {"username": jobs.user}
    try:
        with httpx.Client(base_url=f"{address}/api", auth=who, timeout=30.0) as client:
            for user, password in ((jobs.user, jobs.password), (READERS, secrets.token_urlsafe(32))):
                user_answer = client.get("/2.0/mlflow/users/get", params={"username": user})
                if user_answer.status_code == 404:
                    made = {"username": user, "password": password}
                    client.post("/2.0/mlflow/users/create", json=made).raise_for_status()
                else:
                    user_answer.raise_for_status()
            for kind, permission in GRANTED.items():
                grant = {**named, "resource_type": kind, "resource_id": "*", "permission": permission}
                client.post("/3.0/mlflow/users/permissions/grant", json=grant).raise_for_status()
    except httpx.HTTPStatusError as problem:
        code = problem.response.status_code
        if code == 401:
            logger.warning("MLflow refuses the login of its admin: it has another password than %s", FILES[admin.user])
        return code < 500 and code != 404  # an MLflow without a login, which is about to end, knows no users
    except httpx.HTTPError:
        return False
    return True


def keep_admitting(address: str, admin: Login, jobs: Login, ending: threading.Event) -> None:
    """Gives the jobs' user access as soon as MLflow answers, in a thread of its own."""

    def admit() -> None:
        while not admit_jobs(address, admin, jobs) and not ending.wait(PAUSE):
            pass

    threading.Thread(target=admit, name="mlflow-login", daemon=True).start()


def _login(folder: Path, user: str) -> Login:
    lines = (
        "[mlflow]",
        f"mlflow_tracking_username = {user}",
        f"mlflow_tracking_password = {secrets.token_urlsafe(32)}",
    )
    secret_file(folder / FILES[user], "\n".join([*lines, ""]))
    return read_login(folder / FILES[user])


def local_login(folder: Path) -> Mapping[str, str]:
    """Returns the variables of the jobs' login of the service in `folder`; none if this user may not read it."""
    try:
        return read_login(folder / FILES[JOBS]).variables()
    except ServiceError:
        return {}


def authenticate() -> Any:
    """Returns whom MLflow serves, in its own form: a user of MLflow, or somebody whom the job service knows."""
    from flask import Response, request
    from mlflow.server.auth import authenticate_request_basic_auth
    from werkzeug.datastructures import Authorization

    last = request.path.rstrip("/").rpartition("/")[2]
    if request.path.rstrip("/").endswith("experiments/create") and not _is_artifact_store(request):
        return Response("artifact_location: artifacts are kept by this server; leave it out", 403)
    login = request.authorization
    headers = {name: request.headers[name] for name in os.environ[WHO_HEADERS].split(",") if name in request.headers}
    if login is not None and login.username not in FILES:
        headers = {"Authorization": f"Bearer {login.password}"}
    if not headers or not _is_known(tuple(sorted(headers.items())), int(time.monotonic() / REMEMBERED)):
        return authenticate_request_basic_auth()
    if request.method not in ("GET", "HEAD") and not last.startswith(READING):
        return Response("people read MLflow; what is written comes from jobs: dragoman submit", 403)
    return Authorization("basic", {"username": READERS, "password": ""})


def _is_artifact_store(request: Any) -> bool:
    """Returns True if a request's `artifact_location` is this server's own, or it names none."""
    body = request.get_json(force=True, silent=True)
    place = body.get("artifact_location") if isinstance(body, dict) else None
    return not place or str(place).startswith("mlflow-artifacts:")


@lru_cache(maxsize=1000)
def _is_known(headers: tuple[tuple[str, str], ...], _minute: int) -> bool:
    """Returns True if the service knows the person of a request."""
    try:
        answer = httpx.get(os.environ[WHO], headers=dict(headers), timeout=30.0)
        return answer.is_success and answer.json()["role"] in ROLES
    except (httpx.HTTPError, ValueError, KeyError):
        return False


def main(argv: Sequence[str]) -> None:
    """Makes missing databases (`logins` is empty for a server without a login), and becomes the server."""
    runs, logins, *words = argv
    make_database(Path(runs))
    if logins:
        make_database(Path(logins), make_login_tables)
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "server", *words])


def make_login_tables(address: str) -> None:
    """Makes the tables of MLflow's users and permissions."""
    upgrade = [sys.executable, "-m", "mlflow.server.auth", "db", "upgrade", f"--url={address}"]
    subprocess.run(upgrade, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
