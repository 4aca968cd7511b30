"""`dragoman doctor`: what this machine offers, and what is missing. Starts and changes nothing."""

import contextlib
import importlib.metadata
import os
import platform
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import psutil

from dragoman.conf import compose
from dragoman.conf.showing import show
from dragoman.model import landlock
from dragoman.model.addresses import mask_address
from dragoman.model.columns import columns
from dragoman.model.processor import instruction_sets, processor
from dragoman.model.storage.places import local_folder
from dragoman.services.version import version

LIBRARIES = ("torch", "ray", "mlflow", "hydra-core", "webdataset", "ctranslate2", "sentencepiece", "sacrebleu", "numba")
TIMEOUT = 3.0  # seconds for one request over the network
GIB = 2**30


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


def main(argv: Sequence[str]) -> int:
    """Returns exit code 0, or 1 if something is missing."""
    return compose.run(doctor, DoctorRoot, argv, "doctor")


def doctor(root: DoctorRoot) -> int:
    """Prints all findings."""
    findings = [
        libraries(),
        *computer(local_folder(root.paths["root"], root.paths["cache"])),
        *torch(),
        confinement(),
        ray(root.cluster.get("address")),
        mlflow(str(root.tracking["uri"])),
    ]
    report = {finding.name: {"state": finding.state, "text": finding.text} for finding in findings}
    show([report], lambda: "\n".join(columns([(finding.state, finding.name, finding.text) for finding in findings])))
    return compose.FAILED if any(finding.state == "missing" for finding in findings) else compose.OK


def libraries() -> Finding:
    """Reports Dragoman, Python and the libraries' versions."""
    versions = [f"{version()}, Python {platform.python_version()}, {platform.platform()}"]
    for name in LIBRARIES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            return Finding("dragoman", "missing", f"{name}: not installed (pip install -r requirements.lock)")
    return Finding("dragoman", "ok", ", ".join(versions))


def computer(root: Path) -> Iterator[Finding]:
    """Reports the cores, memory and disks that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    busy = psutil.cpu_percent(0.5) / 100 * (os.cpu_count() or 1)
    text = f"{usable} of {os.cpu_count()} ({processor()}; {', '.join(instruction_sets())}), {busy:.1f} are in use"
    yield Finding("cores", "ok" if busy < 0.5 else "note", text)
    total, available = memory()
    text = f"{available / GIB:.1f} GiB available of {total / GIB:.1f} GiB"
    yield Finding("memory", "ok" if available >= 2 * GIB else "note", text)
    for name, path, least in (("disk", root, 2.0), ("shared memory", Path("/dev/shm"), 0.5)):
        there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        usage = shutil.disk_usage(there)
        text = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f} GiB at {path}"
        yield Finding(name, "ok" if usage.free >= least * GIB else "note", text)


def memory() -> tuple[int, int]:
    """Returns (all, available) in bytes, at most a container's limit."""
    use = psutil.virtual_memory()
    with contextlib.suppress(OSError, ValueError):  # no control group, or no limit ("max")
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        return min(use.total, limit), min(use.available, max(0, limit - used))
    return use.total, use.available


def torch() -> Iterator[Finding]:
    """Reports the GPUs, and what `train.precision=auto` takes on the CPU."""
    try:
        import torch

        from dragoman.model import precision
    except ImportError:
        return  # the libraries' line reports it
    cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    for index, card in enumerate(cards):
        bf16 = "bf16" if card.major >= 8 else "no bf16"
        text = f"{card.name}, {card.total_memory / GIB:.0f} GiB, sm_{card.major}{card.minor}, {bf16}"
        yield Finding(f"GPU {index}", "ok", text)
    if not cards:
        yield Finding("GPUs", "note", "none: training and serving run on the CPU")
    found = precision.bf16_instructions()
    text = f"{found}: train.precision=auto takes it" if found else "no instructions: train.precision=auto takes fp32"
    yield Finding("bf16", "ok" if found else "note", text)


def confinement() -> Finding:
    """Reports whether the kernel can keep files from the jobs of `dragoman up`."""
    if abi := landlock.version():
        return Finding("Landlock", "ok", f"version {abi}: a job's process opens the files of its job alone")
    return Finding("Landlock", "note", "none (Linux 5.19 has it): files are kept from jobs by the check of settings")


def ray(address: object) -> Finding:
    """Reports whether the configured cluster can be reached; an embedded one always can."""
    if not address or address == "auto":
        return Finding("Ray cluster", "ok", "embedded" if not address else "auto: the one on this machine, if any")
    text = str(address)
    parts = urlsplit(text if "://" in text else f"ray://{text}")
    if reachable(parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 6379)):
        return Finding("Ray cluster", "ok", f"{text} answers")
    return Finding("Ray cluster", "missing", f"{text} does not answer")


def mlflow(uri: str) -> Finding:
    """Reports whether records can be sent; a training also runs without."""
    masked = mask_address(uri)
    if uri.startswith("sqlite:///"):
        there = Path(uri.removeprefix("sqlite:///")).is_file()
        return Finding("MLflow", "ok", f"{masked} ({'is there' if there else 'made by the first run'})")
    parts = urlsplit(uri)
    if reachable(parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 5432)):
        return Finding("MLflow", "ok", f"{masked} answers")
    return Finding("MLflow", "note", f"{masked} does not answer: records wait on disk until it does")


def reachable(host: str, number: int) -> bool:
    """Returns True if a program listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, number), TIMEOUT):
        return True
    return False
