"""The line `student` on Multi30k: the student's sentences/s against its teacher's, and BLEU of the validation set.

    python -m bench student --root MULTI30K [--home FOLDER] [--seeds 2]
    python -m bench student --quick

The line trains a teacher of six and six layers, which translates the training texts, and a student of six and one on
these and the corpus' own pairs, at last in int8. Then both translate the validation set by their int8 exports, with the
same beam, in turns; the student greedily too. Nobody opens the test set. A stopped line in --home goes on. With several
seeds the line runs once for each, on the same shards, and the result is the seeds' mean.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sacrebleu import corpus_bleu

from bench.result import Result, in_turns
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.inference.translator import open_translator
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.services.lines.entries import main
from dragoman.services.lines.recipe import find_recipe, read_line
from dragoman.services.lines.records import Records

COMMON = [
    *["cluster.backend=local", "train.bleu_every=0", "evaluate.split=valid", "tracking.system_metrics=false"],
    *["loader.batch_tokens=1024", "decode.beam=4"],
]
FROM_TEACHER = [f"train.init_parts.{part}=${{teacher.run}}" for part in ("encoder", "embeddings")]
MULTI30K: dict[str, Any] = {
    "tokenizer": ["tokenizer.vocabulary=4000"],
    "teacher": [
        *["experiment=multi30k", "model.encoder_layers=6", "model.decoder_layers=6", "train.max_steps=1200"],
        *["train.evaluate_every=600", "train.checkpoint_every=75", "train.optimizer.warmup_steps=100"],
    ],
    "backward": [
        *["experiment=multi30k", "model.encoder_layers=2", "model.decoder_layers=2", "train.max_steps=400"],
        *["train.evaluate_every=400", "train.checkpoint_every=25", "train.optimizer.warmup_steps=50"],
    ],
    "student": ["experiment=multi30k_student"],
    "begin": FROM_TEACHER,
    "int8": [
        *["train.max_steps=120", "train.optimizer.lr=0.0005", "train.optimizer.warmup_steps=20"],
        *["train.evaluate_every=120", "train.checkpoint_every=20"],
    ],
    "texts": "[pairs.jsonl,train.jsonl]",
    "train": [*COMMON, "tokenizer.vocabulary=4000"],
}
TINY = [  # less learns nothing but loops, of which no pair is left
    *["model=transformer_tiny", "model.width=32", "model.heads=2", "model.feed_forward=32", "model.encoder_layers=1"],
    *["model.norm=pre", "train.max_steps=120", "train.evaluate_every=60", "train.checkpoint_every=20"],
    *["train.optimizer.lr=0.01", "train.optimizer.warmup_steps=20"],
]
QUICK: dict[str, Any] = {
    "corpus": ["corpus=phrasebook", "corpus.pairs=600"],
    "tokenizer": ["tokenizer.vocabulary=300"],
    "teacher": TINY,
    "backward": TINY,
    "student": [*TINY, "model.decoder_layers=1"],
    "begin": FROM_TEACHER,
    "int8": ["train.max_steps=20", "train.optimizer.lr=0.001"],
    "texts": "[pairs.jsonl,train.jsonl]",
    "train": COMMON,
}


def run(quick: bool, args: list[str]) -> Result:
    """The baseline is the teacher, in the same engine with the same beam."""
    parser = argparse.ArgumentParser(prog="python -m bench student")
    parser.add_argument("--root", help="Multi30k's folder", required=not quick)
    parser.add_argument("--home", type=Path, help="where the line's models and corpora stay")
    parser.add_argument("--seeds", type=int, default=1, help="the line is run with the seeds 1 to this number")
    options = parser.parse_args(args)
    changes = QUICK if quick else {**MULTI30K, "corpus": ["corpus=multi30k", f"corpus.root={options.root}"]}
    with tempfile.TemporaryDirectory() as name:
        home = (options.home or Path(name)).absolute()
        lines = [
            run_line(home, {**changes, "train": [*changes["train"], f"seed={seed}"]}, 1 if quick else 5)
            for seed in range(1, options.seeds + 1)
        ]
    student, teacher = (sum(speeds[of] for speeds in lines) / len(lines) for of in ("student", "teacher"))
    return Result("student", student, teacher, "sentences/s, int8, the teacher's beam", "baseline")


def run_line(home: Path, changes: dict[str, Any], turns: int) -> dict[str, float]:
    """Runs the line with these variables; prints and returns sentences/s of its models."""
    words = [f"vars.{key}={json.dumps(value)}" for key, value in changes.items()]
    if main(["student", f"paths.root={home}", "line.where=here", *words]):
        raise SystemExit("bench student: the line has failed")
    steps = read_line(find_recipe("student"), str(home), changes, Records(home).digest)
    made = {step.name: Path(step.outputs["bundle"]) for step in steps if "bundle" in step.outputs}
    shards = next(Path(step.outputs["shards"]) for step in steps if step.name == "shards")
    sources, references = held_out(shards, "valid", load_bundle(made["teacher"]).languages)
    measures = {
        "teacher": translate(made["teacher"], sources),
        "student": translate(made["quantised"], sources),
        "student before int8": translate(made["student"], sources),
        "student, beam 1": translate(made["quantised"], sources, beam=1),
    }
    found: dict[str, list[str]] = {}

    def speed(name: str) -> float:
        value, found[name] = measures[name]()
        return value

    speeds = in_turns(turns, **{name: lambda name=name: speed(name) for name in measures})
    print(f"{len(sources)} validation sentences, int8 exports, {changes['train'][-1]}; sentences/s and BLEU:")
    for name, value in speeds.items():
        print(f"  {name:<26}{value:9.1f}{corpus_bleu(found[name], [list(references)], tokenize='13a').score:8.2f}")
    return speeds


def translate(directory: Path, lines: list[str], beam: int | None = None) -> Callable[[], tuple[float, list[str]]]:
    """Returns the measure of a bundle's int8 export: sentences/s, text to text, and the translations."""
    bundle = load_bundle(directory)
    translator = open_translator(bundle, "ctranslate2-int8")
    decode = replace(bundle.decode, beam=beam or bundle.decode.beam)
    translator.translate(lines[:4], decode)

    def measure() -> tuple[float, list[str]]:
        began = time.perf_counter()
        texts = [one.text for one in translator.translate(lines, decode)]
        return len(lines) / (time.perf_counter() - began), texts

    return measure
