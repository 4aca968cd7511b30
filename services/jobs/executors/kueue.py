"""The executor for Kubernetes with KubeRay and Kueue: one RayJob per attempt.

Kueue owns the queue, the quotas, borrowing and preemption; the service reports what Kueue says of a job's Workload."""

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.executors.base import WAIT_VARIABLE, Observation, Start
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.settings import KueueConfig
from dragoman.services.jobs.states import PRIORITY_NAMES

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PATIENCE = 10.0  # seconds for an answer
EXISTS, MISSING = 409, 404


class Kubernetes:
    """An API server."""

    def __init__(self, server: str | None, token_file: str | None, authority: str | None) -> None:
        """Missing arguments are read from the pod's environment."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if server is None and host is None:
            raise ServiceError("service.kueue.server: this is no pod of a cluster; say where its API server is")
        self.token_file = Path(token_file) if token_file else ACCOUNT / "token"
        certificate = authority or str(ACCOUNT / "ca.crt")
        verify: ssl.SSLContext | bool = True
        if Path(certificate).exists():
            verify = ssl.create_default_context(cafile=certificate)
        elif authority is not None:
            raise ServiceError(f"service.kueue.authority: {authority} is not a file")
        self._http = httpx.Client(base_url=server or f"https://{host}:{port}", timeout=PATIENCE, verify=verify)

    def create(self, path: str, body: dict[str, Any]) -> bool:
        """Makes an object; returns False if one of that name exists."""
        return self._ask("POST", path, (EXISTS,), json=body).status_code != EXISTS

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Returns an object or a list; None if it does not exist."""
        answer = self._ask("GET", path, (MISSING,), params=query)
        content: dict[str, Any] | None = None if answer.status_code == MISSING else answer.json()
        return content

    def delete(self, path: str) -> None:
        """Deletes an object with its dependents; a missing one is no error."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._ask("DELETE", path, (MISSING,), json=body)

    def _ask(self, method: str, path: str, allowed: tuple[int, ...], **more: Any) -> httpx.Response:
        headers = {}
        if self.token_file.exists():
            headers["Authorization"] = f"Bearer {self.token_file.read_text(encoding='utf-8').strip()}"
        try:
            answer = self._http.request(method, path, headers=headers, **more)
        except httpx.HTTPError as problem:
            reason = str(problem) or type(problem).__name__
            raise ServiceError(f"the Kubernetes API does not answer ({reason})") from None
        if answer.is_success or answer.status_code in allowed:
            return answer
        try:
            message = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            message = f"HTTP {answer.status_code}"
        raise ServiceError(f"the Kubernetes API refuses {method} {path}: {message[:300]}")


HOME = "/home/dragoman"  # of the image's user
LOGIN = f"{HOME}/.mlflow"  # MLflow's clients read their login there
SECRETS = "/run/secrets/dragoman"  # AWS_SHARED_CREDENTIALS_FILE of the places points there
OBJECTS = 256 * 2**20  # bytes of Ray's object store, which must fit into /dev/shm; our data does not use it
GRACE = 30  # seconds beyond the checkpoint's time that a pod may take to end


def training_pod(
    name: str, size: Mapping[str, str], config: KueueConfig, home: str, variables: Mapping[str, str], patience: float
) -> dict[str, Any]:
    """Returns the specification of a pod with one container, `name`.

    Args:
        size: CPUs, memory and GPUs as Kubernetes writes them; requests and limits are the same.
        home: the folder that the service and all pods see, DRAGOMAN_HOME.
        variables: for its processes, beside those of the ConfigMap `config.places`.
        patience: seconds for a checkpoint before the pod ends.
    """
    environment = {**variables, "DRAGOMAN_HOME": home, "HOME": HOME, WAIT_VARIABLE: str(round(patience))}
    volumes = {
        "home": (home, {"persistentVolumeClaim": {"claimName": config.claim}}),
        "memory": ("/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": config.shared_memory}}),
        "secrets": (SECRETS, _secret(config.secret, "s3_credentials", "s3_credentials")),
        "login": (LOGIN, _secret(config.secret, "mlflow_credentials", "credentials")),
    }
    container = {
        "name": name,
        "image": config.image,
        "envFrom": [{"configMapRef": {"name": config.places}}],
        "env": [{"name": key, "value": value} for key, value in sorted(environment.items())],
        "resources": {"requests": dict(size), "limits": dict(size)},
        "volumeMounts": [
            {"name": key, "mountPath": path, **({"readOnly": True} if "secret" in source else {})}
            for key, (path, source) in volumes.items()
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        **({"priorityClassName": config.priority_class} if config.priority_class else {}),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": round(patience) + GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": config.user,
            "runAsGroup": config.user,
            "fsGroup": config.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": key, **source} for key, (_, source) in volumes.items()],
    }


def _secret(name: str, key: str, path: str) -> dict[str, Any]:
    return {"secret": {"secretName": name, "items": [{"key": key, "path": path}]}}


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
            "entrypoint": start.entrypoint("python", home),  # KubeRay hands it to a shell
            "submissionMode": "K8sJobMode",
            "suspend": True,  # until Kueue admits it
            "backoffLimit": 0,  # the service retries, and counts
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": config.keep_seconds,
            "rayClusterSpec": cluster,
        },
    }


KUEUE = "kueue.x-k8s.io/v1beta2"
SUFFIXES = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}  # of Kubernetes' quantities of CPUs and GPUs
JOBS = 1_000_000  # that may be submitted at once: they wait there


class KueueExecutor:
    """The executor in the namespace of `config`."""

    queues = True

    def __init__(
        self,
        config: KueueConfig,
        home: Path,
        environment: Mapping[str, str],
        patience: float,
        api: Kubernetes | None = None,
    ) -> None:
        """`home` is the folder that all pods see, `patience` the time for a checkpoint, in seconds."""
        self.config, self.home, self.environment, self.patience = config, home, dict(environment), patience
        self.api = api or Kubernetes(config.server, config.token_file, config.authority)
        self._jobs = f"/apis/{GROUP}/namespaces/{config.namespace}/rayjobs"
        self._workloads = f"/apis/{KUEUE}/namespaces/{config.namespace}/workloads"

    def submit(self, start: Start) -> None:
        self.api.create(self._jobs, rayjob(start, self.config, self.home, self.environment, self.patience))

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        found = self.api.get(self._jobs, labelSelector=f"{SERVICE}={self.config.service}") or {}
        jobs = {str(item["metadata"]["name"]): item for item in found.get("items", [])}
        workloads = self._by_job()
        return {start.id: _observed(jobs.get(start.id), workloads.get(start.id)) for start in starts}

    def stop(self, start: Start, request: Request) -> None:
        """Tells a running attempt to stop; removes a waiting one from Kueue's queue."""
        attempt = attempt_of(self.home, start.job, start.number)
        attempt.ask(request)
        if attempt.held() is None and self.observe([start])[start.id].state == "pending":
            self.kill(start)

    def kill(self, start: Start) -> None:
        self.api.delete(f"{self._jobs}/{start.id}")

    def capacity(self) -> Capacity:
        """Returns the quotas of all ClusterQueues together, only for plans: Kueue decides what may start."""
        queues = self.api.get(f"/apis/{KUEUE}/clusterqueues") or {}
        cpus = gpus = 0.0
        for queue in queues.get("items", []):
            for group in queue["spec"].get("resourceGroups", []):
                for flavor in group.get("flavors", []):
                    for resource in flavor.get("resources", []):
                        amount = quantity(str(resource["nominalQuota"]))
                        cpus += amount if resource["name"] == "cpu" else 0.0
                        gpus += amount if resource["name"] == "nvidia.com/gpu" else 0.0
        return Capacity((Node("kueue", cpus, gpus),), JOBS)

    def incarnation(self) -> str:
        """Returns a constant: every job has its own cluster, so none ends with another."""
        return f"kueue {self.config.namespace}"

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        return attempt_of(self.home, start.job, start.number).read_log(offset, limit)

    def _by_job(self) -> dict[str, dict[str, Any]]:
        """Returns Kueue's Workloads by the RayJob that each belongs to."""
        workloads = self.api.get(self._workloads) or {}
        return {
            str(owner["name"]): item
            for item in workloads.get("items", [])
            for owner in item["metadata"].get("ownerReferences", [])
            if owner.get("kind") == "RayJob"
        }


