"""`pair=en-en`: texts that are rewritten in their own language, from the shards to a served model; ROUGE."""

from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.inference.translator import open_translator
from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines import shard, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.metrics import rouge, score

WORDS = ("cats", "dogs", "birds", "cows", "bees", "ants")
PAIRS = [(f"{a} see teh {b} .", f"{a} see the {b} .") for a in WORDS for b in WORDS]
RIGHT = [(f"{a} see the {b} .", f"{a} see the {b} .") for a in WORDS for b in WORDS if a < b]


def test_a_model_learns_to_correct_and_is_measured_by_rouge_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, pairs in (("train", [*PAIRS[6:], *RIGHT[4:]]), ("valid", PAIRS[:3]), ("test", PAIRS[3:6])):
        for side in (0, 1):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    files = [
        f"corpus.{split}.{side}={tmp_path}/{split}.{number}"
        for split in ("train", "valid", "test")
        for number, side in enumerate(("source", "target"))
    ]
    values = compose.values(
        [
            "corpus=moses", "pair=en-en", "corpus.name=toy", *files, "corpus.leaks=source", "tokenizer=words",
            "tokenizer.joint=true", "tokenizer.min_count=1", f"paths.root={tmp_path}/home", "name=corrector",
            "model=transformer_tiny", "model.width=16", "model.heads=2", "model.feed_forward=16",
            "model.encoder_layers=1", "model.decoder_layers=1", "train.max_steps=4", "train.evaluate_every=4",
            "train.checkpoint_every=4", "cluster.backend=local", "registry.register=false", "tracking.offline=true",
            "tracking.system_metrics=false", "loader.batch_tokens=64",
        ]
    )  # fmt: skip
    config = compose.typed(Config, values)
    assert shard.task(config) == 0
    manifest = read_manifest(config.shard_dir)
    assert manifest.languages == ["en", "en-x-rewrite"]
    assert "copy" not in manifest.dropped["train"], "a text may be right as it is"
    assert train.task(config) == 0
    assert "ROUGE-L|F|tok:own|stem:no" in capsys.readouterr().out
    bundle = load_bundle(config.run_dir / "bundle")
    assert bundle.pair == "en-en" and bundle.languages == ("en", "en-x-rewrite")
    assert {"bleu", "rouge1", "rouge2", "rougeL"} <= set(bundle.facts["scores"]["test"] or bundle.facts["scores"])
    assert open_translator(bundle).translate(["cats see teh dogs ."])[0].text


def test_rouge_is_the_mean_f_measure() -> None:
    found = rouge(["the cat sat", "a b"], ["the cat sat down", "a b"], "en")
    assert found["rouge1"] == pytest.approx(100 * (2 * 0.75 / 1.75 + 1) / 2)
    assert found["rouge2"] == pytest.approx(100 * (2 * (2 / 3) / (1 + 2 / 3) + 1) / 2)
    assert rouge(["здравствуй мир"], ["здравствуй мир"], "ru")["rouge1"] == 100.0
    assert 0 < rouge(["我喜欢苹果手机"], ["我喜欢手机"], "zh")["rouge1"] < 100.0
    assert 0 < rouge(["ฉันเห็นหมาดำ"], ["ฉันเห็นหมา"], "th")["rougeL"] < 100.0
    assert score(["a b"], ["a b"]).rouge1 is None, "translations have no ROUGE"
