"""As much of a Kubernetes API as the executor asks: RayJobs and Workloads kept, checked against the operators' own
definitions where those are at hand, and conditions that a test replays as Kueue and KubeRay would set them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import yaml

SCHEMAS = Path(__file__).resolve().parents[4] / "shared" / "schemas"
TOKEN = "the pod's"


def definition(name: str, version: str) -> dict[str, Any] | None:
    """The schema of a custom resource; None where the definitions are not on this machine."""
    path = SCHEMAS / f"{name}.yaml"
    if not path.exists():
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    versions = yaml.load(path.read_text(encoding="utf-8"), loader)["spec"]["versions"]  # one of the two safe ones
    schema: dict[str, Any] = next(one for one in versions if one["name"] == version)["schema"]["openAPIV3Schema"]
    return schema


def closed(schema: Any) -> Any:
    """The same schema, refusing fields that it does not name, as the API server drops or refuses them."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
    if found.get("x-kubernetes-int-or-string"):
        found = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    return found


class Cluster:
    """What lies in it."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.workloads: dict[str, dict[str, Any]] = {}
        self.queues: list[dict[str, Any]] = []
        self.away = False
        self.schema: dict[str, Any] | None = None
        self.made: list[str] = []

    def create(self, body: dict[str, Any]) -> int:
        if self.schema is not None:
            jsonschema.Draft202012Validator(self.schema).validate(body)  # the definition itself is not in question
        name = body["metadata"]["name"]
        if name in self.jobs:
            return 409
        self.made.append(name)
        self.jobs[name] = {**body, "status": {}}
        owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": name, "uid": name}
        self.workloads[name] = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": f"rayjob-{name}-1a2b3", "ownerReferences": [owner]},
            "status": {"conditions": []},
        }
        return 201

    def say(self, name: str, kind: str, status: str, reason: str, message: str) -> None:
        """A condition as Kueue sets it: one of each kind, replaced."""
        conditions = self.workloads[name]["status"]["conditions"]
        conditions[:] = [one for one in conditions if one["type"] != kind]
        when = "2026-08-23T08:00:00Z"
        conditions.append(
            {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}
        )

    def status(self, name: str, **values: Any) -> None:
        """As KubeRay writes it."""
        self.jobs[name]["status"].update(values)


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path.endswith("/clusterqueues"):
                return self._answer(200, {"items": cluster.queues})
            if path.endswith("/workloads"):
                return self._answer(200, {"items": list(cluster.workloads.values())})
            wanted = parse_qs(urlsplit(self.path).query).get("labelSelector", ["="])[0].split("=")
            found = [one for one in cluster.jobs.values() if one["metadata"]["labels"].get(wanted[0]) == wanted[1]]
            return self._answer(200, {"items": found})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                code = cluster.create(body)
            except jsonschema.ValidationError as problem:
                return self._answer(422, {"kind": "Status", "message": f"{problem.json_path}: {problem.message}"})
            return self._answer(code, body if code == 201 else {"kind": "Status", "message": "already exists"})

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            name = self.path.rpartition("/")[2]
            found = cluster.jobs.pop(name, None)
            cluster.workloads.pop(name, None)
            self._answer(200 if found else 404, {"kind": "Status", "message": "gone" if found else "not found"})

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            if cluster.away or self.headers.get("Authorization") != f"Bearer {TOKEN}":
                code, body = (503, {"message": "away"}) if cluster.away else (401, {"message": "Unauthorized"})
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
