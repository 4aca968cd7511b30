"""Write the Helm chart into a folder (`make chart`: dist/helm/dragoman), its templates from the kustomize overlays.

The overlays are the one source of what runs on Kubernetes. An object that all have becomes a template as it is; one
that only some have stands behind the condition of its overlay. VALUES says which fields a site sets in values.yaml.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parent
CHART = DEPLOY / "helm" / "dragoman"
NAMESPACE = SECRET = "dragoman"
NAMES = {  # in every object
    rf"^(\s+)namespace: {NAMESPACE}$": r"\1namespace: {{ .Release.Namespace }}",
    rf"kubernetes\.io/metadata\.name: {NAMESPACE}$": "kubernetes.io/metadata.name: {{ .Release.Namespace }}",
    rf"namespace={NAMESPACE}\b": "namespace={{ .Release.Namespace }}",
    rf"secretName: {SECRET}-ray$": "secretName: {{ .Values.secrets.ray | toJson }}",
    rf"secretName: {SECRET}$": "secretName: {{ .Values.secrets.services | toJson }}",
}
HEAD = "{{- /* Written by deploy/chart.py from deploy/kubernetes. */ -}}\n"
CONDITIONS = {  # of objects that only some overlays have, or have otherwise; the first that fits
    "ray": 'eq .Values.executor "ray"',
    "kueue": 'and (eq .Values.executor "kueue") (not .Values.kueue.gpus)',
    "gpu": 'and (eq .Values.executor "kueue") .Values.kueue.gpus',
    "kueue gpu": 'eq .Values.executor "kueue"',
    "site Ingress": ".Values.ingress.enabled",
    "site PodMonitor": ".Values.monitoring",
    "database": ".Values.database.create",
}
CONTAINER = "spec.template.spec.containers.0"
# The image of the pods that the job service makes, and their Secret, are said once.
PLACES = 'set (deepCopy .Values.places) "DRAGOMAN_TRAIN_IMAGE" .Values.images.train'
SETTINGS = (
    'concat .Values.jobs.settings (eq .Values.secrets.services "dragoman" | ternary list '
    '(list (printf "service.kueue.secret=%s" .Values.secrets.services)))'
)
GROUPS = "spec.resourceGroups"
# Kind/name, path of the field, and the expression that stands there: a whole field, or the part of a text.
VALUES: list[tuple[str, str, str, str]] = [
    ("ConfigMap/dragoman-places", "data", "", PLACES),
    ("PersistentVolumeClaim/dragoman-home", "spec.storageClassName", "", ".Values.home.storageClassName"),
    ("PersistentVolumeClaim/dragoman-home", "spec.resources.requests.storage", "", ".Values.home.size"),
    (
        "StatefulSet/postgres",
        "spec.volumeClaimTemplates.0.spec.resources.requests.storage",
        "",
        ".Values.database.size",
    ),
    ("StatefulSet/postgres", f"{CONTAINER}.image", "", ".Values.images.postgres"),
    ("StatefulSet/postgres", f"{CONTAINER}.resources", "", ".Values.database.resources"),
    ("Deployment/mlflow", f"{CONTAINER}.image", "", ".Values.images.mlflow"),
    ("Deployment/mlflow", f"{CONTAINER}.resources", "", ".Values.mlflow.resources"),
    ("Deployment/jobs", f"{CONTAINER}.image", "", ".Values.images.train"),
    ("Deployment/jobs", f"{CONTAINER}.resources", "", ".Values.jobs.resources"),
    ("Deployment/jobs", f"{CONTAINER}.args", "+", SETTINGS),
    ("Deployment/endpoint", f"{CONTAINER}.image", "", ".Values.images.endpoint"),
    ("Deployment/endpoint", f"{CONTAINER}.resources", "", ".Values.endpoint.resources"),
    ("Deployment/endpoint", f"{CONTAINER}.args", "phrasebook-en-de", ".Values.endpoint.model"),
    ("Deployment/endpoint", f"{CONTAINER}.args", "+", ".Values.endpoint.settings"),
    ("HorizontalPodAutoscaler/endpoint", "spec.minReplicas", "", ".Values.endpoint.least"),
    ("HorizontalPodAutoscaler/endpoint", "spec.maxReplicas", "", ".Values.endpoint.most"),
    ("ClusterQueue/dragoman", GROUPS, "?", ".Values.kueue.resourceGroups"),
    ("RayCluster/dragoman", "spec.headGroupSpec.template.spec.containers.0.image", "", ".Values.images.train"),
    ("RayCluster/dragoman", "spec.headGroupSpec.template.spec.containers.0.resources", "", ".Values.ray.head"),
    ("RayCluster/dragoman", "spec.workerGroupSpecs.0.template.spec.containers.0.image", "", ".Values.images.train"),
    ("RayCluster/dragoman", "spec.workerGroupSpecs.0.template.spec.containers.0.resources", "", ".Values.ray.worker"),
    ("RayCluster/dragoman", "spec.workerGroupSpecs.0.replicas", "", ".Values.ray.replicas"),
    ("RayCluster/dragoman", "spec.workerGroupSpecs.0.maxReplicas", "", ".Values.ray.most"),
    ("RayCluster/dragoman", "spec.authOptions.secretName", "", ".Values.secrets.ray"),
    *(
        entry
        for name in ("jobs", "mlflow", "endpoint")
        for entry in (
            (f"Ingress/{name}", "spec.ingressClassName", "", ".Values.ingress.className"),
            (f"Ingress/{name}", "spec.tls.0.secretName", "", ".Values.secrets.tls"),
            (f"Ingress/{name}", "spec.tls.0.hosts.0", "", f".Values.ingress.hosts.{name}"),
            (f"Ingress/{name}", "spec.rules.0.host", "", f".Values.ingress.hosts.{name}"),
        )
    ),
]
Manifest = dict[str, Any]


def render(overlay: str) -> dict[str, Manifest]:
    """Returns Kind/name -> object of an overlay."""
    beside = Path(sys.executable).with_name("kubectl")
    kubectl = str(beside) if beside.is_file() else shutil.which("kubectl") or "kubectl"
    command = [kubectl, "kustomize", str(DEPLOY / "kubernetes" / "overlays" / overlay)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"\bledger-database-\w+", "ledger-database", text)  # kustomize's hash of its content
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(text) if one}


def templates() -> dict[str, str]:
    """Returns file name -> content."""
    overlays = {name: render(name) for name in ("kueue", "gpu", "ray", "site")}
    files: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for found in overlays.values() for name in found):
        kind, _, own = name.partition("/")
        if kind == "Namespace":  # helm makes it: --create-namespace
            continue
        variants = list(_variants(name, overlays))
        texts = [_guarded(condition, _template(name, manifest)) for condition, manifest in variants]
        if own == "postgres" and kind == "Service":
            texts = [f"{{{{- if .Values.database.create }}}}\n{texts[0]}{{{{- else }}}}\n{EXTERNAL}{{{{- end }}}}\n"]
        elif own in ("postgres", "ledger-database"):
            texts = [_guarded(CONDITIONS["database"], texts[0])]
        files.setdefault(f"{_file(kind, own)}.yaml", []).extend(texts)
    return {name: HEAD + "".join(f"---\n{text}" for text in texts) for name, texts in sorted(files.items())}


EXTERNAL = """apiVersion: v1
kind: Service
metadata:
  labels:
    app.kubernetes.io/part-of: dragoman
  name: postgres
  namespace: {{ .Release.Namespace }}
