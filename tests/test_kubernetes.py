"""The manifests of deploy/kubernetes: rendered by kustomize, valid by Kubernetes', KubeRay's and Kueue's own schemas
with no unknown field, and of one mind with each other and with the code.

Not checked here: rules in CEL (x-kubernetes-validations), what an API server or an operator would do with them.
"""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dragoman.services.jobs.executors import kueue
from dragoman.services.jobs.executors.base import Start
from dragoman.services.jobs.executors.kueue import rayjob
from dragoman.services.jobs.settings import KueueConfig, ServiceConfig
from dragoman.services.jobs.up import subprocesses
from tests.manifests import KUBERNETES, ROOT, Manifest, arguments, of, pods, rendered, variables

SCHEMAS = ROOT.parent / "shared" / "schemas"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
EXAMPLES = sorted((KUBERNETES / "examples").glob("*.yaml"))


@pytest.fixture(params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return rendered(request.param)


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
    if group == "monitoring.coreos.com":
        return []  # its definitions are not at hand; test_prometheus_reads_what_there_is_with_a_token looks at them
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


@pytest.mark.long
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


def test_commands_are_verbs_and_settings_that_exist(manifests: list[Manifest]) -> None:
    from dragoman.conf import compose
    from dragoman.services.config import Config
    from dragoman.services.jobs.up.entry import UpRoot

    program, verb, *words = arguments(manifests, "jobs")
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
        assert kueue.places in of(manifests, "ConfigMap") and kueue.secret == "dragoman"
        assert kueue.priority_class in of(manifests, "PriorityClass")
        assert kueue.user == pod["securityContext"]["runAsUser"]
    assert service.url and service.tracking_url, "links lead to where the pod listens"
    if service.executor == "ray":
        (cluster,) = of(manifests, "RayCluster")
        assert service.address == f"http://{cluster}-head-svc:8265"  # as KubeRay calls the head's Service
    program, verb, *words = arguments(manifests, "endpoint")
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


START = Start("jab12-7", 2, "train", ("name=a",), "anna", 0, 2, 4.0, 1.0, True)
SECONDS = ServiceConfig().stop_timeout


def of_trainings() -> list[tuple[str, Manifest]]:
    """Every pod that trains: those that the job service makes, the standing cluster's, and the example's."""
    made = rayjob(START, KueueConfig(), Path("/data"), {}, SECONDS)
    examples = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in EXAMPLES]
    standing = list(of(rendered("ray"), "RayCluster").values())
    return list(pods([made, *standing, *examples]))


def by_name(things: list[Manifest]) -> dict[str, Manifest]:
    return {thing["name"]: thing for thing in things}


def test_every_pod_that_trains_is_the_one_that_a_single_function_renders() -> None:
    wanted = kueue.training_pod("", {}, KueueConfig(), "/data", {}, SECONDS)
    found = of_trainings()
    assert len(found) == 6
    for name, pod in found:
        (container,), (expected,) = pod["containers"], wanted["containers"]
        assert {key: pod[key] for key in wanted if key not in ("containers", "volumes")} == {
            key: wanted[key] for key in wanted if key not in ("containers", "volumes")
        }, name
        assert by_name(pod["volumes"]) == by_name(wanted["volumes"]), name
        assert by_name(container["volumeMounts"]) == by_name(expected["volumeMounts"]), name
        for key in ("envFrom", "securityContext"):
            assert container[key] == expected[key], (name, key)
        of_job = START.variables()
        own = {one["name"]: one["value"] for one in container["env"] if one["name"] not in of_job}
        assert own == {one["name"]: one["value"] for one in expected["env"]}, name


# What the libraries of a training read beside our code: botocore, and MLflow's client, whose login lies in the home.
OF_LIBRARIES = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_DEFAULT_REGION", "HOME"}
# What a pod is not given, and why.
WITHOUT = {
    "DRAGOMAN_KEY_FILE": "of clients of the job service",
    "DRAGOMAN_SERVICE": "the service adds it: rayjob's `environment`",
    "DRAGOMAN_CACHE": "the image's own folder does: ~/.cache/dragoman",
    "DRAGOMAN_PUBLIC_HOSTS": "a site's choice: service.environment",
    "DRAGOMAN_GRANT": "the service adds it to each attempt: Start.grant",
    "DRAGOMAN_RAY_FOLDER": "of a Ray beside `up`; in a pod Ray's folder is /tmp/ray, as Ray sets it",
    "HF_ENDPOINT": "of `dragoman import hf://`, which is no job",
    "TRACEPARENT": "only of a job that is traced",
    "DRAGOMAN_USAGE": "the runner of an attempt sets it, for what it starts",
    "CUDA_VISIBLE_DEVICES": "Ray sets it, by the GPUs of a worker",
    "RAY_ADDRESS": "KubeRay sets it",
    "RAY_AUTH_MODE": "KubeRay sets it, by authOptions",
    "RAY_AUTH_TOKEN_PATH": "KubeRay mounts the token",
    "OMP_NUM_THREADS": "Ray sets it by the CPUs of a worker",
    **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), "Ray Train or torchrun sets it"),
    "SACREBLEU_SEED": "a user's choice",
}


