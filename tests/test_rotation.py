"""deploy/rotate-secrets.py against what it rotates: PostgreSQL and MLflow are real, a local server stands for Grafana,
with the part of its HTTP API that is documented; docker is a stand-in that notes what it was asked."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psycopg
import pytest

from dragoman.model.files import exclusive
from dragoman.model.ports import free_ports
from dragoman.services.jobs.up.mlflow_logins import ADMIN, FILES, JOBS, admit_jobs, logins, read_login, server_variables
from tests.services.jobs.conftest import program

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = REPOSITORY / "deploy" / "rotate-secrets.py"


def rotate(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """deploy/secrets as make-secrets.sh makes it."""
    shutil.copytree(REPOSITORY / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([tmp_path / "deploy" / "make-secrets.sh"], check=True, stdout=subprocess.DEVNULL)
    return tmp_path / "deploy" / "secrets"


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A program that writes down its words."""
    path = tmp_path / "docker"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    path.chmod(0o755)
    return path


def secret(folder: Path, name: str) -> str:
    return (folder / name).read_text().strip()


@pytest.fixture
def postgres(folder: Path) -> Iterator[Path]:
    """The folder of the socket of a server that asks the roles mlflow and ledger for their passwords."""
    if program("initdb") is None or program("pg_ctl") is None or program("psql") is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    place = Path(tempfile.mkdtemp(prefix="dragoman-pg-"))
    user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            shutil.chown(place, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL has no user of its own here (Debian: postgresql)")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    place.chmod(0o755)

    def run(name: str, *words: str) -> None:
        subprocess.run([*user, str(program(name)), *words], check=True, stdout=subprocess.DEVNULL, cwd=place)

    run("initdb", "-D", f"{place}/data", "-U", "root", "--auth=trust", "--no-sync")
    (place / "data" / "pg_hba.conf").write_text("local all root trust\nlocal all all scram-sha-256\n")
    run(
        "pg_ctl", "-D", f"{place}/data", "-w", "-l", f"{place}/log", "-o", f"-k {place} -c listen_addresses=''", "start"
    )
    try:
        with psycopg.connect(f"host={place} user=root dbname=postgres", autocommit=True) as connection:
            for role, name in (("mlflow", "postgres_password"), ("ledger", "ledger_password")):
                connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{secret(folder, name)}'")
        yield place
    finally:
        run("pg_ctl", "-D", f"{place}/data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(place, ignore_errors=True)


def lets_in(place: Path, role: str, password: str) -> bool:
    try:
        psycopg.connect(host=str(place), user=role, password=password, dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def test_passwords_of_postgresql_are_rotated_in_the_server_and_the_file(folder: Path, postgres: Path) -> None:
    names = {"mlflow": "postgres_password", "ledger": "ledger_password"}
    before = {role: secret(folder, name) for role, name in names.items()}
    assert all(lets_in(postgres, role, password) for role, password in before.items())
    psql = f"{program('psql')} --host={postgres} --username=root --dbname=postgres"
    done = rotate("--secrets", str(folder), "--psql", psql, "--no-restart", *names.values())
    assert done.returncode == 0, done.stderr
    for role, name in names.items():
        assert not lets_in(postgres, role, before[role]) and lets_in(postgres, role, secret(folder, name))
    assert "up --detach --force-recreate --no-deps mlflow jobs" in done.stdout
    assert all(password not in done.stdout + (postgres / "log").read_text() for password in before.values())
    away = rotate("--secrets", str(folder), "--psql", "false", "--no-restart", "ledger_password")
    assert (away.returncode, "did not take the new password of ledger" in away.stderr) == (1, True)
    assert lets_in(postgres, "ledger", secret(folder, "ledger_password"))  # the file has what the server knows
    assert rotate("--secrets", str(folder), "--psql", psql, "--no-restart", "ledger_password").returncode == 0
    assert lets_in(postgres, "ledger", secret(folder, "ledger_password"))
    assert not (folder / "ledger_password.new").exists()


@pytest.fixture
def mlflow(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """MLflow as `dragoman up` starts it behind its login: its address, and the service's folder in a home."""
    home = tmp_path / "home"
    place = home / "service"
    place.mkdir(parents=True)
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    (place / "address.json").write_text(json.dumps({"mlflow": address}))
    people, jobs = logins(place)
    variables = {**os.environ, **server_variables(place, people), "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-m", "mlflow", "server", "--app-name=basic-auth", f"--port={port}", "--workers=1"]
    command += [f"--backend-store-uri=sqlite:///{home}/mlflow.db", f"--artifacts-destination={home}/artifacts"]
    variables["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 240
        while not admit_jobs(address, people, jobs):
            assert server.poll() is None and time.monotonic() < deadline, (home / "log").read_text()
            time.sleep(0.3)
        yield address, place
    finally:
        os.killpg(server.pid, 15)
        server.wait(60)


def knows(address: str, user: str, password: str) -> bool:
    asked = httpx.get(f"{address}/api/2.0/mlflow/users/current", auth=(user, password), timeout=60)
    return asked.status_code == 200


def test_logins_of_mlflow_are_rotated_in_the_server_and_the_file(mlflow: tuple[str, Path], folder: Path) -> None:
    address, place = mlflow
    with exclusive(place / "lock"):  # as a running `up` holds it
        for user in (ADMIN, JOBS):
            before = read_login(place / FILES[user]).password
            done = rotate("--home", str(place.parent), FILES[user])
            assert done.returncode == 0, done.stderr
            after = read_login(place / FILES[user]).password
            assert not knows(address, user, before) and knows(address, user, after)
            assert before not in done.stdout and after not in done.stdout
            assert (place / FILES[user]).stat().st_mode & 0o777 == 0o600
        refused = rotate("--home", str(place.parent), "ray_token")
        assert (refused.returncode, "stop `dragoman up`" in refused.stderr) == (1, True)
    # the same of the composition, interrupted between the server and the file
    shutil.copy(place / FILES[ADMIN], folder / "mlflow_credentials")
    known = read_login(place / FILES[ADMIN]).password
    words = ("--secrets", str(folder), "--mlflow", address, "--no-restart", "mlflow_credentials")
    (folder / "mlflow_credentials.new").write_text(secret(folder, "mlflow_credentials").replace(known, "n" * 40))
    body = {"username": ADMIN, "password": "n" * 40, "current_password": known}
    changed = httpx.patch(f"{address}/api/2.0/mlflow/users/update-password", json=body, auth=(ADMIN, known), timeout=60)
    assert changed.status_code == 200
    assert rotate(*words).returncode == 0
    assert read_login(folder / "mlflow_credentials").password == "n" * 40
    assert rotate(*words).returncode == 0
    assert knows(address, ADMIN, read_login(folder / "mlflow_credentials").password)
    assert not knows(address, ADMIN, "n" * 40)


class Grafana(BaseHTTPRequestHandler):
    """GET /api/user and PUT /api/user/password, as Grafana documents them for basic authentication."""

    password = ""

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/api/user" and self._known() else 401)

    def do_PUT(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/user/password" or not self._known():
            return self._answer(401)
        if asked["oldPassword"] != Grafana.password or asked["newPassword"] != asked["confirmNew"]:
            return self._answer(400)
        Grafana.password = asked["newPassword"]
        return self._answer(200)

    def _known(self) -> bool:
        told = f"admin:{Grafana.password}".encode()
        return self.headers.get("Authorization") == f"Basic {base64.b64encode(told).decode()}"

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_grafanas_password_is_rotated_by_its_api_and_a_wrong_file_is_named(folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Grafana)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        Grafana.password = before = secret(folder, "grafana_password")
        words = ("--secrets", str(folder), "--grafana", f"http://127.0.0.1:{server.server_address[1]}", "--no-restart")
        assert rotate(*words, "grafana_password").returncode == 0
        assert Grafana.password == secret(folder, "grafana_password") != before
        Grafana.password = "another"
        refused = rotate(*words, "grafana_password")
        assert (refused.returncode, "did not take the new password of admin: 401" in refused.stderr) == (1, True)
    finally:
        server.shutdown()
        server.server_close()


def test_files_are_replaced_and_what_reads_them_is_started_again(folder: Path, docker: Path, tmp_path: Path) -> None:
    names = ("ray_token", "jobs_admin_token", "jobs_metrics_token", "s3_config", "session_key")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    done = rotate("--secrets", str(folder), "--compose", f"{docker} compose", *names)
    assert done.returncode == 0, done.stderr
    after = {path.name: path.read_text() for path in folder.iterdir()}
    assert after.keys() == before.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"ray_token", "jobs_admin_token", "jobs_metrics_token", "s3_config", "s3_credentials"}
    key = json.loads(after["s3_config"])["identities"][0]["credentials"][0]["secretKey"]
    assert f"aws_secret_access_key = {key}\n" in after["s3_credentials"] and key not in before["s3_config"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "compose exec -T jobs rm -f /data/service/session_key"
    assert asked[1].startswith("compose up --detach --force-recreate --no-deps ray-head ray-worker jobs prometheus s3")
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o644"}
    wrong = rotate("--secrets", str(folder), "grafana")
    assert (wrong.returncode, "grafana is not known" in wrong.stderr) == (2, True)


def test_an_ups_session_key_and_token_of_ray_are_rotated_while_it_is_stopped(tmp_path: Path) -> None:
    place = tmp_path / "service"
    place.mkdir()
    for name in ("session_key", "ray_token"):
        (place / name).write_text("old")
        (place / name).chmod(0o600)
    assert rotate("--home", str(tmp_path), "session_key", "ray_token").returncode == 0
    for name in ("session_key", "ray_token"):
        assert len(secret(place, name)) == 64 and (place / name).stat().st_mode & 0o777 == 0o600
    early = rotate("--home", str(tmp_path), "mlflow_credentials")
    assert (early.returncode, "start `dragoman up`" in early.stderr) == (1, True)
