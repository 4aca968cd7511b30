"""`dragoman doctor`: reports what this machine offers and what is missing. Starts and changes nothing."""

import contextlib
import importlib.metadata
import logging
import os
import platform
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from dragoman.conf import compose
from dragoman.conf.showing import show
from dragoman.model import landlock
from dragoman.model.addresses import mask_address
from dragoman.model.columns import columns
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.processor import instruction_sets
from dragoman.model.storage import remote
from dragoman.model.storage.mirror import Remote, remote_of
from dragoman.model.storage.places import local_folder
from dragoman.model.storage.retry import ExistsError, Patience
from dragoman.services.commands import machine
from dragoman.services.jobs.executors.ray import AGENT_PORT
from dragoman.services.version import version

LIBRARIES = (
    *("torch", "numpy", "ray", "mlflow", "hydra-core", "omegaconf", "webdataset", "sentencepiece", "sacrebleu"),
    *("sacremoses", "safetensors", "ctranslate2", "fastapi", "uvicorn", "python-multipart", "zstandard", "matplotlib"),
    *("fsspec", "psutil", "httpx", "langcodes", "numba", "scipy", "scikit-learn"),
)
BUSY = 0.5  # cores in use by other programs that deserve a note
PATIENCE = 3.0  # seconds for one request over the network
BRIEF = Patience(PATIENCE)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """A line of the report. `note`: it works, with a limit; `missing`: a command will fail."""

    name: str
    state: Literal["ok", "note", "missing"]
    text: str


@dataclass
class DoctorRoot:
    """The sections that the command reads, as plain values; it does not check them."""

    paths: dict[str, Any]
    tracking: dict[str, Any]
    cluster: dict[str, Any]
    serve: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Returns exit code 0, or 1 if something is missing."""
    return compose.run(doctor, DoctorRoot, argv, "doctor")


def doctor(root: DoctorRoot) -> int:
    """Prints all findings."""
    questions: list[Callable[[], list[Finding]]] = [
        programs,
        computer,
        lambda: storage(local_folder(root.paths["root"], root.paths["cache"])),
        matrices,
        kernels,
        graphics,
        lambda: [ray(root.cluster.get("address")), agent(AGENT_PORT)],
        lambda: [mlflow(str(root.tracking["uri"]))],
        lambda: [port("serve.port", str(root.serve["host"]), int(root.serve["port"]))],
    ]
    findings = [finding for ask in questions for finding in ask()]
    report = {finding.name: {"state": finding.state, "text": finding.text} for finding in findings}
    show([report], lambda: "\n".join(columns([(finding.state, finding.name, finding.text) for finding in findings])))
    return compose.FAILED if any(finding.state == "missing" for finding in findings) else compose.OK


def programs() -> list[Finding]:
    """Reports Python, Dragoman and the libraries."""
    versions: dict[str, str] = {}
    absent = []
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
    findings = [
        Finding("dragoman", "ok", f"{version()}, Python {platform.python_version()}, {platform.platform()}"),
        Finding("libraries", "ok", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]
    if absent:
        text = f"{', '.join(absent)}: not installed (pip install -r requirements.lock)"
        findings.append(Finding("not installed", "missing", text))
    return findings


def computer() -> list[Finding]:
    """Reports cores, instruction sets and memory."""
    total, available = machine.memory()
    sets = instruction_sets()
    return [
        Finding("cores", "ok", machine.cores()),
        busy(machine.busy_cores()),
        Finding("instruction sets", "ok", ", ".join(sets) or "not known"),
        confinement(),
        Finding("memory", "ok" if available >= 2 else "note", f"{available:.1f} GiB available of {total:.1f} GiB"),
    ]


def busy(cores: float) -> Finding:
    """Reports how many cores other programs use now, since trainings here share them."""
    if cores < BUSY:
        return Finding("busy cores", "ok", f"{cores:.1f} are in use by other programs")
    return Finding(
        "busy cores",
        "note",
        f"{cores:.1f} are in use by other programs: trainings and benchmarks are slower as long as they run, and one "
        f"thread a process may be faster (OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1)",
    )


def confinement() -> Finding:
    """Reports whether the kernel can keep files from the jobs of `dragoman up`."""
    abi = landlock.version()
    if abi:
        return Finding("Landlock", "ok", f"version {abi}: a job's process opens the files of its job alone")
    return Finding(
        "Landlock", "note", "none (Linux 5.19 has it): files are kept from jobs by the check of their settings"
    )


def storage(root: Path) -> list[Finding]:
    """Reports free disk space for artefacts and for Ray's objects."""
    findings = []
    shared = Path("/dev/shm")
    for name, path, least in (("disk", root, 2.0), ("shared memory", shared, 0.5)):
        if name == "disk" or path.is_dir():
            total, free = machine.free_disk(path)
            enough: Literal["ok", "note"] = "ok" if free >= least else "note"
            findings.append(Finding(name, enough, f"{free:.1f} GiB free of {total:.1f} GiB at {path}"))
    elsewhere = remote_of(root)
    if elsewhere is not None:
        findings.append(bucket(elsewhere))
    home = os.environ.get("DRAGOMAN_HOME")
    findings.append(Finding("DRAGOMAN_HOME", "ok", home or "not set: artefacts go to the folder artifacts"))
    return findings


