"""`dragoman submit VERB ...`, `jobs`, `logs`, `stop`: runs the same command lines by Ray Jobs on a cluster.

A job runs `python -m services.cli VERB ...` on the head node, with `cluster.address=auto`, so that its workers are the
cluster's. The run's name is part of the command line, so submitting the same line again resumes the run.
"""

import asyncio
import getpass
import importlib
import itertools
import logging
import os
import shlex
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from conf import compose
from model.errors import UserError, unknown
from services.jobs.executors.ray_client import JobsConfig, details, nodes, talking
from services.jobs.stop_wait import stop_wait
from services.verbs import SHARED_MODULES, VERBS

LARGEST_UPLOAD = 100 * 2**20  # bytes; Ray's head refuses a larger working_dir
SPREADING = {"shard", "train", "compare"}  # commands that need the cluster's workers
ELSEWHERE = {  # commands that make no sense as a job
    *(
        "up",
        "submit",
        "jobs",
        "job",
        "why",
        "logs",
        "stop",
        "yield",
        "retry",
        "priority",
        "rm",
        "report",
        "sweep",
        "demo",
    )
}
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}
logger = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Runs `argv[0]`: submit, jobs, logs or stop. Returns the exit code; for `logs -f`, 0 if the job succeeded."""
    verb, *words = argv
    if verb == "submit":
        return _main_submit(words)
    if verb == "jobs":
        return compose.run_section(list_jobs, "jobs", JobsConfig, words, verb)
    follow = any(word in ("-f", "--follow") for word in words)
    words = [word for word in words if word not in ("-f", "--follow")]
    job = next((word for word in words if "=" not in word and not word.startswith("-")), None)
    rest = [word for word in words if word is not job]
    if job is None and not any(word.startswith("-") for word in words):
        raise UserError(f"say which job: dragoman {verb} JOB (dragoman jobs lists them)")
    if verb == "logs":
        return compose.run_section(lambda config: logs(config, str(job), follow), "jobs", JobsConfig, rest, verb)
    return compose.run_section(lambda config: stop(config, str(job)), "jobs", JobsConfig, rest, verb)


def _main_submit(words: list[str]) -> int:
    if not words or words[0].startswith("-") or "=" in words[0]:
        raise UserError("say which verb: dragoman submit VERB [key=value ...], for example dragoman submit train")
    verb, *rest = words
    allowed = [name for name in VERBS if name not in ELSEWHERE]
    if verb not in allowed:
        raise unknown("submit: verb", verb, allowed)
    # Options (--cfg job) are for the job; all other words are checked here as the command itself would.
    rehearsed = [word for word in rest if not word.startswith("-")]
    module = importlib.import_module(VERBS[verb].module)
    with compose.rehearsal():
        code: int = module.main([verb, *rehearsed] if VERBS[verb].module in SHARED_MODULES else rehearsed)
    if code != compose.OK:
        return code
    overrides = [word for word in rehearsed if "=" in word]
    return compose.run_section(lambda config: submit(config, verb, rest), "jobs", JobsConfig, overrides, "submit")


def submit(config: JobsConfig, verb: str, words: Sequence[str]) -> int:
    """Submits the command line to the cluster and prints the job's id.

    Raises:
        UserError: no cluster, no access, a working_dir that is too large, or more workers than the cluster can hold.
        ServiceError: the cluster did not accept the job.
    """
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    environment: dict[str, Any] = {"env_vars": {**stop_wait(overrides, config.stop_timeout), **config.environment}}
    if config.working_dir is not None:
        check_working_dir(Path(config.working_dir), config.exclude)
        environment |= {"working_dir": config.working_dir, "excludes": config.exclude}
    entrypoint = command(config, verb, words)
    job = submission_id(config.name, verb)
    with talking(config) as client:
        if verb in SPREADING:
            check_capacity(config, capacity(config, client))
        logger.info("submitting: %s", entrypoint)
        client.submit_job(
            entrypoint=entrypoint,
            submission_id=job,
            runtime_env=environment,
            metadata={"verb": verb, "name": config.name, "owner": getpass.getuser()},
        )
    print(job)
    logger.info("follow it: dragoman logs %s -f    stop it: dragoman stop %s", job, job)
    return compose.OK


def list_jobs(config: JobsConfig) -> int:
    """Prints a table of the newest jobs."""
    with talking(config) as client:
        found = [job for job in client.list_jobs() if job.submission_id]
    found.sort(key=lambda job: job.start_time or 0, reverse=True)
    rows = [("JOB", "STATUS", "VERB", "OWNER", "STARTED", "TOOK")]
    for job in found[: config.show]:
        facts = job.metadata or {}
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.start_time / 1000)) if job.start_time else "-"
        took = duration((job.end_time or time.time() * 1000) - job.start_time) if job.start_time else "-"
        rows.append(
            (job.submission_id, str(job.status.value), facts.get("verb", "-"), facts.get("owner", "-"), started, took)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    if len(found) > config.show:
        print(f"and {len(found) - config.show} older ones (jobs.show={len(found)})")
    return compose.OK


def logs(config: JobsConfig, job: str, follow: bool) -> int:
    """Prints the job's output; with `follow`, until it ends, and then returns 1 unless it succeeded."""
    with talking(config) as client:
        details(client, job)
        if not follow:
            sys.stdout.write(client.get_job_logs(job))
            return compose.OK

        async def tail() -> None:
            async for text in client.tail_job_logs(job):
                sys.stdout.write(text)
                sys.stdout.flush()

        asyncio.run(tail())
        ended = details(client, job)
    logger.info("%s: %s. %s", job, ended.status.value, ended.message or "")
    return compose.OK if ended.status == "SUCCEEDED" else compose.FAILED