def _observed(job: dict[str, Any] | None, workload: dict[str, Any] | None) -> Observation:
    """Returns the RayJob's state if it has begun or ended, else the reason why its Workload waits."""
    if job is None:
        return Observation("absent")
    status = job.get("status") or {}
    state, deployment = status.get("jobStatus", ""), status.get("jobDeploymentStatus", "")
    message = str(status.get("message") or status.get("reason") or "")
    if state in ("SUCCEEDED", "FAILED", "STOPPED") or deployment in ("Complete", "Failed"):
        # an unknown exit code is not invented: without the attempt's own record it was lost
        return Observation(
            "ended", 0 if state == "SUCCEEDED" else None, message or f"the RayJob is {state or deployment}"
        )
    if deployment == "Running" and state == "RUNNING":
        return Observation("running")
    return Observation("pending", None, _waits(workload) or message)


def _waits(workload: dict[str, Any] | None) -> str:
    """Returns Kueue's newest message on a Workload that does not run yet."""
    if workload is None:
        return "Kueue has not seen it yet"
    conditions = {condition["type"]: condition for condition in (workload.get("status") or {}).get("conditions", [])}
    for kind, status_expected in (
        ("Evicted", "True"),
        ("QuotaReserved", "False"),
        ("Admitted", "False"),
        ("PodsReady", "False"),
    ):
        state = conditions.get(kind)
        if state is not None and state["status"] == status_expected:
            return f"Kueue: {state.get('message') or state.get('reason') or kind}"
    if conditions.get("Admitted", {}).get("status") == "True":
        return "Kueue has admitted it; its pods start"
    return "it stands in Kueue's queue"


def quantity(text: str) -> float:
    """Parses a number of Kubernetes: 8, 500m, 1.5, 2k."""
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)([mkMGT]?)", text)
    return float(match[1]) * SUFFIXES.get(match[2], 1.0) if match else 0.0
