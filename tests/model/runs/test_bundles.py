"""A bundle by its folder, by the folder of its run, or by the run's name."""

import os
from pathlib import Path

import pytest

from dragoman.model.bundles.directory import WEIGHTS, new_bundle
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.model.storage.places import local_folder
from dragoman.model.storage.transfers import publish_files
from tests.s3_server import Proxy


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command runs."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _made(directory: Path) -> Path:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with new_bundle(directory, {"kind": "translation"}, {"pair": "en-de"}) as work:
        (work / WEIGHTS).write_bytes(b"weights")
    return directory


def _found(reference: str, runs: Path) -> Path | None:
    return find_bundle(reference, runs, runs.parent / "cache")


def test_a_bundle_has_three_names(home: Path) -> None:
    runs = home / "runs"
    made = _made(runs / "one" / "bundle")
    _made(runs / "two" / "bundle")
    assert {_found(str(name), runs) for name in (made, made.parent, "one")} == {made}
    os.chdir(runs)
    assert _found("one", Path("elsewhere")) == Path("one/bundle")
    assert _found("one", runs) == Path("one/bundle")
    assert _found("three", runs) is None
    assert sorted(bundles(runs)) == [made, runs / "two" / "bundle"]


def test_a_folder_here_goes_before_a_run_of_that_name(home: Path) -> None:
    runs = home / "runs"
    run, here = _made(runs / "one" / "bundle"), home / "one"
    here.mkdir()
    assert _found("one", runs) == run, "an empty folder is no bundle"
    (here / "config.json").write_text('{"model_type": "marian"}')
    assert _found("one", runs) == run, "nor is another program's"
    assert _found("other", runs) is None
    here.rename(home / "other")
    assert _found("other", runs) == Path("other"), "whoever opens it says what it is"
    _made(home / "one")
    assert _found("one", runs) == Path("one")


def test_a_run_without_a_bundle_and_half_a_bundle_are_none(home: Path) -> None:
    runs = home / "runs"
    (runs / "early" / "bundle").mkdir(parents=True)
    (runs / "early" / "bundle" / WEIGHTS).write_bytes(b"half")
    assert _found("early", runs) is None
    assert _found("early", home / "nowhere") is None
    assert list(bundles(runs)) == []


def test_a_run_at_an_address_is_brought_whole(s3: Proxy, tmp_path: Path) -> None:
    address = "s3://bucket/test_bundles/runs/one"
    maker = local_folder(f"{address}/bundle", str(tmp_path / "maker"))
    _made(maker)
    publish_files(maker)
    for name in (address, f"{address}/bundle"):
        cache = tmp_path / name.rpartition("/")[2]
        found = find_bundle(name, tmp_path / "runs", cache)
        assert found is not None
        assert found.is_relative_to(cache)
        assert (found / WEIGHTS).read_bytes() == b"weights"
    assert find_bundle("s3://bucket/test_bundles/runs/none", tmp_path / "runs", tmp_path / "cache") is None
