"""The command that a verb names as the next one runs as it is printed."""

import logging
import shlex
from pathlib import Path

import pytest

from dragoman.services.cli import main
from tests.pipelines.conftest import make_pairs

SMALL = [
    *("cluster.backend=local", "model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1"),
    *("model.decoder_layers=1", "loader.batch_tokens=256", "train.max_steps=4", "train.checkpoint_every=2"),
    *("train.evaluate_every=4", "train.optimizer.warmup_steps=1", "decode.beam=1", "decode.length_penalty=1"),
    *("train.precision=fp32", "evaluate.samples=0", "tracking.system_metrics=false"),
]


def test_each_next_command_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Shards in a folder of their own, of another corpus than the default: the model is theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    for split, number in (("train", 200), ("valid", 20), ("test", 20)):
        for side, language in enumerate(("en", "de")):
            texts = "".join(f"{pair[side]}\n" for pair in make_pairs(number, len(split)))
            Path(f"{split}.{language}").write_text(texts, encoding="utf-8")
    files = [
        f"corpus.{split}.{side}={split}.{language}"
        for split in ("train", "valid", "test")
        for side, language in (("source", "en"), ("target", "de"))
    ]
    caplog.set_level(logging.INFO)
    words = ["shard", "corpus=moses", "corpus.name=toy", *files, "tokenizer.vocabulary=90", "paths.shards=s"]
    assert main([*words, "corpus.check=off"]) == 0
    for verb, more in (("train", ["paths.shards=s", "name=mine", *SMALL]), ("promote", [])):
        following = [record.getMessage() for record in caplog.records if record.getMessage().startswith("next: ")]
        _, _, named, *words = shlex.split(following[-1])
        assert named == verb
        code = main(["train", *more]) if more else main([verb, *words])
        assert code in (0, 1), caplog.text
    assert "toy-en-de: " in capsys.readouterr().out
