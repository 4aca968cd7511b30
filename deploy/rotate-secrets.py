#!/usr/bin/env python3
"""Rotate secrets: a new one in its server and in its file, so that the old one opens nothing any more.

    deploy/rotate-secrets.py [NAME ...]                  of docker-compose.yml: all of deploy/secrets, or these
    deploy/rotate-secrets.py --home HOME [NAME ...]      of `dragoman up` on this machine

PostgreSQL and Grafana read their password's file at their first start alone, and MLflow keeps its users in a database:
a new file changes nothing there. So the server is told first, then the file is replaced, then what reads it is started
again. A new secret stands in NAME.new until then: the same command after an interruption goes on with it.
Needs nothing but Python. No secret is printed, or stands on a command line.
"""

import argparse
import base64
import configparser
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "secrets"
PSQL = "docker compose exec -T postgres psql --username=mlflow --dbname=mlflow"
READERS = {  # secret -> the services of the composition that read it
    "postgres_password": ["mlflow"],
    "ledger_password": ["jobs"],
    "mlflow_credentials": ["mlflow", "ray-head", "ray-worker", "jobs", "endpoint"],
    "grafana_password": [],
    "ray_token": ["ray-head", "ray-worker", "jobs"],
    "jobs_admin_token": ["jobs"],
    "jobs_metrics_token": ["jobs", "prometheus"],
    "s3_config": ["s3", "buckets", "mlflow", "ray-head", "ray-worker", "jobs", "endpoint"],
    "session_key": ["jobs"],
}
OF_HOME = ("mlflow_credentials", "mlflow_jobs_credentials", "ray_token", "session_key")
ITERATIONS = 4096  # of PostgreSQL's own verifiers
TIMEOUT = 60.0  # seconds for an answer
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # passwords go through no proxy
Change = Callable[[str, str], None]  # old and new content of the file; told again, it changes nothing


class RefusedError(Exception):
    """A refused rotation and its reason."""


