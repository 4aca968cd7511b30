"""Alerts and dashboards: the rules are sound, each fires, and Grafana finds what it provisions. What the dashboards
show of running services is in services/test_dashboards.py."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return found


def alerts() -> set[str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"]}


def test_the_rules_are_sound(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_its_configuration(promtool: str) -> None:
    config = RULES.with_name("prometheus.yml")
    done = subprocess.run(
        [promtool, "check", "config", "--syntax-only", str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_for_its_trouble_and_none_while_all_is_well(promtool: str) -> None:
    tests = RULES.with_name("rules.test.yml")
    done = subprocess.run([promtool, "test", "rules", str(tests)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    content: dict[str, Any] = yaml.safe_load(tests.read_text(encoding="utf-8"))
    well, *troubles = content["tests"]
    assert {one["alertname"] for one in well["alert_rule_test"] if "exp_alerts" not in one} == alerts()
    fired = {one["alertname"] for trouble in troubles for one in trouble["alert_rule_test"] if one.get("exp_alerts")}
    assert fired == alerts()


def test_alerts_reach_a_receiver_whose_address_is_a_secret() -> None:
    """No Alertmanager is at hand: its file is compared with what the composition mounts and Prometheus names."""
    composition = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text(encoding="utf-8"))
    told = yaml.safe_load(RULES.with_name("prometheus.yml").read_text(encoding="utf-8"))["alerting"]["alertmanagers"]
    host, _, port = told[0]["static_configs"][0]["targets"][0].partition(":")
    service = composition["services"][host]
    assert service["ports"][0].endswith(f":{port}")
    file = service["command"][0].partition("=")[2]
    folder, _, mounted = service["volumes"][0].partition(":")
    assert file.startswith(mounted.partition(":")[0])
    found = yaml.safe_load((DEPLOY.parent / folder / Path(file).name).read_text(encoding="utf-8"))
    receivers = {one["name"]: one for one in found["receivers"]}
    assert {found["route"]["receiver"], *(one["receiver"] for one in found["route"]["routes"])} == set(receivers)
    (webhook,) = receivers["people"]["webhook_configs"]
    assert [f"/run/secrets/{name}" for name in service["secrets"]] == [webhook["url_file"]]


def test_each_alert_names_its_section_of_the_runbook() -> None:
    page = (DEPLOY.parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (Dragoman\w+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    assert set(sections) == set(rules), "a section for each alert, and no other"
    for name, rule in rules.items():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
        for part in ("**Means.**", "**Look.**", "**Do.**", "```sh\n"):
            assert part in sections[name], f"{name} lacks {part}"
    metrics = {name for text in sections.values() for name in re.findall(r"`(dragoman_\w+)", text)}
    told = (DEPLOY.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert all(name in told for name in metrics)
