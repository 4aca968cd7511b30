"""A ledger on sqlite and on PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from dragoman.services.jobs.client import entries, verbs
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service import intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import make_loop


@pytest.fixture(autouse=True)
def patient_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Intake.take` waits for every plan: on a busy machine one takes longer than the second it waits otherwise."""
    monkeypatch.setattr(intake, "BESIDE", 60.0)


PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def program(name: str) -> str | None:
    return shutil.which(name) or next((str(place / name) for place in PLACES if (place / name).is_file()), None)


@dataclass(frozen=True)
class Postgres:
    """A server: the URL with a place for the database's name, and a restart without mercy."""

    url: str
    restart: Callable[[], None]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of our own on a socket in its folder: no port, no password."""
    if program("initdb") is None or program("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    # not below pytest's own folder: the path of a socket may not be long, and others may not look into that
    folder = Path(tempfile.mkdtemp(prefix="dragoman-pg-"))
    user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            shutil.chown(folder, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL has no user of its own here (Debian: postgresql)")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"

    def run(name: str, *words: str) -> None:
        subprocess.run([*user, str(program(name)), *words], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    run("initdb", "-D", str(data), "-U", "dragoman", "--auth=trust", "--no-sync")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    how = ("-D", str(data), "-w", "-l", str(folder / "log"), "-o", options)
    run("pg_ctl", *how, "start")
    restart = lambda: run("pg_ctl", *how, "-m", "immediate", "restart")  # noqa: E731
    try:
        yield Postgres(f"postgresql://dragoman@/{{name}}?host={folder}", restart)
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    server: Postgres = request.getfixturevalue("postgres")
    return new_database(server)


def new_database(server: Postgres) -> str:
    """The URL of an empty database of the server."""
    name = f"t{os.urandom(6).hex()}"
    address = server.url.format(name="postgres").replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.url.format(name=name)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    database = Database(url)
    yield Ledger(database)
    database.close()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A service's loop on sqlite, whose jobs are stubs."""
    one = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    one.capacity = one.executor.capacity()
    yield one
    one.ledger.database.close()


@pytest.fixture
def planned(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission is planned while its client waits."""
    real = verbs.JobClient.planned

    def wait(self: verbs.JobClient, name: str) -> Any:
        while loop.ledger.jobs([State.SUBMITTED, State.PLANNED]):
            loop._take()
        return real(self, name)

    monkeypatch.setattr(verbs.JobClient, "planned", wait)


@pytest.fixture
def ask(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line, whose client asks the application in this process."""
    from tests.services.jobs.at_work import LOCAL, client

    real = verbs.JobClient

    def connect(address: str, *rest: Any, **more: Any) -> verbs.JobClient:
        found = real(address, *rest, **more)
        found._http = client(loop)
        return found

    monkeypatch.setattr(verbs, "JobClient", connect)
    return lambda *line: entries.main([line[0], f"jobs.service={LOCAL}", *line[1:]])
