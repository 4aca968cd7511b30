"""The locks and the images: development tools stay out of what runs, vulnerabilities are asked for, digests kept."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
DIGEST = "sha256:" + "5" * 64


def locked(name: str) -> dict[str, str]:
    """Name, in small letters -> version."""
    pins = (line.split("==") for line in (REPOSITORY / name).read_text(encoding="utf-8").splitlines())
    return {package.lower(): version for package, version in pins}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of what the scripts read, with a folder `bin` for stand-ins of the programs that they call."""
    (tmp_path / "bin").mkdir()
    shutil.copytree(REPOSITORY / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml", "docker-compose.yml"):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def run(copy: Path, script: str, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a script of deploy/ with stand-ins: program -> its shell text."""
    for name, text in programs.items():
        program = copy / "bin" / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{copy / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [copy / "deploy" / script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_tools_of_development_are_in_their_own_lock() -> None:
    runtime, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {"torch", "mlflow", "ray"} <= set(runtime)
    assert {"pytest", "ruff", "mypy", "pip_audit", "types-pyyaml"} <= set(development)
    assert not set(runtime) & set(development)


def test_a_lock_is_what_the_project_needs_as_installed(copy: Path) -> None:
    done = subprocess.run([sys.executable, copy / "deploy" / "lock.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("requirements.lock", "requirements-dev.lock"):
        # An installation for GPUs, or for another Python, needs a few more or fewer: what both have is the same.
        ours, made = (folder.joinpath(name).read_text().splitlines() for folder in (REPOSITORY, copy))
        assert ours == sorted(ours, key=lambda row: row.partition("==")[0].lower())
        assert len(set(ours) & set(made)) > 0.9 * len(ours), name
    (copy / "pyproject.toml").write_text('[project]\ndependencies = ["no-such"]\n[dependency-groups]\ndev = []\n')
    done = subprocess.run([sys.executable, copy / "deploy" / "lock.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "no-such is needed and not installed: pip install it, then make lock\n"


def test_a_known_vulnerability_fails_the_audit(copy: Path) -> None:
    found = run(copy, "audit.sh", pip_audit='echo "torch 2.13.0 PYSEC-2026-1"; echo "Found 1 known" >&2; exit 1')
    assert found.returncode == 1
    assert "PYSEC-2026-1" in found.stdout


def test_an_accepted_vulnerability_is_passed_on_with_its_reason_kept(copy: Path) -> None:
    accepted = copy / "deploy" / "audit-accepted"
    assert accepted.read_text(encoding="utf-8").startswith("# ")
    accepted.write_text("# why\nPYSEC-2026-1  we never unpickle; until 2027\nPYSEC-2026-2\n", encoding="utf-8")
    found = run(copy, "audit.sh", pip_audit='echo "$@"')
    assert found.returncode == 0
    assert "--ignore-vuln PYSEC-2026-1 " in found.stdout
    assert "PYSEC-2026-2" not in found.stdout  # no reason, not accepted
    assert "--requirement requirements.lock --requirement requirements-dev.lock" in found.stdout


@pytest.mark.parametrize("error", ["requests.exceptions.ConnectionError: no route", "Could not connect to OSV's feed"])
def test_off_the_network_the_audit_says_so_and_fails_nothing(copy: Path, error: str) -> None:
    found = run(copy, "audit.sh", pip_audit=f'echo "Traceback" >&2; echo "{error}" >&2; exit 1')
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.count("\n") == 1 and "cannot be reached" in found.stdout


def test_a_lock_that_cannot_be_read_is_no_lack_of_network(copy: Path) -> None:
    found = run(copy, "audit.sh", pip_audit='echo "requirements.lock: invalid requirement" >&2; exit 1')
    assert (found.returncode, found.stderr) == (1, "requirements.lock: invalid requirement\n")


def test_images_are_pinned_by_the_digests_that_the_registry_gives(copy: Path) -> None:
    (copy / ".env").write_text("DRAGOMAN_MODEL=m\nPOSTGRES_IMAGE=old\n", encoding="utf-8")
    done = run(copy, "pin-images.sh", docker=f"echo {DIGEST}")
    assert done.returncode == 0, done.stderr
    rows = dict(line.split("=", 1) for line in (copy / ".env").read_text(encoding="utf-8").splitlines())
    named = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]+)\}", (copy / "docker-compose.yml").read_text()))
    public = ("ALERTMANAGER", "GRAFANA", "POSTGRES", "PROMETHEUS", "PYTHON", "SEAWEEDFS")
    assert set(named) == {f"{name}_IMAGE" for name in public}
    assert rows == {"DRAGOMAN_MODEL": "m"} | {name: f"{image}@{DIGEST}" for name, image in named.items()}


@pytest.mark.parametrize("docker", ["exit 1", "echo not a digest"])
def test_without_a_registry_nothing_is_pinned(copy: Path, docker: str) -> None:
    (copy / ".env").write_text("POSTGRES_IMAGE=kept\n", encoding="utf-8")
    assert run(copy, "pin-images.sh", docker=docker).returncode != 0
    assert (copy / ".env").read_text(encoding="utf-8") == "POSTGRES_IMAGE=kept\n"