def stop(config: JobsConfig, job: str) -> int:
    """Stops a job and waits until it has ended; an ended one is unchanged."""
    with talking(config) as client:
        if details(client, job).status not in ENDED:
            client.stop_job(job)
        deadline = time.monotonic() + config.stop_timeout
        while (status := details(client, job).status) not in ENDED and time.monotonic() < deadline:
            time.sleep(0.2)
    print(f"{job}: {status.value}")
    return compose.OK if status in ENDED else compose.FAILED


def command(config: JobsConfig, verb: str, words: Sequence[str]) -> str:
    """Returns the shell command of the job: the same words, with the cluster's own address instead of ours."""
    kept = [word for word in words if not word.lstrip("+~").startswith(("cluster.address", "jobs.", "jobs="))]
    local = any(word == "cluster.backend=local" for word in kept)
    address = [] if local or verb not in SPREADING else ["cluster.address=auto"]
    return shlex.join([config.python, "-m", "services.cli", verb, *kept, *address])


def submission_id(name: str, verb: str) -> str:
    """Returns a descriptive, unused id: NAME-VERB-TIME-RANDOM."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    return f"{safe}-{verb}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def capacity(config: JobsConfig, client: Any) -> dict[str, float]:
    """Returns the resources of all living nodes of the cluster together."""
    total: dict[str, float] = {}
    for node in nodes(config, client):
        if node.state == "ALIVE":
            for resource, amount in (node.resources_total or {}).items():
                total[resource] = total.get(resource, 0.0) + amount
    return total


def check_capacity(config: JobsConfig, total: dict[str, float]) -> None:
    """Refuses at once a job that would wait forever.

    Raises:
        UserError: the workers need more CPUs or GPUs than the cluster has in all.
    """
    needs = {"CPU": config.workers * config.cpus_per_worker}
    if config.device == "cuda":
        needs["GPU"] = config.workers * config.gpus_per_worker
    for resource, needed in needs.items():
        there = total.get(resource, 0.0)
        if needed > there:
            raise UserError(
                f"cluster.workers={config.workers}: needs {needed:g} {resource}s, the cluster at {config.address} has "
                f"{there:g}. Ask for fewer workers, or join more nodes to it"
            )


def check_working_dir(directory: Path, exclude: Sequence[str]) -> None:
    """Refuses a folder that the cluster would refuse after the upload.

    Raises:
        UserError: there is no such folder, or its files exceed 100 MiB.
    """
    if not directory.is_dir():
        raise UserError(f"jobs.working_dir: {directory} is not a folder")
    names = [pattern.removeprefix("**/") for pattern in exclude]
    total = 0
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in names)]
        kept = (name for name in files if not any(fnmatch(name, pattern) for pattern in names))
        total += sum((Path(folder) / name).lstat().st_size for name in kept)
    if total > LARGEST_UPLOAD:
        raise UserError(
            f"jobs.working_dir: {directory} has {total / 2**20:,.0f} MiB to send, at most {LARGEST_UPLOAD // 2**20} "
            f"are taken. Name large folders in jobs.exclude; corpora and shards belong on storage that the nodes share"
        )


def duration(milliseconds: float) -> str:
    """Returns a duration such as "3 s", "4 min 10 s", "2 h 5 min"."""
    seconds = int(milliseconds / 1000)
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    shown = list(itertools.dropwhile(lambda part: not part[0], parts))[:2] or [(0, "s")]
    return " ".join(f"{count} {unit}" for count, unit in shown)
