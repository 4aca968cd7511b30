"""Where word vectors are from: a directory, a run's name, the registry; and what is none of them."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.model.bundles.vectors import VectorsBundle
from dragoman.model.errors import UserError
from dragoman.services.models import vectors_source
from dragoman.services.models.home import Home
from dragoman.services.models.registry import ModelVersion
from dragoman.services.models.source import Loader
from dragoman.services.models.vectors_source import VectorsSource, open_vectors
from dragoman.services.settings import ModelSource


class Shelf:
    """A registry of one version whose bundle lies in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cache = directory / "cache"

    def resolve(self, reference: str) -> ModelVersion:
        return ModelVersion(reference.removeprefix("models:/").partition("@")[0], "3", "q" * 32)

    def list_versions(self, query: str) -> list[Any]:
        assert query == "tags.bundle_kind = 'vectors'"
        return [SimpleNamespace(name="m", version=3, run_id="q" * 32)]

    def fetch(self, _version: ModelVersion) -> Path:
        return self.directory


@pytest.fixture
def shelf(vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_source, "Registry", lambda *_: Shelf(vectors))


def opened(runs: Path, reference: str | None) -> VectorsBundle:
    home = Home(str(runs), str(runs / "cache"), f"sqlite:///{runs}/none.db")
    return open_vectors(VectorsSource(reference, home=home), "query")


def test_a_directory_and_a_runs_name_and_a_reference_lead_to_the_bundle(vectors: Path, shelf: None) -> None:
    runs = vectors.parents[1]
    for reference in (str(vectors), str(vectors.parent), "words"):
        found = opened(runs, reference)
        assert (found.facts["run"]["name"], len(found.embeddings)) == ("words", 7)
        assert found.facts["manifest_hash"] == "cd" * 32
    assert len(opened(runs, "models:/m@champion").embeddings) == 7


def test_without_a_name_the_newest_run_with_word_vectors_is_taken(
    vectors: Path, bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = tmp_path / "runs"
    for age, (name, made) in enumerate({"translation": bundle, "new": vectors, "old": vectors}.items()):
        shutil.copytree(made, runs / name / "bundle")
        os.utime(runs / name / "bundle" / "config.json", (1e9 - age, 1e9 - age))
    with caplog.at_level("INFO"):
        served = opened(runs, None)
    assert len(served.embeddings) == 7
    assert "query.vectors is not given: the word vectors of the newest run that has any, new" in caplog.text


def test_without_a_name_or_a_run_the_registry_is_asked(shelf: None, tmp_path: Path) -> None:
    assert len(opened(tmp_path, None).embeddings) == 7


def test_without_any_vectors_their_training_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"query\.vectors: no word vectors in .*train experiment=word2vec"):
        opened(tmp_path, None)


def test_a_name_that_is_nothing_lists_the_runs(vectors: Path) -> None:
    with pytest.raises(UserError, match=r"query\.vectors: 'wrods' is neither .* Runs: words"):
        opened(vectors.parents[1], "wrods")


def test_a_bundle_of_the_other_kind_is_refused_with_the_key_that_takes_it(bundle: Path, vectors: Path) -> None:
    with pytest.raises(UserError, match=r"query\.vectors: .* holds a translation model.*dragoman serve bundle="):
        opened(vectors.parents[1], str(bundle))
    with pytest.raises(UserError, match=r"holds word vectors, not a translation model.*mlflow models serve"):
        Loader(ModelSource(bundle=str(vectors))).load()
