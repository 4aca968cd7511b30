"""The endpoint on a Ray cluster: the application's lifespan, and replicas on a real cluster."""

import asyncio
import importlib.util
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.errors import UserError
from dragoman.model.ports import free_ports
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.ray_serve import Lasting, Plan
from dragoman.services.settings import ServeConfig
from tests.services.endpoint.test_serve import PATIENCE, serving
from tests.services.jobs.processes import REPOSITORY, end_trees


def test_the_applications_threads_end_with_its_lifespan() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(scope["type"])

    async def live() -> None:
        asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Message:
            return next(asked)

        async def send(message: Message) -> None:
            told.append(message["type"])

        lasting = Lasting(app, lambda: told.append("ended"))
        await lasting({"type": "http"}, receive, send)
        await lasting({"type": "lifespan"}, receive, send)

    asyncio.run(live())
    assert told == ["http", "lifespan.startup.complete", "ended", "lifespan.shutdown.complete"]


def test_a_node_without_the_folder_of_the_command_is_told_so(tmp_path: Path) -> None:
    plan = Plan(ServeConfig(), DecodeConfig(), (), AlignmentConfig(), str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere: every node of the cluster needs this folder"):
        plan.build()


def wrong_key(number: int) -> dict[str, Any]:
    """A request with a wrong key, which says that it comes from an address of its own."""
    asked = {"q": "dog", "source": "en", "target": "de", "api_key": f"wrong {number}"}
    return {"json": asked, "headers": {"X-Forwarded-For": f"10.0.0.{number}"}, "timeout": PATIENCE}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys").write_text("right\n")
    (tmp_path / "keys").chmod(0o600)
    return tmp_path / "keys"


@pytest.mark.parametrize("proxies", [[], ["127.0.0.1"]])
def test_a_replica_believes_the_proxies_of_the_settings(bundle: Path, keys: Path, proxies: list[str]) -> None:
    config = ServeConfig(bundle=str(bundle), keys=str(keys), proxies=proxies, database=None, documents=None, threads=1)
    app = Plan(config, DecodeConfig(), (), AlignmentConfig(), str(keys.parent)).build()
    assert isinstance(app, Lasting)

    async def guess() -> list[int]:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [(await client.post("/translate", **wrong_key(number))).status_code for number in range(70)]

    try:
        assert (429 in asyncio.run(guess())) is not bool(proxies)
    finally:
        app.end()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster of our own, `ray start --head` on loopback with a token."""
    if importlib.util.find_spec("grpc_reflection") is None:
        pytest.skip("Ray Serve is not installed (pip install 'dragoman[ray-serve]')")
    (tmp_path / "token").write_text(secrets.token_hex(16))
    for name, value in {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(REPOSITORY),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    port, dashboard, client = free_ports(3)
    folder = f"/tmp/ray-serve-{port}"  # Ray's sockets lie below it and may not have long names
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=3", "--num-gpus=0"),
        *(f"--port={port}", "--node-ip-address=127.0.0.1", "--object-store-memory=80000000", f"--temp-dir={folder}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--dashboard-agent-listen-port=0"),
        *(f"--ray-client-server-port={client}", "--min-worker-port=0", "--max-worker-port=0"),
        *("--metrics-export-port=0", "--disable-usage-stats"),
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while "Ray runtime started" not in (tmp_path / "log").read_text():
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        end_trees([process.pid])
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_replicas_on_a_cluster_answer_as_the_process_does(cluster: str, bundle: Path) -> None:
    asked = {"q": ["the dog", "the house"], "source": "en", "target": "de"}
    with serving(f"serve.bundle={bundle}") as (address, _):
        alone = httpx.post(f"{address}/translate", json=asked, timeout=PATIENCE)
    on_ray = (f"serve.cluster={cluster}", "serve.replicas=2")
    with serving(f"serve.bundle={bundle}", *on_ray) as (address, process):
        answers = [httpx.post(f"{address}/translate", json=asked, timeout=PATIENCE) for _ in range(8)]
        assert [answer.json() for answer in answers] == [alone.json()] * 8
        assert answers[0].headers["X-Model-Version"] == alone.headers["X-Model-Version"]
        loaded = {httpx.get(f"{address}/status", timeout=PATIENCE).json()["model"]["loaded"] for _ in range(40)}
        assert len(loaded) == 2  # two replicas, each with its own model
        assert httpx.post(f"{address}/translate", json={"q": "x"}, timeout=PATIENCE).status_code == 400
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/health", timeout=PATIENCE)
    refused = pytest.raises(AssertionError, match=r"serve\.cluster=.*: nowhere: not a bundle")
    with refused, serving("serve.bundle=nowhere", *on_ray):
        pass


@pytest.mark.long
def test_rays_proxies_believe_no_forged_address(cluster: str, bundle: Path, keys: Path) -> None:
    """Ray's proxies are uvicorn's servers, which believe whoever comes from their own machine."""
    with serving(f"serve.bundle={bundle}", f"serve.cluster={cluster}", "serve.replicas=1", f"serve.keys={keys}") as (
        address,
        _,
    ):
        assert 429 in [httpx.post(f"{address}/translate", **wrong_key(number)).status_code for number in range(70)]
