"""The author in records: the job's owner in the job service, else the system's user; and the owner of its model.

The job service passes the owner of a job's model in a variable. A plain command line has no such variable: there
MLflow's own permissions decide, and a new model's tag is the system's user.
"""

import getpass
import os
import re
import socket

JOB, OWNER = "DRAGOMAN_JOB", "DRAGOMAN_OWNER"  # variables that the job service gives its jobs
NAME = re.compile(r"[\w.+-]{1,160}")


def in_job() -> bool:
    """Returns True if the job service started this process."""
    return bool(os.environ.get(JOB))


def user() -> str:
    """Returns the job's owner; outside a job the login name, or the number of a container's user without a name."""
    owner = os.environ.get(OWNER, "") if in_job() else ""
    if NAME.fullmatch(owner):
        return owner
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def user_and_machine() -> str:
    return f"{user()}@{socket.gethostname()}"


MODEL_OWNER = "DRAGOMAN_MODEL_OWNER"  # owner of the job's model; empty: nobody


def expected_owner() -> str:
    """Returns the service's owner of this job's model; empty outside a service or without an owner."""
    return os.environ.get(MODEL_OWNER, "") if in_job() else ""


def new_owner() -> str:
    """Returns the owner of a model that this process makes."""
    return expected_owner() or user()
