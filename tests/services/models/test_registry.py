"""The registry as the services see it, over a version that the pipelines registered."""

import os
import resource
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.tracking.settings import TrackingConfig
from dragoman.services.models.home import Home
from dragoman.services.models.registry import ModelVersion, Registry, bundle_within
from dragoman.services.models.source import Loader
from dragoman.services.settings import ModelSource


def test_an_alias_is_resolved_and_its_bundle_fetched_once(tracking: TrackingConfig, tmp_path: Path) -> None:
    registry = Registry(tracking.uri, tmp_path)
    version = registry.resolve("models:/m@champion")
    assert (version.name, version.version, len(version.run_id)) == ("m", "1", 32)
    bundle = registry.fetch(version)
    assert (bundle / "model.safetensors").is_file()
    before = (bundle / "model.safetensors").stat().st_ino
    assert registry.fetch(version) == bundle
    assert (bundle / "model.safetensors").stat().st_ino == before
    assert [path.name for path in (tmp_path / "m").iterdir()] == [f"1-{version.run_id[:12]}"]
    assert registry.resolve("models:/m/2").version == "2"
    assert tracking.uri not in os.environ.values(), "MLflow writes it there, for every process that is started later"


def test_a_loaded_version_names_itself(tracking: TrackingConfig, tmp_path: Path) -> None:
    source = ModelSource(bundle="models:/m@champion", home=Home(tracking=tracking.uri, cache=str(tmp_path)))
    served = Loader(source).load()
    headers = served.origin.headers()
    assert (headers["X-Model-Name"], headers["X-Model-Version"]) == ("m", "1")
    assert headers["X-Run-Id"] == served.origin.run_id != "r" * 32


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "models:/m@none",
            "m has the aliases: champion.*; the versions: 1, 2.*promote registry.name=m registry.alias=none`",
        ),
        ("models:/m/9", "m has the aliases: champion"),
        ("models:/other@champion", "Registered models: m"),
        ("m", "neither models:/NAME@ALIAS"),
    ],
)
def test_what_the_registry_has_not_is_named_with_what_it_has(
    tracking: TrackingConfig, tmp_path: Path, reference: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Registry(tracking.uri, tmp_path).resolve(reference)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.db is not there"):
        Registry(f"sqlite:///{tmp_path}/none.db", tmp_path).resolve("models:/m@champion")
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_away_is_named_without_its_secret(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"http://\*\*\*@127.0.0.1:9 does not answer") as caught:
        Registry("http://me:secret@127.0.0.1:9", tmp_path).resolve("models:/m@champion")
    assert "secret" not in str(caught.value)


def test_a_model_that_a_login_may_not_see_or_that_is_not_there_is_named(tmp_path: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(UserError, match=r"models:/m@champion: .* shows this login no such model"):
            Registry(f"http://127.0.0.1:{server.server_port}", tmp_path).resolve("models:/m@champion")
        server.shutdown()


def test_a_download_that_breaks_off_leaves_nothing(tracking: TrackingConfig, tmp_path: Path) -> None:
    registry = Registry(tracking.uri, tmp_path)
    with pytest.raises(ServiceError, match="could not be downloaded"):
        registry.fetch(ModelVersion("m", "77", "r" * 32))
    assert not list((tmp_path / "m").iterdir())


def test_a_download_for_which_there_is_no_room_says_so(tracking: TrackingConfig, tmp_path: Path) -> None:
    registry = Registry(tracking.uri, tmp_path)
    version = registry.resolve("models:/m@champion")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # no file grows beyond a kilobyte
    try:
        with pytest.raises(ServiceError, match=r"models:/m/1 could not be downloaded to .*File too large") as caught:
            registry.fetch(version)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "m").iterdir())


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no bundle"):
        bundle_within(tmp_path)
