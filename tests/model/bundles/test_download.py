"""Bundles by address: whole and checked, and none of this machine's own is lost."""

import json
from pathlib import Path

import pytest

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, describe, new_bundle
from dragoman.model.bundles.download import bring_bundle, bundle_folder
from dragoman.model.errors import UserError
from dragoman.model.storage import remote
from dragoman.model.storage.places import local_folder
from dragoman.model.storage.transfers import publish_files
from tests.s3_server import Proxy


@pytest.fixture
def place(s3: Proxy, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a bundle."""
    address = f"s3://bucket/{request.node.name}/bundle"
    made = local_folder(address, str(tmp_path / "maker"))
    with new_bundle(made, {"kind": "translation"}, {"pair": "en-de"}) as work:
        (work / WEIGHTS).write_bytes(b"weights")
        (work / "ctranslate2").mkdir()
        (work / "ctranslate2" / "model.bin").write_bytes(b"binary")
    publish_files(made)
    return address


def test_a_bundle_comes_with_every_file(place: str, s3: Proxy, tmp_path: Path) -> None:
    assert [request.rpartition("/")[2] for request in s3.requests if request.startswith("PUT")][-1] == CONFIG
    cache = local_folder("s3://bucket/home/cache", str(tmp_path / "cache"))  # as under paths.root=s3://...
    found = bundle_folder(place, cache)
    record = json.loads((found / CONFIG).read_bytes())
    assert {name: describe(found / name) for name in record["files"]} == record["files"]
    s3.requests.clear()
    bring_bundle(found)
    assert s3.requests == [f"GET /{place.removeprefix('s3://')}/{CONFIG}"]


def test_a_damaged_file_is_refused(place: str, tmp_path: Path) -> None:
    remote.write(f"{place}/{WEIGHTS}", b"weighty")
    with pytest.raises(UserError, match="sha256"):
        bundle_folder(place, tmp_path / "cache")


def test_a_file_outside_is_refused(place: str, tmp_path: Path) -> None:
    record = json.loads(remote.read(f"{place}/{CONFIG}"))
    record["files"]["../../stolen"] = record["files"][WEIGHTS]
    remote.write(f"{place}/{CONFIG}", json.dumps(record).encode())
    with pytest.raises(UserError, match="outside"):
        bundle_folder(place, tmp_path / "cache")


def test_a_bundle_that_was_not_sent_yet_stays(s3: Proxy, tmp_path: Path) -> None:
    own = local_folder("s3://bucket/unsent/bundle", str(tmp_path / "cache"))
    with new_bundle(own, {"kind": "translation"}, {"pair": "en-de"}) as work:
        (work / WEIGHTS).write_bytes(b"weights")
    bring_bundle(own)
    assert (own / CONFIG).is_file()