def replace(path: Path, new: Callable[[str], str], change: Change = lambda old, new: None) -> None:
    """Make `new` of the file's content, `change` the server, then replace the file.

    Raises:
        RefusedError: there is no such file, or the server takes neither the old secret nor the new one.
    """
    if not path.is_file():
        raise RefusedError(f"{path} is no file; deploy/make-secrets.sh makes the secrets of the composition")
    old, pending = path.read_text(encoding="utf-8"), path.with_name(f"{path.name}.new")
    if not pending.is_file():
        part = path.with_name(f".part-{path.name}-{secrets.token_hex(4)}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(new(old))
        part.replace(pending)
    change(old, pending.read_text(encoding="utf-8"))
    pending.chmod(path.stat().st_mode & 0o777)
    pending.replace(path)


def word(_: str = "") -> str:
    """A new password or token."""
    return secrets.token_hex(32)


# ---------------------------------------------------------------------- PostgreSQL


def verifier(password: str) -> str:
    """Returns PostgreSQL's verifier of a password (RFC 5803), so that its log and history lack the password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    stored = hashlib.sha256(client).digest()
    shown = [base64.b64encode(one).decode() for one in (salt, stored, server)]
    return f"SCRAM-SHA-256${ITERATIONS}:{shown[0]}${shown[1]}:{shown[2]}"


def role_password(psql: str, role: str) -> Change:
    """Set the password of a role by the program `psql`, which a superuser runs."""

    def change(_: str, new: str) -> None:
        kept = verifier(new.strip())
        asked = f"ALTER ROLE {role} PASSWORD '{kept}';\nSELECT rolpassword = '{kept}' FROM pg_authid "
        command = [*shlex.split(psql), "--quiet", "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        asked += f"WHERE rolname = '{role}';\n"
        try:
            done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise RefusedError(f"--psql={psql}: {problem}") from None
        if done.returncode or done.stdout.strip() != "t":
            raise RefusedError(f"PostgreSQL did not take the new password of {role}: {done.stderr.strip()[:300]}")

    return change


# ---------------------------------------------------------------------- HTTP: MLflow, Grafana


def ask(method: str, address: str, login: tuple[str, str], body: dict[str, Any] | None = None) -> tuple[int, str]:
    """The status code and the text of an answer.

    Raises:
        RefusedError: nobody answers.
    """
    request = urllib.request.Request(address, method=method)
    request.add_header("Authorization", f"Basic {base64.b64encode(':'.join(login).encode()).decode()}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with OPENER.open(request, timeout=TIMEOUT) as answer:
            return int(answer.status), answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode("utf-8", "replace")
    except OSError as problem:
        raise RefusedError(f"{address} does not answer ({problem})") from None


def account(name: str, current: str, method: str, where: str, body: Callable[[str, str, str], dict[str, str]]) -> Any:
    """Returns a change of a user's own password on a server: `current` checks the login, `where` takes the change."""

    def change(user: str, old: str, new: str) -> None:
        if ask("GET", current, (user, new))[0] == 200:
            return  # the change was made before an interruption
        code, said = ask(method, where, (user, old), body(user, old, new))
        if code != 200 or ask("GET", current, (user, new))[0] != 200:
            raise RefusedError(f"{name} did not take the new password of {user}: {code} {said[:200].strip()}")

    return change


def mlflow(address: str) -> Change:
    """MLflow's login, as the files of credentials hold it."""
    users = f"{address.rstrip('/')}/api/2.0/mlflow/users"

    def body(user: str, old: str, new: str) -> dict[str, str]:
        return {"username": user, "password": new, "current_password": old}

    tell = account("MLflow", f"{users}/current", "PATCH", f"{users}/update-password", body)

    def change(old: str, new: str) -> None:
        (user, before), (_, after) = credentials(old), credentials(new)
        tell(user, before, after)

    return change


def credentials(text: str) -> tuple[str, str]:
    """User and password of a file ~/.mlflow/credentials."""
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(text)
    return found["mlflow"]["mlflow_tracking_username"], found["mlflow"]["mlflow_tracking_password"]


def new_credentials(old: str) -> str:
    """The same user with a new password."""
    return old.replace(credentials(old)[1], word())


def grafana(address: str) -> Change:
    """The password of Grafana's admin."""
    where = f"{address.rstrip('/')}/api/user"

    def body(_: str, old: str, new: str) -> dict[str, str]:
        return {"oldPassword": old, "newPassword": new, "confirmNew": new}

    tell = account("Grafana", where, "PUT", f"{where}/password", body)
    return lambda old, new: tell("admin", old.strip(), new.strip())


# ---------------------------------------------------------------------- the two places


def rotate_composition(names: list[str], options: argparse.Namespace) -> None:
    """Rotate the secrets of docker-compose.yml, and start again what reads them."""
    folder, compose = Path(options.secrets), shlex.split(options.compose)
    changes: dict[str, Change] = {
        "postgres_password": role_password(options.psql, "mlflow"),
        "ledger_password": role_password(options.psql, "ledger"),
        "mlflow_credentials": mlflow(options.mlflow),
        "grafana_password": grafana(options.grafana),
    }
    again: dict[str, None] = {}
    try:
        for name in names:
            if name == "s3_config":
                rotate_bucket(folder)
            elif name == "session_key":  # the job service makes another one
                run([*compose, "exec", "-T", "jobs", "rm", "-f", "/data/service/session_key"])
            else:
                new = new_credentials if name == "mlflow_credentials" else word
                replace(folder / name, new, changes.get(name, lambda old, new: None))
            again |= dict.fromkeys(READERS[name])
            print(f"{name}: rotated", flush=True)
    finally:
        if again:
            restart = [*compose, "up", "--detach", "--force-recreate", "--no-deps", *again]
            if options.no_restart:
                print(f"start again what reads them: {shlex.join(restart)}")
            else:
                run(restart)


def rotate_bucket(folder: Path) -> None:
    """The one pair of keys stands in two files: as SeaweedFS reads it, and as its clients do."""
    config, clients = folder / "s3_config", folder / "s3_credentials"
    made: list[str] = []

    def first(old: str) -> str:
        key = json.loads(old)["identities"][0]["credentials"][0]["secretKey"]
        return old.replace(key, word())

    def second(_: str, new: str) -> None:
        made.append(json.loads(new)["identities"][0]["credentials"][0]["secretKey"])
        lines = clients.read_text(encoding="utf-8").splitlines()
        text = "".join(
            f"aws_secret_access_key = {made[0]}\n" if line.startswith("aws_secret_access_key") else f"{line}\n"
            for line in lines
        )
        replace(clients, lambda _: text)

    replace(config, first, second)


def rotate_home(names: list[str], folder: Path) -> None:
    """Rotate the secrets of `dragoman up`: MLflow's while it runs, the others while it does not."""
    with stopped(folder / "lock") as idle:
        for name in names:
            of_mlflow = name.startswith("mlflow")
            if of_mlflow == idle:
                raise RefusedError(f"{name}: {'start' if of_mlflow else 'stop'} `dragoman up` on {folder.parent} first")
            if of_mlflow:
                address = json.loads((folder / "address.json").read_text(encoding="utf-8"))["mlflow"]
                replace(folder / name, new_credentials, mlflow(address))
            else:
                replace(folder / name, word)
            print(f"{name}: rotated", flush=True)
    if not idle:
        print("start `dragoman up` again: what it has started still knows the old password")


@contextlib.contextmanager
def stopped(lock: Path) -> Iterator[bool]:
    """Yields True if no `up` runs on the folder; none can begin within the block."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def run(command: list[str]) -> None:
    """Raises RefusedError where a command fails."""
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as problem:
        raise RefusedError(f"{command[0]}: {problem}") from None
    if code:
        raise RefusedError(f"{shlex.join(command)}: exit code {code}")


def main(argv: list[str]) -> int:
    """Exit code 0: all are rotated; 1: one was not, the same command goes on; 2: a mistake in the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(READERS)}; with --home {', '.join(OF_HOME)}"
    )
    parser.add_argument("--home", help="DRAGOMAN_HOME of a `dragoman up`, instead of the composition")
    parser.add_argument("--secrets", default=str(FOLDER), help="the folder of the composition's secrets")
    parser.add_argument("--compose", default="docker compose", help="the program that runs the composition")
    parser.add_argument("--psql", default=PSQL, help="psql as a superuser of the database")
    parser.add_argument("--mlflow", default="http://localhost:5000", help="MLflow's address")
    parser.add_argument("--grafana", default="http://localhost:3000", help="Grafana's address")
    parser.add_argument("--no-restart", action="store_true", help="say what must be started again, and do not")
    options = parser.parse_args(argv)
    choices = OF_HOME if options.home else tuple(READERS)
    unknown = [name for name in options.names if name not in choices]
    if unknown:
        parser.error(f"{unknown[0]} is not known. Choices: {', '.join(choices)}")
    try:
        if options.home is None:
            rotate_composition(options.names or list(READERS), options)
        elif not options.names:
            parser.error(f"--home: say which. Choices: {', '.join(OF_HOME)}")
        else:
            rotate_home(options.names, Path(options.home) / "service")
    except (RefusedError, OSError, ValueError, KeyError) as problem:
        print(f"rotate-secrets: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
