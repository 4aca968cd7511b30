"""The endpoint as a process of its own, asked by a client of others."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.model.settings import DecodeConfig
from dragoman.pipelines.tracking.registry import Registry
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig
from dragoman.services.endpoint.opening import follow_models, read_keys
from dragoman.services.endpoint.serve import check
from dragoman.services.http.listening import bind
from dragoman.services.models.loaded_model import load_model
from dragoman.services.settings import ServeConfig
from tests.warm import Command

PATIENCE = 120  # seconds; a busy machine takes its time to start a process


@contextlib.contextmanager
def serving(*words: str) -> Iterator[tuple[str, Command]]:
    """`dragoman serve` on a free port: its address, once it answers, and its process."""
    process = Command(("serve", "serve.port=0", *words), os.environ)
    said = []
    try:
        while not (line := process.stdout.readline()).startswith("http"):
            said.append(line)
            assert line and process.poll() is None, "".join(said)
        yield line.strip(), process
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def test_two_bundles_answer_in_both_directions(make_bundle: Callable[..., Path], tmp_path: Path) -> None:
    there, back = make_bundle(tmp_path / "there"), make_bundle(tmp_path / "back", 2, pair="deu-en_GB")
    config = ServeConfig(models=[str(there), str(back)])
    with follow_models(config, DecodeConfig()) as models:
        assert models.view.pairs == (("en", "de"), ("de", "en-GB"))
        for source, target, bundle in (("EN-us", "de-DE", there), ("de", "en", back), ("en", "deu", there)):
            model = models.find(source, target).models[0]
            assert model.translate(["the dog"], 1)[0].text == load_model(bundle).translate(["the dog"], 1)[0].text


@pytest.mark.long
def test_the_endpoint_waits_for_a_model_follows_the_alias_and_sigint_is_130(
    tracking: TrackingConfig, tmp_path: Path
) -> None:
    registry = Registry(tracking, RegistryConfig(name="m", alias="stage"))
    words = (f"tracking.uri={tracking.uri}", "bundle=models:/m@stage", f"paths.root={tmp_path}")
    with contextlib.ExitStack() as after, serving(*words, "serve.wait=true", "serve.poll=0.2") as (address, process):
        after.callback(connect(tracking).delete_registered_model_alias, "m", "stage")  # other tests read this registry

        def ask() -> httpx.Response:
            return httpx.post(
                f"{address}/translate", timeout=PATIENCE, json={"q": "the dog", "source": "en", "target": "de"}
            )

        answer = ask()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        status = until(
            lambda: httpx.get(f"{address}/status", timeout=PATIENCE),
            lambda found: found.json()["reload_error"] is not None,
        )
        assert (status.status_code, status.json()["status"]) == (503, "loading")
        assert "m has the aliases: champion" in status.json()["reload_error"]

        for version in ("1", "2"):
            registry.set_champion(version)
            answer = until(ask, named(version))
            assert answer.status_code == 200
        status = httpx.get(f"{address}/status", timeout=PATIENCE)
        assert (status.status_code, status.json()["reload_error"]) == (200, None)

        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def named(version: str) -> Callable[[httpx.Response], bool]:
    """Whether an answer is of that model version."""
    return lambda answer: answer.headers.get("X-Model-Version") == version


def until(ask: Callable[[], httpx.Response], done: Callable[[httpx.Response], bool]) -> httpx.Response:
    """The first answer that is `done`."""
    end = time.monotonic() + PATIENCE
    while not done(answer := ask()):
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)
    return answer


def test_a_port_in_use_is_named_with_a_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"serve\.port: {port} is in use on 127\.0\.0\.1.*serve\.port=0"):
            bind("127.0.0.1", port)


def test_settings_that_do_not_fit_together_are_named() -> None:
    with pytest.raises(UserError, match=r"serve\.models: cannot be set with bundle"):
        check(ServeConfig(models=["a"], bundle="b"))
    with pytest.raises(UserError, match=r"serve\.proxies: .*write addresses and networks"):
        check(ServeConfig(proxies=["proxy.example"]))


@pytest.mark.parametrize("host", ["192.0.2.77", "no.such.host.invalid"])
def test_a_host_that_is_not_this_machine_is_named(host: str) -> None:
    with pytest.raises(UserError, match=r"serve\.host: .* is not an address of this machine"):
        bind(host, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open any port")
def test_a_port_for_root_is_named() -> None:
    with pytest.raises(UserError, match=r"serve\.port: 80 may not be opened"):
        bind("127.0.0.1", 80)


def test_keys_are_read_from_a_file_that_must_hold_some(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n two \n")
    file.chmod(0o600)
    assert read_keys(str(file)) == ["one", "two"]
    file.write_text("\n")
    with pytest.raises(UserError, match="holds nothing"):
        read_keys(str(file))
    with pytest.raises(UserError, match=r"serve\.keys: .* cannot be read"):
        read_keys(str(tmp_path / "none"))
    assert read_keys(None) == []


def test_a_key_file_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n")
    for mode in (0o604, 0o644, 0o602):
        file.chmod(mode)
        with pytest.raises(UserError, match=rf"serve\.keys: .* is open to everybody .* chmod 600 {file}"):
            read_keys(str(file))
    file.chmod(0o640)
    assert read_keys(str(file)) == ["one"]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"cannot be read .*utf-8"):
        read_keys(str(file))
