"""The manifests of deploy/kubernetes: rendered by kustomize, valid by their own schemas with no unknown field, and
consistent with each other and with the code.

Not checked here: rules in CEL (x-kubernetes-validations), what an API server or an operator would do with them.
"""

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.manifests import KUBERNETES, LOADER, ROOT, Manifest, arguments, of, pods, rendered

SCHEMAS = ROOT.parent / "shared" / "schemas"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
EXAMPLES = [
    manifest
    for path in sorted((KUBERNETES / "examples").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
(TRAINING,) = (manifest for manifest in EXAMPLES if manifest["kind"] == "RayJob")


@pytest.fixture(params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return rendered(request.param)


@cache
def definition(group: str, version: str, kind: str) -> Draft202012Validator:
    """Returns the validator of a custom resource; it refuses fields that the definition does not have."""
    if not SCHEMAS.is_dir():
        pytest.skip("the custom resource definitions (../shared/schemas) are not on this machine")
    path = SCHEMAS / f"{group}_{kind.lower()}s.yaml"
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    (schema,) = (
        entry["schema"]["openAPIV3Schema"] for entry in content["spec"]["versions"] if entry["name"] == version
    )
    return Draft202012Validator(_strict(schema, top=True))


def _strict(schema: Any, top: bool = False) -> Any:
    if isinstance(schema, list):
        return [_strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict["properties"] = {key: _strict(value) for key, value in schema["properties"].items()}
        strict.setdefault("additionalProperties", False)
    if top:
        strict["properties"]["metadata"] = {"type": "object"}
    return strict


def faults(manifest: Manifest) -> list[str]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    if group == "monitoring.coreos.com":
        return []  # test_prometheus_reads_what_there_is_with_a_token looks at them
    if group.endswith(("ray.io", "x-k8s.io")):
        validator = definition(group, version, manifest["kind"])
        return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(manifest)]
    import kubernetes_validate

    try:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as problem:
        return [str(problem)[:400]]
    return []


def test_every_manifest_is_valid_by_its_own_schema() -> None:
    every = {json.dumps(one, sort_keys=True): one for overlay in OVERLAYS for one in rendered(overlay)}
    assert {f"{one['kind']}/{one['metadata']['name']}": bad for one in every.values() if (bad := faults(one))} == {}


def test_the_training_without_the_job_service_asks_for_what_there_is() -> None:
    assert TRAINING["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] in of(EXAMPLES, "LocalQueue")
    assert TRAINING["spec"]["suspend"] is True
    check_references([*rendered("ray"), TRAINING])
    for example in EXAMPLES:
        assert faults(example) == []


def test_what_manifests_name_is_there(manifests: list[Manifest]) -> None:
    check_references(manifests)


def check_references(manifests: list[Manifest]) -> None:
    secrets = set(re.findall(r"\w+", (ROOT / "deploy" / "make-secrets.sh").read_text(encoding="utf-8")))
    for name, pod in pods(manifests):
        assert pod["priorityClassName"] in of(manifests, "PriorityClass"), name
        assert pod.get("serviceAccountName", "dragoman-jobs") in of(manifests, "ServiceAccount"), name
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        volumes |= {"data": {}} if name.startswith("StatefulSet") else {}
        for volume in volumes.values():
            if "secret" in volume:
                assert volume["secret"]["secretName"] in ("dragoman", "dragoman-ray"), name
                assert {item["key"] for item in volume["secret"].get("items", [])} <= secrets, name
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


def test_pods_are_not_root_and_are_limited(manifests: list[Manifest]) -> None:
    for name, pod in pods(manifests):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False and rights["capabilities"] == {"drop": ["ALL"]}, name
            assert rights.get("readOnlyRootFilesystem") or name.startswith("Ray"), name
            assert container["resources"]["limits"]["memory"], name
            assert re.search(r":[\w.-]*\d", container["image"]), f"{name}: {container['image']} has no version"
            if not name.startswith("Ray"):  # KubeRay adds its own
                assert container["readinessProbe"] and container["livenessProbe"], name


def test_network_policies_open_the_ports_that_services_have(manifests: list[Manifest]) -> None:
    policies = of(manifests, "NetworkPolicy")
    assert policies["nobody"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    for name, service in of(manifests, "Service").items():
        policy = policies[name]["spec"]
        assert policy["podSelector"]["matchLabels"] == service["spec"]["selector"], name
        (rule,) = policy["ingress"]
        assert {port["port"] for port in rule["ports"]} == {port["port"] for port in service["spec"]["ports"]}, name
        assert rule["from"], name


def test_commands_are_verbs_and_settings_that_exist(manifests: list[Manifest]) -> None:
    from dragoman.conf import compose
    from dragoman.services.jobs.settings import UpRoot
    from dragoman.services.settings import ServeRoot

    program, verb, *words = arguments(manifests, "jobs")
    assert (program, verb) == ("dragoman", "up")
    service = compose.typed(UpRoot, compose.values(words, UpRoot)).service
    service.check()
    assert service.port == of(manifests, "Service")["jobs"]["spec"]["ports"][0]["port"]
    pod = of(manifests, "Deployment")["jobs"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > service.stop_timeout
    assert service.url and service.tracking_url, "links lead to where the pod listens"
    (cluster,) = of(manifests, "RayCluster")
    assert service.address == f"http://{cluster}-head-svc:8265"  # as KubeRay calls the head's Service
    program, verb, *words = arguments(manifests, "endpoint")
    assert (program, verb) == ("dragoman", "serve")
    serve = compose.typed(ServeRoot, compose.values(words, ServeRoot)).serve
    assert serve.port == of(manifests, "Service")["endpoint"]["spec"]["ports"][0]["port"] and serve.wait


def test_ray_is_of_the_version_that_is_locked() -> None:
    locked = re.search(r"^ray==(\S+)$", (ROOT / "requirements.lock").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert locked
    texts = (path.read_text(encoding="utf-8") for path in KUBERNETES.rglob("*.yaml"))
    assert {version for text in texts for version in re.findall(r"rayVersion: (\S+)", text)} == {locked[1]}


def test_the_ledgers_database_is_made_as_the_composition_makes_it() -> None:
    """kustomize reads no file outside of its folder."""
    ours, theirs = KUBERNETES / "base" / "ledger.sh", ROOT / "deploy" / "postgres" / "ledger.sh"
    assert ours.read_bytes() == theirs.read_bytes()


def test_what_is_open_to_people_is_behind_tls_and_known_by_its_name() -> None:
    manifests = rendered("site")
    places = of(manifests, "ConfigMap")["dragoman-places"]["data"]
    ingresses = of(manifests, "Ingress")
    assert set(ingresses) == {"jobs", "mlflow", "endpoint"}
    for name, ingress in ingresses.items():
        (rule,), (tls,) = ingress["spec"]["rules"], ingress["spec"]["tls"]
        assert tls["hosts"] == [rule["host"]] and tls["secretName"] == "dragoman-tls"
        (path,) = rule["http"]["paths"]
        service = path["backend"]["service"]
        assert service["name"] == name
        assert service["port"]["name"] in {port["name"] for port in of(manifests, "Service")[name]["spec"]["ports"]}
        assert ingress["spec"]["ingressClassName"]
        (policy,) = of(manifests, "NetworkPolicy")[name]["spec"]["ingress"]
        assert {"namespaceSelector": {"matchLabels": {"dragoman/people": "true"}}} in policy["from"], name
    hosts = {name: one["spec"]["rules"][0]["host"] for name, one in ingresses.items()}
    assert places["DRAGOMAN_JOBS_URL"] == f"https://{hosts['jobs']}"
    assert places["DRAGOMAN_TRACKING_URL"] == f"https://{hosts['mlflow']}"  # deploy/mlflow-server.sh lets it in


def test_prometheus_reads_what_there_is_with_a_token() -> None:
    manifests = rendered("site")
    monitors = of(manifests, "PodMonitor")
    assert set(monitors) == {"dragoman-jobs", "dragoman-endpoint"}
    for name, monitor in monitors.items():
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        app = monitor["spec"]["selector"]["matchLabels"]["app"]
        pod = of(manifests, "Deployment")[app]["spec"]["template"]
        assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}, name
        assert endpoint["path"] == "/metrics"
    (endpoint,) = monitors["dragoman-jobs"]["spec"]["podMetricsEndpoints"]
    credentials = endpoint["authorization"]["credentials"]
    secrets = (ROOT / "deploy" / "make-secrets.sh").read_text(encoding="utf-8")
    assert credentials["name"] == "dragoman" and credentials["key"] in re.findall(r"\w+", secrets)
