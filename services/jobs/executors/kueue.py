"""The executor for Kubernetes with KubeRay and Kueue: one RayJob per attempt.

Kueue owns the queue, the quotas, borrowing and preemption; the service reports what Kueue says of a job's Workload."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.services.jobs.executors.base import Observation, Start
from dragoman.services.jobs.executors.kubernetes import Kubernetes
from dragoman.services.jobs.executors.rayjob import GROUP, SERVICE, rayjob
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.settings import KueueConfig

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
        jobs = {str(one["metadata"]["name"]): one for one in found.get("items", [])}
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
        found = self.api.get(f"/apis/{KUEUE}/clusterqueues") or {}
        cpus = gpus = 0.0
        for queue in found.get("items", []):
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
        found = self.api.get(self._workloads) or {}
        return {
            str(owner["name"]): one
            for one in found.get("items", [])
            for owner in one["metadata"].get("ownerReferences", [])
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
    conditions = {one["type"]: one for one in (workload.get("status") or {}).get("conditions", [])}
    for kind, wanted in (
        ("Evicted", "True"),
        ("QuotaReserved", "False"),
        ("Admitted", "False"),
        ("PodsReady", "False"),
    ):
        one = conditions.get(kind)
        if one is not None and one["status"] == wanted:
            return f"Kueue: {one.get('message') or one.get('reason') or kind}"
    if conditions.get("Admitted", {}).get("status") == "True":
        return "Kueue has admitted it; its pods start"
    return "it stands in Kueue's queue"


def quantity(text: str) -> float:
    """Parses a number of Kubernetes: 8, 500m, 1.5, 2k."""
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)([mkMGT]?)", text)
    return float(found[1]) * SUFFIXES.get(found[2], 1.0) if found else 0.0
