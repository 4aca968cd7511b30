"""OpenMP's threads spin for a moment only, in every process of ours, unless the user says otherwise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model import openmp
from dragoman.model.openmp import limit_spinning

ROOT = Path(__file__).resolve().parents[2]
# Modules that processes of ours begin with, and what is imported next: libraries that bring an OpenMP of their own.
BEGINNINGS = {
    "the command line": "import dragoman.services.cli, torch",
    "python -m dragoman.pipelines.train, under torchrun": "import dragoman.pipelines.train",
    "a worker of Ray, of a training or of tasks": "import dragoman.pipelines.cluster.ray_train",
    "a job": "import dragoman.services.jobs.runner, torch",
}


def spinning(code: str, **variables: str) -> set[str]:
    """What every OpenMP that a process loads says of its GOMP_SPINCOUNT."""
    environment = {name: value for name, value in os.environ.items() if name not in openmp.CHOICES}
    environment |= {"OMP_DISPLAY_ENV": "VERBOSE", **variables}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    return set(re.findall(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr))


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is what torch has on Linux")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=name, marks=() if name == "the command line" else pytest.mark.long)
        for name, code in BEGINNINGS.items()
    ],
)
def test_the_limit_is_set_before_openmp_is_loaded(code: str) -> None:
    assert spinning(code) == {openmp.ROUNDS}


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is what torch has on Linux")
@pytest.mark.long
def test_a_policy_of_the_users_stays() -> None:
    assert spinning("import dragoman.services.cli, torch", OMP_WAIT_POLICY="PASSIVE") == {"0"}
    assert spinning("import dragoman.services.cli, torch", GOMP_SPINCOUNT="17") == {"17"}


def test_the_limit_is_set_unless_there_is_a_choice() -> None:
    environment = {"HOME": "/"}
    limit_spinning(environment)
    assert environment == {"HOME": "/", "GOMP_SPINCOUNT": openmp.ROUNDS}
    chosen = {"OMP_WAIT_POLICY": "ACTIVE"}
    limit_spinning(chosen)
    assert chosen == {"OMP_WAIT_POLICY": "ACTIVE"}
