"""The pod of a training's processes: places, logins and volumes, the same for every pod of a Ray cluster.

The standing cluster (deploy/kubernetes/overlays/ray) and Kueue's example contain the same; a test compares them.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.services.jobs.executors.base import WAIT_VARIABLE
from dragoman.services.jobs.settings import KueueConfig

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
