"""A training on a mix, from its shards to its bundle: refused early, exact after a stop, traced, scored by part."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.conf import compose
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import PAD
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines import entries
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.launch import train
from dragoman.pipelines.tasks.noised import NoisedTexts
from tests.pipelines.conftest import small_corpus
from tests.pipelines.corpus.test_mixed import mix

WEIGHTS = "loader.mix.weights={clean: 1, bt: 3, fr: 1}"
TINY = [
    "model=transformer_tiny", "model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1",
    "model.decoder_layers=1", "loader.batch_tokens=512", "train.optimizer.schedule=constant", "train.evaluate_every=30",
    "train.checkpoint_every=10", "train.average_last=1", "train.precision=fp32", "decode.beam=1",
    "decode.length_penalty=1", "decode.max_extra=5", "cluster.backend=local", "cluster.device=cpu",
    "registry.register=false", "tracking.offline=true", "tracking.system_metrics=false",
]  # fmt: skip


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mix")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BLOCK_LINES", 100)  # several blocks
        return shard(mix(small_corpus(folder), folder)).directory


def settings(shards: Path, name: str, steps: int, *words: str) -> Config:
    where = [f"paths.shards={shards}", f"paths.root={shards.parent}", "pair=en-mul", f"name={name}"]
    return compose.typed(Config, compose.values([*TINY, WEIGHTS, *where, f"train.max_steps={steps}", *words]))


DENOISE = ["loader.denoise=infilling", "train.bleu_every=0"]


@pytest.mark.long
@pytest.mark.parametrize("words", [[], DENOISE], ids=["translation", "denoising"])
def test_a_stopped_training_ends_with_the_same_weights_and_batches(shards: Path, words: list[str]) -> None:
    names = [f"{name}-{len(words)}" for name in ("whole", "twice")]
    whole = settings(shards, names[0], 30, *words)
    train(whole, say=str)
    for steps in (10, 30):
        train(settings(shards, names[1], steps, *words), say=str)
    one, two = (load_file(shards.parent / f"runs/{name}/bundle/model.safetensors") for name in names)
    assert all(torch.equal(one[key], two[key]) for key in one)

    assert entries.main(["verify", str(whole.run_dir), f"paths.shards={shards}"]) == 0

    bundle = load_bundle(whole.run_dir / "bundle")
    if not words:
        assert bundle.prefixes == {("en", "de"): "<2de> ", ("en", "fr"): "<2fr> "}
        record = json.loads((whole.run_dir / "evaluation.test.json").read_text())
        assert record["parts"]["clean"]["sentences"] == 60  # the only part with a test set
        assert "fr" not in record["parts"]


def test_denoised_texts_have_no_tags_and_the_noise_of_their_corpus_epoch(shards: Path) -> None:
    config = settings(shards, "texts", 1, *DENOISE, "loader.lanes=2")
    reader = ShardReader(shards, "train")
    pair = load_pair(shards, reader.manifest.tokenizer)
    known = {
        2 * (chunk.first_id + place) + number: pair.source.decode([side[bounds[place] : bounds[place + 1] - 1]])[0]
        for chunk in reader
        for number, (side, bounds) in enumerate(
            ((chunk.source, chunk.source_offsets), (chunk.target, chunk.target_offsets))
        )
        for place in range(chunk.records)
    }
    loaders = [NoisedTexts(config).loader(rank, 2) for rank in range(2)]
    alone = NoisedTexts(config).loader()
    seen: dict[int, list[str]] = {}
    for _ in range(60):
        batches = alone.step()
        assert [batch.digest() for loader in loaders for batch in loader.step()] == [one.digest() for one in batches]
        for batch in batches:
            for number, source, target in zip(batch.ids.tolist(), batch.source, batch.target_out, strict=True):
                read, written = (pair.source.decode([side[side != PAD][:-1].tolist()])[0] for side in (source, target))
                plain = known[number].split("> ")[-1]
                assert "<2" not in read and "<bt>" not in read
                assert written == plain
                seen.setdefault(number, []).append(read)
    assert any(len(set(reads)) > 1 for reads in seen.values()), "read again with other noise"
    for loader in (alone, *loaders):
        loader.close()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("loader.mix.weights={clean: 0}", "loader.mix.weights.clean=0"),
        ("loader.mix.weights={web: 1}", "web"),
        ("loader.mix.speed=1", "speed"),
        ("loader.both_directions=1", "both_directions=1: not on a mix"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run_exists(
    shards: Path, word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = [*TINY, f"paths.shards={shards}", f"paths.root={shards.parent}", "pair=en-mul", "name=no", word]
    assert entries.main(["train", *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.strip().splitlines()) <= 2
    assert not (shards.parent / "runs" / "no").exists()
