"""Word vectors in the registry: loaded by MLflow without a pickle, promoted by their sets, rolled back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.bundles.vectors import load_vectors, save_vectors
from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.pipelines import entries
from dragoman.pipelines.tracking.promotion import REASON_TAG, rollback
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from dragoman.pipelines.word_vectors.settings import EvaluateVectors
from tests.pipelines.tracking.conftest import promoted

REGISTRY = RegistryConfig(name="demo-en-vectors")
WORDS = [f"w{i}" for i in range(40)]
RNG = np.random.default_rng(9)
TRUTH = RNG.standard_normal((40, 6)).astype(np.float32)


def save(directory: Path, noise: float) -> Path:
    tokens = WordTokenizer([*SPECIAL_PIECES, *WORDS])
    save_vectors(
        directory,
        words=WORDS,
        counts=np.arange(40, 0, -1),
        tables={"vectors": TRUTH + noise * np.random.default_rng(1).standard_normal(TRUTH.shape).astype(np.float32)},
        config=Word2VecConfig(width=6),
        tokenizer=TokenizerPair(tokens, tokens),
        facts={
            "pair": "en",
            "manifest_hash": "ab" * 32,
            "run": {"name": directory.parent.name, "id": None},
            "scores": {"similarity/mean": 31.25, "similarity/truth": 31.25, "analogies/q/steps": 4.0},
        },
    )
    return directory


@pytest.fixture
def sets(tmp_path: Path) -> EvaluateVectors:
    rows = RNG.integers(0, 40, (200, 2))
    marks = Embeddings(WORDS, None, TRUTH).similarities(rows)
    lines = [f"w{i} w{j} {mark}\n" for (i, j), mark in zip(rows, marks, strict=True)]
    (tmp_path / "truth.txt").write_text("".join(lines), encoding="utf-8")
    return EvaluateVectors(root=str(tmp_path), similarity=["truth.txt"])


def register(tracking: TrackingConfig, folder: Path, noise: float) -> Path:
    bundle = save(folder / f"run-{noise}" / "bundle", noise)
    with TrackedRun(tracking, bundle.parent, bundle.parent.name) as run:
        assert register_bundle(tracking, REGISTRY, run, bundle) is not None
    return bundle


def test_mlflow_loads_the_champion_without_a_pickle(
    tracking: TrackingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = register(tracking, tmp_path, 0.5)
    registry = Registry(tracking, REGISTRY)
    registry.set_champion("1")
    champion = registry.champion()
    assert champion is not None
    expected = {"bundle_kind": "vectors", "pair": "en", "architecture": "word2vec", "method": "skipgram", "words": "40"}
    assert champion.tags.items() >= {**expected, "width": "6", "similarity/truth": "31.2500"}.items()
    assert "analogies/q/steps" not in champion.tags, "a section is in the run, not among the tags"
    described = registry.client.get_model_version(REGISTRY.name, "1").description
    assert "**Word vectors** skipgram: 40 words of 6 numbers, `en`" in described
    assert "**Scores** similarity 31.25 (Spearman x 100, mean by pairs)" in described
    assert not [path for path in (tmp_path / "mlartifacts").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]

    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.uri)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    model = mlflow.pyfunc.load_model("models:/demo-en-vectors@champion")
    vectors = model.predict(["w3", "w0"])
    with pytest.raises(Exception, match="'W3' is not among the 40 words"):
        model.predict(["W3"])
    embeddings = load_vectors(bundle).embeddings
    assert np.array_equal(np.array(vectors, np.float32), [embeddings.vector("w3"), embeddings.vector("w0")])


def test_versions_are_promoted_by_their_sets_and_rolled_back(
    tracking: TrackingConfig, tmp_path: Path, sets: EvaluateVectors
) -> None:
    for noise in (2.0, 0.3, 1.0):
        register(tracking, tmp_path, noise)

    def promote(version: str, **settings: object) -> bool:
        config = replace(PromoteConfig(version=version, trials=200), **settings)  # type: ignore[arg-type]  # its fields
        return promoted(tracking, REGISTRY, config, tmp_path, tmp_path / "none", sets).accepted

    assert promote("1"), "it is better than random vectors"
    assert promote("2", metric="similarity")
    assert not promote("3")
    registry = Registry(tracking, REGISTRY)
    reason = registry.version("2").tags[REASON_TAG]
    assert "on 112 pairs and questions of the half that is the gate, p = 0.00" in reason
    assert "test set, reported only: similarity 92" in reason, "the other half"
    assert promote("3", force=True, reason="smaller")
    assert rollback(registry, "complaints", tmp_path / "promote.lock").champion == "2"

    with pytest.raises(UserError, match=r"promote\.metric: 'bleu' is not known\..* Choices: analogies, auto"):
        promote("3", metric="bleu")
    with pytest.raises(UserError, match="no pairs and no questions in common for the metric analogies"):
        promote("3", metric="analogies")
    sets.root = None
    with pytest.raises(UserError, match=r"vectors\.evaluate\.root: word vectors are promoted by"):
        promote("3")


def test_the_verb_reads_the_sets_from_the_configuration(
    tracking: TrackingConfig, tmp_path: Path, sets: EvaluateVectors, capsys: pytest.CaptureFixture[str]
) -> None:
    for noise in (1.0, 0.2):
        register(tracking, tmp_path, noise)
    common = [
        *(f"tracking.uri={tracking.uri}", f"registry.name={REGISTRY.name}", f"paths.root={tmp_path}"),
        *(f"vectors.evaluate.root={sets.root}", "vectors.evaluate.similarity=[truth.txt]"),
    ]
    assert entries.main(["promote", *common, "promote.version=1"]) == 0
    assert entries.main(["promote", *common, "promote.version=2"]) == 0
    assert "version 2 is champion (similarity" in capsys.readouterr().out
    assert entries.main(["promote", *common, "promote.version=1"]) == 1
    assert "not better" in capsys.readouterr().out
