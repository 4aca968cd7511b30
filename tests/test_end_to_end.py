"""The main job as `make demo` runs it, on a smaller model: every verb, real Ray, MLflow and HTTP."""

import os
import re
import subprocess
import sys
from pathlib import Path

SMALL = [
    "corpus.pairs=2000",
    "tokenizer.vocabulary=400",
    "model.width=32",
    "model.heads=2",
    "model.feed_forward=32",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "train.max_steps=30",
    "train.checkpoint_every=10",
    "train.evaluate_every=30",
    "decode.length_penalty=1.0",
    "evaluate.sentences=50",
]


def test_the_demo_goes_from_corpus_to_answers_and_leaves_nothing_running(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "demo", *SMALL],
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "BLEU|nrefs:1|case:mixed" in done.stdout
    assert "SOURCE" in done.stdout
    address = re.search(r"http://127\.0\.0\.1:\d+", done.stdout)
    assert address is not None
    assert "mlflow ui --backend-store-uri sqlite:///" in done.stdout
    assert re.search(r"version 1\b", done.stdout)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir())[0] == "demo"
