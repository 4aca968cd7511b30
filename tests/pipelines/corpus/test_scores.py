"""Scores of two models: the formula, what a least score drops, and which of near-duplicates stays."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.conf import compose
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines import shard
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.clean.scores import dual_scores
from dragoman.pipelines.corpus.pack.cleaning_record import PAGE, RECORD
from dragoman.pipelines.corpus.read.built_in import phrasebook
from dragoman.pipelines.corpus.sharded import as_sharded
from tests.pipelines.corpus.planned import tsv_config

PAIRS = [(pair.english, pair.german) for pair in phrasebook()["train"][:300]]
TWICE = (PAIRS[7][0].lower(), PAIRS[7][1].lower())  # nearly repeats the eighth pair


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Networks with random weights, from English to German and back."""
    folders = []
    for number, pair in enumerate(("en-de", "de-en")):
        sides = tuple(zip(*PAIRS, strict=True))[:: 1 - 2 * number]
        tokenizers = train_pair(TokenizerConfig(vocabulary=200), list(sides[0]), list(sides[1]))
        torch.manual_seed(number)
        config = TransformerConfig(width=16, heads=2, feed_forward=20, encoder_layers=1, decoder_layers=1)
        network = Transformer(config, tokenizers.source.vocabulary, tokenizers.target.vocabulary).eval()
        folders.append(tmp_path_factory.mktemp("models") / pair)
        facts = {"pair": pair, "manifest_hash": "ab" * 32, "run": {"id": None, "name": "small"}}
        save_bundle(folders[-1], network=network, config=config, tokenizers=tokenizers, facts=facts, exports=())
    return folders


def sharding(folder: Path, models: list[Path], *words: str) -> Config:
    lines = [f"{a}\t{b}" for a, b in [*PAIRS, TWICE]]
    return tsv_config(folder, lines, f"corpus.clean.scores=[{','.join(map(str, models))}]", *words)


def scores_of(models: list[Path], pairs: list[tuple[str, str]]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    source, target = map(list, zip(*pairs, strict=True))
    return dual_scores(*(open_scorer(load_bundle(model)) for model in models), source, target)


def test_a_score_is_that_of_the_paper(models: list[Path]) -> None:
    forward, backward = (open_scorer(load_bundle(model)) for model in models)
    (source, target), found = PAIRS[3], dual_scores(forward, backward, *map(list, zip(*PAIRS, strict=True)))
    ahead, back = (-one.mean for one in (*forward.score([source], [target]), *backward.score([target], [source])))
    assert found[3] == pytest.approx(math.exp(-(abs(ahead - back) + 0.5 * (ahead + back))), rel=1e-4)
    assert ((found > 0) & (found < 1)).all()


def test_pairs_below_the_least_score_are_dropped_counted_and_shown(tmp_path: Path, models: list[Path]) -> None:
    scores = scores_of(models, [*PAIRS, TWICE])
    least = float(np.quantile(scores, 0.2))
    config = sharding(tmp_path, models, f"corpus.clean.min_score={least}")
    assert shard.task(config) == 0
    manifest = read_manifest(config.shard_dir)
    assert manifest.dropped["train"] == {"low_score": int((scores < least).sum())}
    record = json.loads((config.shard_dir / RECORD).read_text(encoding="utf-8"))
    assert record["rules"]["low_score"]["alone"] == record["rules"]["low_score"]["pairs"]
    assert all(one["score"] < least + 1e-4 for one in record["rules"]["low_score"]["samples"])
    assert all(one["score"] >= least - 1e-4 for one in record["kept"]["samples"])
    assert "<small>score 0.0" in (config.shard_dir / PAGE).read_text(encoding="utf-8")
    assert shard.shard(config).found, "the same models find the same shards"
    named = {**compose.values([]), **compose.plain(config)}
    assert as_sharded(named, [f"corpus.clean.scores=[{','.join(map(str, models))}]"])["corpus.clean.scores"] == [
        load_bundle(model).digest for model in models
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_the_better_of_two_near_duplicates_stays(tmp_path: Path, models: list[Path], turned: bool) -> None:
    one, other = scores_of(models, [PAIRS[7], TWICE])
    config = sharding(tmp_path, models, "corpus.clean.rules=[near_duplicate]")
    if turned:  # the other order: still the better one
        lines = (tmp_path / "pairs.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / "pairs.tsv").write_text("".join(reversed(lines)), encoding="utf-8")
    assert shard.task(config) == 0
    record = json.loads((config.shard_dir / RECORD).read_text(encoding="utf-8"))
    gone = [sample["source"] for sample in record["rules"]["near_duplicate"]["samples"]]
    assert (TWICE[0] if one > other else PAIRS[7][0]) in gone
    assert (PAIRS[7][0] if one > other else TWICE[0]) not in gone


@pytest.mark.parametrize(
    ("models_of", "words", "message"),
    [
        (lambda one: one[:1], ["corpus.clean.min_score=0.1"], r"corpus.clean.scores=\[.*\]: two models are needed"),
        (lambda one: [], ["corpus.clean.min_score=0.1"], r"corpus.clean.min_score=0.1: needs the scores of two models"),
        (lambda one: one, [], r"corpus.clean.scores=\[.*\]: nothing uses the scores; choices: corpus.clean.min_score"),
        (lambda one: one[::-1], ["corpus.clean.min_score=0.1"], "is a translation model of de-en; give .FORWARD"),
        (lambda one: [one[0], "nowhere"], ["corpus.clean.min_score=0.1"], "corpus.clean.scores.*nowhere"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    tmp_path: Path, models: list[Path], models_of: object, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        shard.task(sharding(tmp_path, models_of(models), *words))  # type: ignore[operator]
    assert not list((tmp_path / "home").glob("shards/*"))
