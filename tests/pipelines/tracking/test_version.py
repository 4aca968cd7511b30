"""A bundle in the registry: loaded and served by MLflow's own means, without a pickle."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.directory import bundle_hash
from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import ServiceError
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.runs.spool import Spool
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.tracking import version
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.sender import Sender, find_registration
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig

LINES = ["a man sees the dog .", "", "the woman reads ."]
REGISTRY = RegistryConfig(name="demo-en-de")
MANIFEST = "ab" * 32


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that learned nothing; it translates all the same, and always the same."""
    sources = ["a man sees the dog .", "the woman reads a book ."]
    targets = ["ein Mann sieht den Hund .", "die Frau liest ein Buch ."]
    tokenizers = train_pair(TokenizerConfig(name="words", type="words", vocabulary=40), sources, targets, seed=1)
    config = model_config(
        {
            **{"architecture": "transformer", "name": "test", "width": 16, "heads": 2, "feed_forward": 32},
            **{"encoder_layers": 1, "decoder_layers": 1, "tie": "none"},
        }
    )
    torch.manual_seed(1)
    network = build_network(config, tokenizers.source.vocabulary, tokenizers.target.vocabulary)
    directory = tmp_path_factory.mktemp("run") / "bundle"
    scores = {"test": {"bleu": 1.5, "signatures": {"bleu": "nrefs:1"}}}
    facts = {"pair": "en-de", "manifest_hash": MANIFEST, "config_hash": "cd" * 32, "scores": scores}
    save_bundle(directory, network=network, config=config, tokenizers=tokenizers, facts=facts, exports=())
    return directory


def register(tracking: TrackingConfig, run_dir: Path, bundle: Path) -> str | None:
    with TrackedRun(tracking, run_dir, run_dir.name) as run:
        return register_bundle(tracking, REGISTRY, run, bundle)


def test_a_registered_champion_says_what_it_is_and_holds_no_pickle(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path
) -> None:
    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    registry = Registry(tracking, REGISTRY)
    registry.set_champion("1")
    champion = registry.champion()
    assert champion is not None
    assert champion.tags["manifest_hash"] == MANIFEST
    assert champion.tags["test_bleu"] == "1.5000"
    described = registry.client.get_model_version("demo-en-de", "1").description
    beginning = "BLEU 1.50 on test `nrefs:1`\n\n**Run** [a]("  # shown by a list of versions
    assert described.startswith(beginning)
    stored = registry.bundle(champion, tmp_path / "download")
    assert bundle_hash(stored) == bundle_hash(bundle)
    assert not [path for path in (tmp_path / "mlartifacts").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]


@pytest.mark.long
def test_mlflow_loads_and_serves_the_champion_in_processes_of_its_own(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "MODEL_PACKAGE", Path(version.__file__).resolve().parents[2] / "model")
    translator = open_translator(bundle)
    expected = [translation.text for translation in translator.translate(LINES)]
    params = {"beam": 1, "length_penalty": 0.0}
    greedy = [one.text for one in translator.translate(LINES, replace(translator.decode, beam=1, length_penalty=0.0))]
    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    Registry(tracking, REGISTRY).set_champion("1")
    folder = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",  # it starts uvicorn by name
        "MLFLOW_TRACKING_URI": tracking.uri,
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    loading = (
        "import json, sys, mlflow; model = mlflow.pyfunc.load_model('models:/demo-en-de@champion')\n"
        "lines, params = json.loads(sys.argv[1])\n"
        "schema = {one.name: one.default for one in model.metadata.signature.params}\n"
        "print(json.dumps([model.predict(lines), model.predict(lines, params=params), schema]))"
    )
    serving = ["mlflow", "models", "serve", "-m", "models:/demo-en-de@champion", "--env-manager", "local"]
    server = subprocess.Popen(
        [str(folder / serving[0]), *serving[1:], "-p", str(free_port)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        command = [sys.executable, "-W", "ignore", "-c", loading, json.dumps([LINES, params])]
        loaded = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(loaded.stdout) == [expected, greedy, {"beam": 5, "length_penalty": 1.0}]
        assert json.loads(answer(free_port, {"inputs": LINES}))["predictions"] == expected
        assert json.loads(answer(free_port, {"inputs": LINES, "params": params}))["predictions"] == greedy
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


def test_a_full_disk_is_named_where_a_version_is_fetched(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: object, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    registry = Registry(tracking, REGISTRY)
    version = registry.version("1")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        with pytest.raises(ServiceError, match=r"models:/demo-en-de/1 could not be downloaded to .*No space") as caught:
            registry.bundle(version, tmp_path / "download")
    assert "\n" not in str(caught.value)


def answer(port: int, request: dict[str, object]) -> bytes:
    """POST to /invocations as soon as somebody listens."""
    until = time.monotonic() + 60
    url = f"http://127.0.0.1:{port}/invocations"
    message = urllib.request.Request(url, json.dumps(request).encode(), {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(message, timeout=20) as reply:
                return bytes(reply.read())
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_a_bundle_is_registered_once(tracking: TrackingConfig, tmp_path: Path, bundle: Path) -> None:
    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    (tmp_path / "runs/a/spool/versions.json").unlink()  # killed before it was noted down
    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    assert register(tracking, tmp_path / "runs/b", bundle) == "2"


def test_a_job_registers_no_version_under_another_owners_name(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(owner: str, model_owner: str) -> None:
        for name, value in (("JOB", "j1-1"), ("OWNER", owner), ("MODEL_OWNER", model_owner)):
            monkeypatch.setenv(f"DRAGOMAN_{name}", value)

    job("anna", "anna")
    assert register(tracking, tmp_path / "runs/a", bundle) == "1"
    model = Registry(tracking, REGISTRY).client.get_registered_model("demo-en-de")
    assert model.tags["dragoman.owner"] == "anna"
    job("ben", "ben")
    assert register(tracking, tmp_path / "runs/b", bundle) is None
    refused = [json.loads(line) for line in (tmp_path / "runs/b/spool/refused.jsonl").read_text().splitlines()]
    assert "the model belongs to another owner" in refused[0]["reason"]
    assert [one.number for one in Registry(tracking, REGISTRY).versions()] == ["1"]
    job("zelda", "anna")  # an admin's
    assert register(tracking, tmp_path / "runs/c", bundle) == "2"


def test_a_registration_waits_for_the_server(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path, free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    away = replace(tracking, uri=f"http://127.0.0.1:{free_port}")
    assert register(away, tmp_path / "runs/a", bundle) is None
    assert "`dragoman sync` does it later" in caplog.text
    assert Sender(Spool(tmp_path / "runs/a"), tracking, "a").send()
    assert find_registration(tmp_path / "runs/a", bundle_hash(bundle)) == {"name": "demo-en-de", "version": "1"}


def test_a_version_for_which_there_is_no_room_waits_and_the_user_is_told_why(
    tracking: TrackingConfig, tmp_path: Path, bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = tmp_path / "runs/a/bundle"
    shutil.copytree(bundle, large)
    room = 5_000_000  # bytes of the largest file: enough for the database
    with (large / "model.safetensors").open("ab") as file:
        file.truncate(room + 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            assert register_bundle(tracking, REGISTRY, run, large) is None
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "demo-en-de is not registered yet" in caplog.text
        assert "File too large" in caplog.text
        assert register_bundle(tracking, REGISTRY, run, large) == "1"
