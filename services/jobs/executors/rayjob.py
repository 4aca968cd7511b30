"""An attempt as a RayJob of KubeRay: a Ray cluster of its own while it runs, queued by Kueue."""

import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dragoman.services.jobs.executors.base import Start
from dragoman.services.jobs.executors.pod import OBJECTS, training_pod
from dragoman.services.jobs.settings import KueueConfig
from dragoman.services.jobs.states import PRIORITY_NAMES

GROUP = "ray.io/v1"
JOB, OWNER, SERVICE = "dragoman/job", "dragoman/owner", "dragoman/service"  # label, annotation, label
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
STORE = {"object-store-memory": str(OBJECTS)}


def rayjob(
    start: Start, config: KueueConfig, home: Path, environment: dict[str, str], patience: float
) -> dict[str, Any]:
    """Returns the manifest. All pods see the folder `home`; a checkpoint may take `patience` seconds.

    The command runs on the head's pod if its workers are no processes of their own; otherwise the head has one CPU for
    it.
    """
    runner = [
        "python",
        "-m",
        "dragoman.services.jobs.runner",
        str(home),
        start.job,
        str(start.number),
        start.verb,
        *start.words,
    ]
    words = [*runner, *(["cluster.address=auto"] if start.spreads else [])]
    variables = {**environment, **start.variables()}
    head = (1.0, 0.0) if start.spreads else (start.cpus, start.gpus)

    def pod(name: str, cpus: float, gpus: float) -> dict[str, Any]:
        size = {"cpu": f"{cpus:g}", "memory": config.memory, **({"nvidia.com/gpu": f"{gpus:g}"} if gpus else {})}
        return {"spec": training_pod(name, size, config, str(home), variables, patience)}

    cluster: dict[str, Any] = {
        "rayVersion": config.ray or version("ray"),
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": f"{head[0]:g}", "disable-usage-stats": "true", **STORE},
            "template": pod("ray-head", *head),
        },
    }
    if start.spreads:
        count = {"replicas": start.workers, "minReplicas": start.workers, "maxReplicas": start.workers}
        template = pod("ray-worker", start.cpus, start.gpus)
        group = {"groupName": "workers", **count, "rayStartParams": {**STORE}, "template": template}
        cluster["workerGroupSpecs"] = [group]
    labels = {JOB: start.job, SERVICE: config.service, QUEUE: config.queue}
    if config.priorities:
        labels[PRIORITY] = f"{config.priorities}-{PRIORITY_NAMES.get(start.priority, 'normal')}"
    return {
        "apiVersion": GROUP,
        "kind": "RayJob",
        "metadata": {"name": start.id, "labels": labels, "annotations": {OWNER: start.owner}},
        "spec": {
            "entrypoint": _shell(words),
            "submissionMode": "K8sJobMode",
            "suspend": True,  # until Kueue admits it
            "backoffLimit": 0,  # the service retries, and counts
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": config.keep_seconds,
            "rayClusterSpec": cluster,
        },
    }


def _shell(words: list[str]) -> str:
    """Returns the shell command, with `exec` so that a signal reaches the runner; KubeRay hands it to a shell."""
    return f"exec {shlex.join(words)}"
