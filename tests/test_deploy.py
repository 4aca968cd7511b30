"""The images and the composition: valid by their own schemas and linters, and of one mind with the code."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

from deploy import lock
from dragoman.services.verbs import VERBS

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"


def filled(text: str) -> str:
    """A word of the composition as Compose reads it where nothing is set."""
    return re.sub(r"(?<!\$)\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")


def run(*words: str) -> None:
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def composition() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def stages() -> dict[str, str]:
    """Stage name -> its text."""
    parts = re.split(r"^FROM \S+ AS (\w+)$", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("file", ["docker-compose.yml", "docker-compose.gpu.yml"])
def test_the_composition_fits_its_schema(file: str, composition: dict[str, Any]) -> None:
    run(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", file)
    laid_over = yaml.safe_load((REPOSITORY / file).read_text(encoding="utf-8"))
    assert set(laid_over["services"]) <= set(composition["services"])


def test_the_dockerfile_passes_its_linter() -> None:
    run(str(BIN / "hadolint"), str(DOCKERFILE))


@pytest.mark.parametrize("script", sorted((REPOSITORY / "deploy").rglob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_valid_shell_and_may_be_run(script: Path) -> None:
    run("sh", "-n", str(script))
    assert script.stat().st_mode & 0o111


def test_every_service_is_built_from_a_stage_or_named_with_a_version(
    composition: dict[str, Any], stages: dict[str, str]
) -> None:
    ours = {"s3", "buckets", "mlflow", "ray-head", "ray-worker", "jobs", "endpoint"}
    assert {name for name, service in composition["services"].items() if "build" in service} == ours
    assert set(composition["services"]) - ours == {"postgres", "prometheus", "alertmanager", "grafana"}
    for name, service in composition["services"].items():
        if "build" in service:
            assert service["build"]["target"] in stages, name
        else:
            assert re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[a-z/]+:v?\d+\.\d\S+\}", service["image"]), name


def test_every_service_is_watched_limited_and_no_root(composition: dict[str, Any], stages: dict[str, str]) -> None:
    """Health, rights, memory, processes, logs that do not fill the disk, and ports for this machine only."""
    for name, service in composition["services"].items():
        stage = stages.get(service.get("build", {}).get("target"), "")
        assert "healthcheck" in service or "HEALTHCHECK" in stage, name
        if service.get("healthcheck", {}).get("disable"):
            assert service["restart"] == "on-failure", f"{name} does not end by itself"
        users = re.findall(r"^USER (\S+)$", stage, flags=re.MULTILINE) or [service["user"]]
        assert users[-1].partition(":")[0] not in ("root", "0"), name
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert re.fullmatch(r"\$\{[A-Z_]+_MEMORY:-\d+gb\}", service["mem_limit"]), name
        assert 0 < service["pids_limit"] <= 8192, name
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    writing = {name for name, service in composition["services"].items() if not service.get("read_only")}
    assert writing == {"ray-head", "ray-worker"}, "only what trains may write beside its volumes"


def test_what_a_service_mounts_of_the_repository_is_there_and_read_only(composition: dict[str, Any]) -> None:
    for name, service in composition["services"].items():
        for volume in service.get("volumes", []):
            source, _, target = volume.partition(":")
            if source.startswith("."):
                assert (REPOSITORY / source).exists() and target.endswith(":ro"), name
            else:
                assert source in composition["volumes"], name


def test_secrets_are_files_and_no_value_stands_in_the_composition(composition: dict[str, Any]) -> None:
    for secret in composition["secrets"].values():
        assert list(secret) == ["file"]
    for service in composition["services"].values():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|SECRET|KEY", key):
                assert str(value).startswith("/run/secrets/"), key
        mounted = {secret if isinstance(secret, str) else secret["source"] for secret in service.get("secrets", [])}
        assert mounted <= set(composition["secrets"])
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert not any("secrets" in line for line in ignored)


def test_the_cpus_of_the_machine_are_counted_once(composition: dict[str, Any], tmp_path: Path) -> None:
    head, worker = (composition["services"][name] for name in ("ray-head", "ray-worker"))
    assert "--num-cpus=1" in head["command"]  # for what starts jobs, as `dragoman up` has it
    assert worker["deploy"]["replicas"] == "${RAY_WORKERS:-1}" == worker["environment"]["RAY_WORKERS"]
    for name, says in (("ray", 'echo "$@"'), ("nproc", "echo $CORES")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)

    def counted(cores: int, workers: int, cpus: str = "") -> str:
        variables = {"CORES": str(cores), "RAY_WORKERS": str(workers), "RAY_CPUS": cpus}
        environment = {"PATH": f"{tmp_path}:{os.defpath}", **variables}
        command = [filled(word) for word in worker["command"]]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
        found = re.search(r"--num-cpus=(\S+) ", said)
        assert found and said.startswith("start --block --address=ray-head:6379 "), said
        return found[1]

    assert [counted(8, 1), counted(8, 3), counted(1, 2), counted(8, 2, "6")] == ["8", "2", "1", "6"]


def test_the_object_store_of_ray_fits_into_shared_memory(composition: dict[str, Any]) -> None:
    for name in ("ray-head", "ray-worker"):
        service = composition["services"][name]
        store = re.search(r"--object-store-memory=(\d+)", " ".join(service["command"]))
        assert store and int(store[1]) < int(service["shm_size"].removesuffix("gb")) * 2**30, name


@pytest.mark.parametrize(
    ("code", "status", "healthy"), [(200, "ok", True), (503, "loading", True), (503, "stopped", False)]
)
def test_an_endpoint_that_waits_for_a_promotion_is_healthy(
    code: int, status: str, healthy: bool, stages: dict[str, str]
) -> None:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"status": status}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*?\])$", stages["endpoint"], flags=re.DOTALL | re.MULTILINE)
    assert found
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        program, *words = json.loads(found[1].replace("5050", str(server.server_address[1])))
        assert program == "python"
        done = subprocess.run([sys.executable, *words], capture_output=True, timeout=60, check=False)
    assert (done.returncode == 0) == healthy, done.stderr


def test_the_tracking_server_asks_for_the_login_that_its_clients_read(
    composition: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.utils.credentials import read_mlflow_creds

    shutil.copytree(REPOSITORY / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    secrets = tmp_path / "deploy" / "secrets"
    for _ in range(2):  # once made, they stay
        run(str(tmp_path / "deploy" / "make-secrets.sh"))
        made = {path.name: path.read_text() for path in secrets.iterdir()}
    assert set(made) == set(composition["secrets"])
    assert secrets.stat().st_mode & 0o077 == 0
    assert json.loads(made["s3_config"])["identities"][0]["credentials"][0]["secretKey"] in made["s3_credentials"]
    for name in ("ray-head", "ray-worker", "jobs", "endpoint"):
        mounted = {"source": "mlflow_credentials", "target": "/home/dragoman/.mlflow/credentials"}
        assert mounted in composition["services"][name]["secrets"]

    (tmp_path / ".mlflow").mkdir()
    shutil.copy(secrets / "mlflow_credentials", tmp_path / ".mlflow" / "credentials")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    user, password = read_mlflow_creds()
    assert user == "dragoman" and password and len(password) == 64

    mlflow = tmp_path / "mlflow"
    mlflow.write_text(
        '#!/bin/sh\necho "$@"\nprintenv MLFLOW_AUTH_ADMIN_USERNAME\nprintenv MLFLOW_AUTH_ADMIN_PASSWORD\n'
        'printenv MLFLOW_FLASK_SERVER_SECRET_KEY\ncat "$MLFLOW_AUTH_CONFIG_PATH"\n'
    )
    mlflow.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "POSTGRES_PASSWORD_FILE": str(secrets / "postgres_password"),
        "MLFLOW_CREDENTIALS_FILE": str(secrets / "mlflow_credentials"),
    }
    server = REPOSITORY / "deploy" / "mlflow-server.sh"
    said = subprocess.run([server], env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    command, admin, its_password, key, *settings = said.splitlines()
    assert command.startswith("server --app-name basic-auth ")
    assert (
        ",localhost:5000 --cors-allowed-origins http://localhost:5000 " in command
    )  # no address is given: this machine
    assert (admin, its_password) == (user, password) and len(key) == 64
    database = f"postgresql+psycopg://mlflow:{made['postgres_password']}@postgres:5432/mlflow"
    remembered = "auth_cache_ttl_seconds = 60"
    assert settings == ["[mlflow]", "default_permission = READ", remembered, f"database_uri = {database}"]
    assert not any(secret in command for secret in (password, key, made["postgres_password"]))
    environment["DRAGOMAN_TRACKING_URL"] = "https://mlflow.example/of/dragoman"
    said = subprocess.run([server], env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert ",mlflow.example --cors-allowed-origins https://mlflow.example " in said
    del environment["MLFLOW_CREDENTIALS_FILE"]
    assert subprocess.run([server], env=environment, capture_output=True, timeout=60, check=False).returncode != 0


def test_what_the_images_copy_exists_and_is_sent_to_the_builder(stages: dict[str, str]) -> None:
    sent = {
        line[1:] for line in (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"
    }
    for text in stages.values():
        for line in re.findall(r"^COPY (?:--\S+ )?(.+)$", text, flags=re.MULTILINE):
            for source in line.split()[:-1]:
                assert (REPOSITORY / source).exists() or source == "README.md", source
                assert source in sent, source


# What files of the endpoint import for other verbs.
ELSEWHERE = {
    "numba": "word vectors are trained with it, and answered without",
    "zstandard": "corpora are read with it; no document of a request is so compressed",
}


def libraries(stages: dict[str, str]) -> list[str]:
    """What the endpoint's image installs beside our code."""
    block = stages["endpoint"].partition("requirements.lock \\\n")[2].partition("\nCOPY")[0]
    return [name.strip('"') for name in block.replace("\\\n", " ").split()]