spec:
  type: ExternalName
  externalName: {{ required "database.host: name your PostgreSQL, or database.create=true" .Values.database.host }}
"""


def _variants(name: str, overlays: dict[str, dict[str, Manifest]]) -> Iterator[tuple[str, Manifest]]:
    """Yields (condition, object); an empty condition for one that stands in all overlays alike."""
    kueue, gpu, ray = (overlays[overlay].get(name) for overlay in ("kueue", "gpu", "ray"))
    kind = name.partition("/")[0]
    if kueue is None and gpu is None and ray is None:
        yield CONDITIONS[f"site {kind}"], overlays["site"][name]
    elif kueue == gpu == ray and kueue is not None:
        yield "", kueue
    else:
        if ray is not None:
            yield CONDITIONS["ray"], ray
        if kueue is not None and kueue == gpu:
            yield CONDITIONS["kueue gpu"], kueue
        else:
            for overlay, found in (("kueue", kueue), ("gpu", gpu)):
                if found is not None:
                    yield CONDITIONS[overlay], found


def _template(name: str, manifest: Manifest) -> str:
    """Returns the object as a template."""
    found = json.loads(json.dumps(manifest))
    marks: dict[str, str] = {}
    for target, path, part, value in VALUES:
        if target != name:
            continue
        holder, key = _field(found, path)
        mark = f"@{len(marks)}@"
        if part == "":
            marks[f'"{mark}"'] = f"{{{{ {value} | toJson }}}}"
            holder[key] = mark
        elif part == "?":  # a default that is too long for values.yaml
            default = json.dumps(holder[key])
            marks[f'"{mark}"'] = f"{{{{ {value} | default (`{default}` | fromJsonArray) | toJson }}}}"
            holder[key] = mark
        elif part == "+":  # items of a list are added
            holder[key] = [*holder[key], mark]
            marks[f'  - "{mark}"'] = f"{{{{- range {value} }}}}\n  - {{{{ . | toJson }}}}\n{{{{- end }}}}"
        else:
            holder[key] = [text.replace(part, mark) for text in holder[key]]
            marks[mark] = f"{{{{ {value} }}}}"
    text = yaml.dump(found, sort_keys=True, width=4096, Dumper=Quoted)
    for mark, expression in marks.items():
        if mark.startswith("  - "):
            text = re.sub(rf"\n *- {re.escape(mark.strip(' -'))}", lambda _, by=expression: _indented(_, by), text)
        text = text.replace(mark, expression)
    if name.startswith("PodMonitor/"):
        text = text.replace(f"name: {SECRET}\n", "name: {{ .Values.secrets.services | toJson }}\n")
    for pattern, by in NAMES.items():
        text = re.sub(pattern, by, text, flags=re.MULTILINE)
    return text


def _indented(found: "re.Match[str]", expression: str) -> str:
    indent = re.match(r"\n *", found[0])
    return "\n" + expression.replace("\n  - ", (indent[0] if indent else "\n") + "- ")


class Quoted(yaml.SafeDumper):
    """Writes texts with marks in quotes, so that a whole one can be told from a part."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = '"' if "@" in value else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Quoted.add_representer(str, _text)
Quoted.ignore_aliases = lambda *_: True  # type: ignore[method-assign]  # every object is written out


def _field(manifest: Manifest, path: str) -> tuple[Any, Any]:
    """Returns the object or list that holds a field, and the field's key in it."""
    *parents, last = (int(one) if one.isdigit() else one for one in path.split("."))
    holder: Any = manifest
    for one in parents:
        holder = holder[one]
    return holder, last


def _guarded(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _file(kind: str, name: str) -> str:
    apart = {"Ingress": "ingress", "PodMonitor": "monitoring", "NetworkPolicy": "network", "RayCluster": "ray"}
    queues = ("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass")
    rights = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")
    if kind in queues or kind in rights:
        return "kueue" if kind in queues else "rights"
    return apart.get(kind, name if name in ("jobs", "mlflow", "endpoint", "postgres") else "shared")


def main(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHART, folder)
    for name, text in templates().items():
        (folder / "templates" / name).write_text(text, encoding="utf-8")
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY.parent / "dist" / "helm" / "dragoman"))
