"""Recipes with tiny sizes, whole: one that is killed again and again, and one that is not."""

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from dragoman.model.files import file_sha256

pytestmark = pytest.mark.long

KILLS = 10
PATIENCE = 300.0  # seconds until a line reaches a step
NETWORK = [
    *["model=transformer_tiny", "model.width=32", "model.heads=2", "model.encoder_layers=1", "model.norm=pre"],
    *["model.decoder_layers=1", "model.dropout=0.1", "model.feed_forward=32", "loader.batch_tokens=256"],
]
LENGTH = [
    *["train.max_steps=120", "train.checkpoint_every=10", "train.evaluate_every=60", "train.precision=fp32"],
    *["train.optimizer.lr=0.01", "train.optimizer.warmup_steps=20", "cluster.backend=local"],
    *["evaluate.split=valid", "tracking.system_metrics=false"],
]
STUDENT = {
    "corpus": ["corpus=phrasebook", "corpus.pairs=600", "cluster.backend=local"],
    "tokenizer": ["tokenizer.vocabulary=300"],
    **dict.fromkeys(("teacher", "backward", "student"), NETWORK),
    "train": LENGTH,
    "texts": "[pairs.jsonl,train.jsonl]",
}


def command(recipe: str, home: Path, changes: Mapping[str, object]) -> list[str]:
    words = [f"vars.{name}={json.dumps(value)}" for name, value in changes.items()]
    return [sys.executable, "-m", "dragoman", "line", recipe, f"paths.root={home}", "line.where=here", *words]


def run(words: Sequence[str]) -> str:
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def bundle(home: Path, step: str) -> dict[str, str]:
    """Returns name -> sha256 of the bundle's files but config.json, which has the run's id and measured speeds."""
    (folder,) = (home / "runs").glob(f"{step}-*/bundle")
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.json"]
    return {str(path.relative_to(folder)): file_sha256(path) for path in files}


def moments(home: Path, drawn: random.Random) -> list[tuple[str, float]]:
    """Returns KILLS random moments of a finished line, in order: the step, and the seconds since it began."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (home / "lines" / "done").glob("*.json")]
    records.sort(key=lambda one: float(one["ended"]))
    found = []
    for moment in sorted(drawn.uniform(0, sum(one["seconds"] for one in records)) for _ in range(KILLS)):
        left = moment
        for one in records:
            if left <= one["seconds"]:
                found.append((one["step"], left))
                break
            left -= one["seconds"]
    return found


def kill_at(words: Sequence[str], log: Path, step: str, seconds: float, also_the_step: bool) -> None:
    """Starts the line, and kills it so many seconds after `step` began or was found done."""
    with log.open("wb") as out:
        line = psutil.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    until = time.monotonic() + PATIENCE
    while not {f"{step}: running", f"{step}: up to date"} & {said.partition(" (")[0] for said in lines(log)}:
        assert line.poll() is None and time.monotonic() < until, (step, lines(log))
        time.sleep(0.05)
    time.sleep(seconds)
    assert line.poll() is None, f"ended before it was killed in {step}: {lines(log)}"
    steps = line.children(recursive=True)
    line.send_signal(signal.SIGKILL)
    for one in steps if also_the_step else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    line.wait()
    psutil.wait_procs(steps, timeout=60)


def lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def test_a_line_killed_at_ten_random_moments_ends_with_the_same_bundle(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(command("student", whole, STUDENT))
    words = command("student", killed, STUDENT)
    for number, (step, seconds) in enumerate(moments(whole, random.Random(44))):
        # every other time the step is killed too; else it hears that its line has gone, and ends in order
        kill_at(words, tmp_path / "log", step, seconds, also_the_step=number % 2 == 1)
    run(words)
    for step in ("teacher", "backward", "student"):
        assert bundle(killed, step) == bundle(whole, step), step
    assert len(bundle(whole, "student")) > 5
    pairs = [next(home.glob("corpora/taught-*/pairs.jsonl")).read_bytes() for home in (whole, killed)]
    assert pairs[0] == pairs[1]


def test_a_translator_from_few_pairs_begins_with_the_denoised_network(tmp_path: Path) -> None:
    kinds, files = ("dog", "cat", "cow", "hen", "pig"), {}
    pairs = [f"the {kind} number {i} sleeps\tder {kind} nummer {i} schläft\n" for i in range(70) for kind in kinds]
    turned = [
        f"{line.split(chr(9))[0]}\t{other.split(chr(9))[1]}" for line, other in zip(pairs, pairs[7:], strict=False)
    ]
    parts = {"text": turned[:250], "train": pairs[:60], "valid": pairs[280:315], "test": pairs[315:]}
    for name, lines in parts.items():
        files[name] = tmp_path / f"{name}.tsv"
        files[name].write_text("".join(lines), encoding="utf-8")
    corpus = ["corpus=tsv", "corpus.leaks=source", "cluster.backend=local"]
    held_out = [f"corpus.{split}.file={files[split]}" for split in ("train", "valid", "test")]
    changes: dict[str, object] = {
        "text": [*corpus, f"corpus.train.file={files['text']}"],
        "pairs": [*corpus, *held_out],
        "tokenizer": ["tokenizer.vocabulary=120"],
        "network": NETWORK,
        "denoise": LENGTH,
        "translate": [*LENGTH, "train.max_steps=60"],
    }
    said = run(command("low_resource", tmp_path / "home", changes))
    assert "promote: done" in said
    (folder,) = (tmp_path / "home" / "runs").glob("translator-*/bundle")
    facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert facts["init"]["reference"].startswith("denoised-")
