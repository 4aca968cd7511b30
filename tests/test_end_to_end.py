"""The main job as `make demo` runs it, on a smaller model: every verb, real Ray, MLflow and HTTP."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

SMALL = [
    *("corpus=everyday", "corpus.pairs=2000", "tokenizer.vocabulary=400"),
    *("train.max_steps=30", "train.checkpoint_every=10"),
    *("model.width=32", "model.heads=2", "model.feed_forward=32", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("train.evaluate_every=30", "decode.length_penalty=1.0", "evaluate.sentences=50"),
    *("promote.force=true", "promote.reason=tiny"),  # so small a network is no better than a copy of the source
]


def started_for(home: Path) -> list[psutil.Process]:
    """The processes whose artefacts go to `home`: the demo's own, and their children."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # gone meanwhile, or another user's
            if process.environ().get("DRAGOMAN_HOME") == str(home):
                found.append(process)
    return found


@pytest.mark.long
def test_the_demo_goes_from_corpus_to_answers_and_leaves_nothing_running(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman.services.cli", "demo", *SMALL],
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,  # for a machine where much else runs
    )
    assert done.returncode == 0, done.stdout
    assert "BLEU|nrefs:1|case:mixed" in (tmp_path / "demo.log").read_text()
    assert len(done.stdout.splitlines()) <= 40
    assert "SOURCE" in done.stdout
    address = re.search(r"http://127\.0\.0\.1:(\d+)", done.stdout)
    assert address is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address[1]))) != 0, "the endpoint answers still"
    assert not psutil.wait_procs(started_for(tmp_path), timeout=60)[1], "processes of the demo run still"
    assert "mlflow ui --backend-store-uri sqlite:///" in done.stdout
    assert re.search(r"version 1\b", done.stdout)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir())[0] == "demo"
