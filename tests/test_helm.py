"""The Helm chart: helm lints and renders it, and its objects are those of the kustomize overlays."""

import atexit
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests import ROOT, Manifest, rendered
from tests.test_kubernetes import OVERLAYS, check

CHART = ROOT / "deploy" / "helm" / "dragoman"


@cache
def program() -> str:
    here = Path(sys.executable).with_name("helm")
    found = str(here) if here.is_file() else shutil.which("helm")
    if found is None:
        pytest.skip("helm is not installed")
    return found


@cache
def chart() -> str:
    """Returns the folder of the chart as a release has it."""
    rendered("kueue")  # skips without kubectl
    folder = Path(tempfile.mkdtemp(prefix="dragoman-chart-")) / "dragoman"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    subprocess.run([sys.executable, str(ROOT / "deploy" / "chart.py"), str(folder)], capture_output=True, check=True)
    return str(folder)


def helm(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program(), *words], capture_output=True, text=True, timeout=60, check=False)


def values(overlay: str) -> str:
    return str(CHART / "ci" / f"{overlay}-values.yaml")


def template(*words: str) -> list[Manifest]:
    done = helm("template", "dragoman", chart(), "--namespace=dragoman", *words)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def by_name(found: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def as_text(manifest: Any) -> str:
    return yaml.safe_dump(manifest, sort_keys=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_its_objects_are_those_of_the_overlay(overlay: str) -> None:
    ours = by_name(template(f"--values={values(overlay)}"))
    for manifest in rendered(overlay):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "Namespace":  # helm makes it, or an administrator
            continue
        wanted = re.sub(r"ledger-database-\w+", "ledger-database", as_text(manifest))
        found = ours.pop((kind, re.sub(r"^(ledger-database)-\w+$", r"\1", name)))
        assert as_text(found) == wanted, f"{kind}/{name}: deploy/chart.py or values.yaml says something else"
        assert check(found) == []
    assert not ours


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_finds_nothing_wrong(overlay: str) -> None:
    done = helm("lint", "--strict", chart(), f"--values={values(overlay)}")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--set=executer=ray"], "executer"),
        (["--set=executor=slurm"], "executor"),
        (["--set=home.size=lots"], "size"),
        (["--set=images.train=dragoman train"], "train"),
        (["--set=endpoint.settings={--help}"], "settings"),
        (["--set=database.create=false"], "database.host"),
    ],
)
def test_a_value_that_cannot_be_is_refused(words: list[str], named: str) -> None:
    done = helm("template", "dragoman", chart(), *words)
    assert done.returncode != 0 and named in done.stderr


def test_a_site_says_namespace_secrets_settings_and_a_database_of_its_own() -> None:
    words = ("--namespace=mt", "--set=secrets.services=mt-secrets", "--set=jobs.settings={service.keep.failed=30}")
    done = helm(
        *("template", "mt", chart(), *words, "--set=database.create=false", "--set=database.host=pg.example"),
        *("--set=images.train=registry.example/train:7",),
    )
    assert done.returncode == 0, done.stderr
    found = by_name([one for one in yaml.safe_load_all(done.stdout) if one])
    namespaces = {one["metadata"].get("namespace") for one in found.values()}
    assert namespaces == {"mt", None}  # None: objects of the cluster
    pod = found["Deployment", "jobs"]["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    assert arguments[-2:] == ["service.keep.failed=30", "service.kueue.secret=mt-secrets"]
    assert "service.kueue.namespace=mt" in arguments
    assert {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} == {"mt-secrets"}
    assert found["ConfigMap", "dragoman-places"]["data"]["DRAGOMAN_TRAIN_IMAGE"] == "registry.example/train:7"
    assert found["Service", "postgres"]["spec"] == {"type": "ExternalName", "externalName": "pg.example"}
    assert ("StatefulSet", "postgres") not in found
    queue = found["ClusterQueue", "dragoman"]["spec"]
    assert queue["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "mt"}


def test_quotas_are_what_a_site_says() -> None:
    quota = {"name": "dragoman-cpu", "resources": [{"name": "cpu", "nominalQuota": 8}]}
    groups = json.dumps([{"coveredResources": ["cpu"], "flavors": [quota]}])
    found = by_name(template(f"--set-json=kueue.resourceGroups={groups}"))
    assert found["ClusterQueue", "dragoman"]["spec"]["resourceGroups"] == json.loads(groups)


def test_every_object_of_every_overlay_has_a_template() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in Path(chart()).glob("templates/*.yaml"))
    made = {
        (kind, name) for kind, name in re.findall(r"^kind: (\w+)\nmetadata:\n(?:  .*\n)*?  name: (\S+)$", written, re.M)
    }
    for overlay in OVERLAYS:
        objects = {
            (one["kind"], re.sub(r"^(ledger-database)-\w+$", r"\1", one["metadata"]["name"]))
            for one in rendered(overlay)
        }
        assert {one for one in objects if one[0] != "Namespace"} <= made


def test_its_version_is_ours() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["appVersion"]}"' in project and chart["version"] == chart["appVersion"]
    images = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["images"]
    assert {tag.rpartition(":")[2] for name, tag in images.items() if name != "postgres"} == {chart["appVersion"]}