def bucket(elsewhere: Remote) -> Finding:
    """Reports whether objects below an address can be written, created only once, and read."""
    probe = elsewhere.at(f"doctor-{uuid.uuid4().hex}")
    try:
        began = time.monotonic()
        remote.create(probe, b"first", BRIEF)
        try:
            remote.create(probe, b"second", BRIEF)
            return Finding(
                "bucket", "missing", f"{elsewhere.address}: overwrites existing objects on create; see storage.md"
            )
        except ExistsError:
            took = (time.monotonic() - began) / 3
        finally:
            remote.delete(probe, BRIEF)
    except (ServiceError, UserError) as problem:
        return Finding("bucket", "missing", str(problem))
    return Finding(
        "bucket", "ok", f"{elsewhere.address}: written, created once and read; {1000 * took:.0f} ms per request"
    )


def matrices() -> list[Finding]:
    """Reports the choice of `train.precision=auto` on the CPU."""
    try:
        import torch

        from dragoman.model import precision
    except ImportError:
        return []  # the libraries' line reports it
    instructions = precision.bf16_instructions()
    refusal = precision.cannot_run(torch.nn.LSTM(1, 1), "bf16", torch.device("cpu"))
    state: Literal["ok", "note"] = "ok" if instructions and not refusal else "note"
    text = (
        f"{instructions}: train.precision=auto takes it"
        if instructions
        else "no instructions: train.precision=auto takes fp32"
    )
    return [
        Finding("torch threads", "ok", str(torch.get_num_threads())),
        Finding("bf16", state, f"{text}; {refusal}" if refusal else text),
    ]


def kernels() -> list[Finding]:
    """Reports the processor that numba compiles the kernels of word vectors for."""
    try:
        return [Finding("numba", "ok", f"compiles the kernels of word vectors for {machine.compiled_for()}")]
    except ImportError:
        return []  # the libraries' line reports it


def graphics() -> list[Finding]:
    """Reports the GPUs."""
    try:
        lines = machine.gpus()
    except ImportError:
        return []
    if not lines:
        return [Finding("GPUs", "note", "none: training and serving run on the CPU")]
    return [Finding(f"GPU {index}", "ok", line) for index, line in enumerate(lines)]


def ray(address: object) -> Finding:
    """Reports whether the configured cluster can be reached; an embedded one always can."""
    if not address:
        return Finding("Ray cluster", "ok", "embedded: started for a command and ended with it")
    text = str(address)
    if text == "auto":
        return Finding("Ray cluster", "note", "auto: the one that runs on this machine, if there is one")
    parts = urlsplit(text if "://" in text else f"ray://{text}")
    reached = reachable(parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 6379))
    return Finding(
        "Ray cluster", "ok" if reached else "missing", f"{text} {'answers' if reached else 'does not answer'}"
    )


def agent(number: int) -> Finding:
    """Reports whether a `ray start --head` on this machine could accept jobs: its agent has a fixed port."""
    if port("", "0.0.0.0", number).state == "ok":
        return Finding("Ray agent", "ok", f"{number} is free: ray start --head here would accept jobs")
    return Finding(
        "Ray agent",
        "note",
        f"{number} is in use, by the cluster that runs here or by another program: beside it start a head with "
        f"--dashboard-agent-listen-port=0, or it accepts no jobs",
    )


def mlflow(uri: str) -> Finding:
    """Reports whether records can be sent; a training also runs without."""
    masked = mask_address(uri)
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///"))
        return Finding("MLflow", "ok", f"{masked} ({'is there' if path.is_file() else 'made by the first run'})")
    if uri.startswith(("http://", "https://")):
        import httpx

        try:
            code = httpx.get(f"{uri.rstrip('/')}/health", timeout=PATIENCE).status_code
            return Finding("MLflow", "ok" if code == 200 else "note", f"{masked} answers (status {code})")
        except httpx.HTTPError as problem:
            reason = type(problem).__name__
            return Finding("MLflow", "note", f"{masked} does not answer ({reason}): records wait on disk until it does")
    parts = urlsplit(uri)
    reached = parts.hostname is not None and reachable(parts.hostname, parts.port or 5432)
    return Finding("MLflow", "ok" if reached else "note", f"{masked} {'answers' if reached else 'does not answer'}")


def port(key: str, host: str, number: int) -> Finding:
    """Reports whether the endpoint could open its port now."""
    if number == 0:
        return Finding(key, "ok", "a free one will be taken")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as problem:
            return Finding(key, "note", f"{number} on {host}: {problem.strerror} ({key}=0 takes a free one)")
    return Finding(key, "ok", f"{number} is free on {host}")


def reachable(host: str, number: int) -> bool:
    """Returns True if a program listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, number), PATIENCE):
        return True
    return False
