"""MLflow's server on databases that are whole: `python -m dragoman.services.jobs.up.mlflow_server DB LOGINS WORDS...`.

MLflow makes its tables in many steps. A server that ends between two of them, because the first token was issued or the
service was killed, would leave a database on which none ever starts again.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.model.mlflow_client import make_database


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
