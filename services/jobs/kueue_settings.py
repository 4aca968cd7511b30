"""The section `service.kueue`: where the `kueue` executor makes its jobs, and their pods."""

from dataclasses import dataclass

from dragoman.model.errors import UserError
from dragoman.model.ranges import Count, Whole


@dataclass
class KueueConfig:
    """A namespace of a Kubernetes cluster with KubeRay and Kueue. Times are in seconds."""

    server: str | None = None  # https://HOST:6443; null: the cluster that this pod runs in
    token_file: str | None = None  # null: the pod's own
    authority: str | None = None  # a file with the server's certificate authority; null: the pod's own
    namespace: str = "dragoman"
    queue: str = "dragoman"  # Kueue's LocalQueue
    priorities: str = "dragoman"  # WorkloadPriorityClasses NAME-low, NAME-normal, NAME-high; empty: none
    service: str = "dragoman"  # label of this service's jobs
    image: str = "dragoman-train"  # image of the pods
    ray: str | None = None  # its version of Ray; null: the version installed here
    claim: str = "dragoman-home"  # the PersistentVolumeClaim with DRAGOMAN_HOME, which the service mounts too
    places: str = "dragoman-places"  # the ConfigMap with the variables of every pod: MLflow's address, the bucket's
    secret: str = "dragoman"  # the Secret with mlflow_credentials and s3_credentials
    priority_class: str = "dragoman-training"  # of the pods; empty: the cluster's default
    user: Count = 10001  # user of the image; the volumes belong to its group
    memory: str = "8Gi"  # per pod
    shared_memory: str = "2Gi"  # the part of it for /dev/shm
    keep_seconds: Whole = 3600  # time that an ended RayJob stays

    def check(self) -> None:
        """Refuses invalid settings.

        Raises:
            UserError: names the key.
        """
        for name in ("namespace", "queue", "service", "image", "claim", "places", "secret", "memory", "shared_memory"):
            if not getattr(self, name):
                raise UserError(f"service.kueue.{name}: must not be empty")