def read_by_trainings() -> set[str]:
    """The variables that conf/, model/ and pipelines/ read: by name, or by a constant of the same file."""
    found = set()
    for path in (ROOT / "conf").rglob("*.yaml"):
        found |= set(re.findall(r"\$\{(?:oc\.env|variable):(\w+)", path.read_text(encoding="utf-8")))
    for package in ("model", "pipelines"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in _texts(node))
            for node in ast.walk(tree):
                key: ast.expr | None = None
                if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                    key = node.slice if ast.unparse(node.value) == "os.environ" else None
                elif isinstance(node, ast.Call) and node.args:
                    key = node.args[0] if ast.unparse(node.func) in ("os.environ.get", "os.getenv") else None
                if isinstance(key, ast.Name):
                    key = ast.Constant(constants[key.id]) if key.id in constants else None
                if isinstance(key, ast.Constant):
                    found.add(str(key.value))
    return found


def _texts(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """Name and text of what `NAME = "text"` and `A, B = "a", "b"` assign."""
    for target in node.targets:
        names, values = [target], [node.value]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, values = target.elts, node.value.elts
        for name, value in zip(names, values, strict=True):
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield name.id, value.value


def test_a_pod_is_given_every_variable_that_a_training_reads() -> None:
    read = read_by_trainings()
    assert {"MLFLOW_TRACKING_URI", "DRAGOMAN_HOME", "DRAGOMAN_JOB", "RANK", "TRACEPARENT"} <= read
    for name, pod in of_trainings():
        given = variables(pod, rendered("kueue"))
        of_job = set() if "RayJob/jab12" in name else START.variables().keys()
        missing = (read | OF_LIBRARIES) - given.keys() - WITHOUT.keys() - of_job
        assert not missing, f"{name}: give it, or say in WITHOUT why not: {missing}"
        assert given["AWS_SHARED_CREDENTIALS_FILE"] == f"{kueue.SECRETS}/s3_credentials"
        assert given["HOME"] + "/.mlflow" == kueue.LOGIN
    assert WITHOUT.keys() <= read, "WITHOUT names what nobody reads"


def test_the_object_store_of_ray_fits_into_shared_memory() -> None:
    """Else Ray keeps it on a disk, or refuses to start."""
    assert kueue.OBJECTS == subprocesses.OBJECTS
    made = rayjob(START, KueueConfig(), Path("/data"), {}, SECONDS)["spec"]["rayClusterSpec"]
    standing = [one["spec"] for one in of(rendered("ray"), "RayCluster").values()]
    examples = [yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["rayClusterSpec"] for path in EXAMPLES]
    for cluster in (made, *standing, *examples):
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            assert group["rayStartParams"]["object-store-memory"] == str(kueue.OBJECTS)
    assert 2**30 * float(KueueConfig.shared_memory.removesuffix("Gi")) > kueue.OBJECTS


def test_jobs_without_gpus_take_nodes_without_them_first() -> None:
    (queue,) = of(rendered("gpu"), "ClusterQueue").values()
    (group,) = queue["spec"]["resourceGroups"]
    first, *others = group["flavors"]
    quotas = {one["name"]: one for one in first["resources"]}
    assert quotas["nvidia.com/gpu"]["nominalQuota"] == 0 == quotas["nvidia.com/gpu"]["borrowingLimit"]
    assert any(
        one["name"] == "nvidia.com/gpu" and one["nominalQuota"] for flavor in others for one in flavor["resources"]
    )


def test_the_home_of_all_pods_asks_for_a_class_by_name() -> None:
    """The default class of most clusters lets one node write."""
    for overlay in OVERLAYS:
        home = of(rendered(overlay), "PersistentVolumeClaim")["dragoman-home"]["spec"]
        assert home["storageClassName"] and home["accessModes"] == ["ReadWriteMany"], overlay


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
    hosts = {name: one["spec"]["rules"][0]["host"] for name, one in ingresses.items()}
    assert places["DRAGOMAN_JOBS_URL"] == f"https://{hosts['jobs']}"
    assert places["DRAGOMAN_TRACKING_URL"] == f"https://{hosts['mlflow']}"  # deploy/mlflow-server.sh lets it in
    for name in hosts:
        (rule,) = of(manifests, "NetworkPolicy")[name]["spec"]["ingress"]
        assert {"namespaceSelector": {"matchLabels": {"dragoman/people": "true"}}} in rule["from"], name


def test_prometheus_reads_what_there_is_with_a_token() -> None:
    manifests = rendered("site")
    monitors = of(manifests, "PodMonitor")
    assert set(monitors) == {"dragoman-jobs", "dragoman-endpoint"}
    for name, monitor in monitors.items():
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        app = monitor["spec"]["selector"]["matchLabels"]["app"]
        pod = of(manifests, "Deployment")[app]["spec"]["template"]
        assert pod["metadata"]["labels"]["app"] == app
        assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}, name
        assert endpoint["path"] == "/metrics"
    (endpoint,) = monitors["dragoman-jobs"]["spec"]["podMetricsEndpoints"]
    wanted = endpoint["authorization"]["credentials"]
    made = (ROOT / "deploy" / "make-secrets.sh").read_text(encoding="utf-8")
    assert wanted["name"] == "dragoman" and wanted["key"] in re.findall(r"\w+", made)


def test_the_page_names_versions_of_the_operators() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    assert re.search(r"KubeRay 1\.\d+", page) and re.search(r"Kueue 0\.\d+", page)