def test_the_image_of_the_endpoint_has_what_its_program_imports(stages: dict[str, str]) -> None:
    """At the top of its files and inside of functions."""
    installed = lock.needed(libraries(stages)).keys()
    assert "fastapi-offline" in installed  # whose files /docs is made of
    owners = importlib.metadata.packages_distributions()
    seen: set[Path] = set()
    waiting = [REPOSITORY / "services" / name for name in ("cli.py", "entries.py", "endpoint/serve.py")]
    missing = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in imported(path):
            short = name.removeprefix("dragoman.").replace(".", "/")
            ours = [REPOSITORY / f"{short}{end}" for end in (".py", "/__init__.py")]
            waiting += [one for one in ours if one.is_file()]
            top = name.partition(".")[0]
            if top in owners and not any(canonicalize_name(one) in installed for one in owners[top]):
                missing.add(top)
    assert missing - {"dragoman"} == ELSEWHERE.keys()
    assert not any("pipelines" in path.parts for path in seen)


def imported(path: Path) -> set[str]:
    """Modules that a file imports, when it is imported or later."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_the_job_services_command_is_what_its_settings_take(composition: dict[str, Any]) -> None:
    from dragoman.conf import compose
    from dragoman.services.jobs.settings import UpRoot

    service = composition["services"]["jobs"]
    assert service["command"][:2] == ["dragoman", "up"]
    config = compose.typed(UpRoot, compose.values([filled(word) for word in service["command"][2:]], UpRoot)).service
    config.check()
    mounted = {secret if isinstance(secret, str) else secret["source"] for secret in service["secrets"]}
    files = {config.ledger_password, *config.tokens.values(), service["environment"]["RAY_AUTH_TOKEN_PATH"]}
    assert files <= {f"/run/secrets/{name}" for name in mounted}
    assert not config.tracking and not config.endpoint and set(config.tokens) == {"admin", "metrics"}
    assert [filled(port) for port in service["ports"]] == [f"127.0.0.1:{config.port}:{config.port}"]
    assert config.url and config.tracking_url, "links lead to where the container listens"
    for name in ("jobs", "ray-head", "ray-worker"):  # what runs makes a checkpoint before any of them goes
        period = float(composition["services"][name]["stop_grace_period"].removesuffix("s"))
        assert period > config.stop_timeout, name


def test_commands_are_verbs_and_keys_that_exist(composition: dict[str, Any]) -> None:
    from dragoman.conf import compose
    from dragoman.services.settings import ServeRoot

    command = composition["services"]["endpoint"]["command"]
    assert command[0] == "dragoman"
    assert command[1] in VERBS
    overrides = [filled(word) for word in command[2:]]
    config = compose.typed(ServeRoot, compose.values(overrides, ServeRoot))
    assert (config.serve.host, config.serve.wait) == ("0.0.0.0", True)
    (port,) = composition["services"]["endpoint"]["ports"]
    assert filled(port) == f"127.0.0.1:{config.serve.port}:{config.serve.port}"
