"""A ledger on sqlite and on PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.jobs.ledger.database import Database
from services.jobs.ledger.ledger import Ledger

PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def program(name: str) -> str | None:
    return shutil.which(name) or next((str(place / name) for place in PLACES if (place / name).is_file()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
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
    run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://dragoman@/{{name}}?host={folder}"
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    from sqlalchemy import create_engine, text

    server: str = request.getfixturevalue("postgres")
    name = f"t{os.urandom(6).hex()}"
    engine = create_engine(
        server.format(name="postgres").replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.format(name=name)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    database = Database(url)
    yield Ledger(database)
    database.close()
