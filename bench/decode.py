"""Translating with a trained network: our whole way against `transformers`, and against bare CTranslate2, sentences/s.

    python -m bench decode [--quick] [--bundle DIRECTORY SOURCE REFERENCE]

Ours goes from text to text: normalise, subwords, batches, search, detokenise. Both peers have the same weights and are
given ids: `transformers` as MarianMT (bench/marian_generate.py) in the type, batch and threads that are quickest here,
CTranslate2 the export that ours serves. All search with the same beam and length penalty; the BLEU of each is printed,
and must be the same within a point.

Without --bundle a Transformer-tiny is trained on the built-in sentences first. A bundle of yours must have the shape
that MarianMT knows (post-norm, sinusoidal, tie=all); SOURCE and REFERENCE hold a sentence a line.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import ctranslate2
from sacrebleu import corpus_bleu

from bench.peers import ROOT, peer_environment, peer_python
from bench.result import Result, best_setting, in_turns
from bench.trainer import TINY, default_precision, trainer
from dragoman.conf.compose import typed, values
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.settings import EngineName
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.shard import shard

TOKENS = 2048
FULL, QUICK = (30_000, 500), (6_000, 120)  # pairs, steps
BATCHES, DTYPES = (32, 64, 128), ("float32", "bfloat16")  # that the peer is tried in
EQUAL = 1.0  # BLEU between two that translate equally well
ENGINES: dict[EngineName, str] = {"ctranslate2-int8": "ct2-int8", "ctranslate2": "ct2", "torch": ""}
SERVED: EngineName = "ctranslate2-int8"
Texts = list[str]


def run(quick: bool, args: list[str]) -> Result:
    """Sentences a second; ours is the int8 export's from text to text."""
    parser = argparse.ArgumentParser(prog="python -m bench decode")
    parser.add_argument("--bundle", type=Path, nargs=3, metavar=("DIRECTORY", "SOURCE", "REFERENCE"))
    given: list[Path] | None = parser.parse_args(args).bundle
    peer_python()  # installed before anything is trained
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given:
            directory = given[0]
            lines, references = (path.read_text(encoding="utf-8").splitlines() for path in given[1:])
        else:
            directory, lines, references = train(folder, *(QUICK if quick else FULL))
        count = 256 if quick else 2048
        lines, references = lines[:count], references[:count]
        bundle = load_bundle(directory)
        measures: dict[str, Callable[[], tuple[float, Texts]]] = {}
        for engine, export in ENGINES.items():
            measures[f"ours {engine}"] = ours(bundle, engine, lines)
            if export:
                measures[f"bare {engine}"] = bare(bundle, directory / export, lines)
        few, cores = lines[:128], len(os.sched_getaffinity(0))
        tries = [(dtype, batch, threads) for dtype in DTYPES for batch in BATCHES for threads in {1, cores}]
        tries = [("float32", BATCHES[1], cores)] if quick else tries
        best = best_setting(
            "transformers", tries, lambda one: transformers(bundle, folder / "work.json", few, *one)()[0]
        )
        measures["transformers"] = transformers(bundle, folder / "work.json", lines, *best)
        found: dict[str, Texts] = {}

        def speed(name: str) -> float:
            value, found[name] = measures[name]()
            return value

        speeds = in_turns(1 if quick else 3, **{name: lambda name=name: speed(name) for name in measures})
    print(f"{len(lines)} sentences, beam {bundle.decode.beam}; sentences/s and BLEU:")
    tokenize = tokeniser("auto", bundle.languages[1])
    scores = {name: corpus_bleu(texts, [references], tokenize=tokenize).score for name, texts in found.items()}
    for name, value in speeds.items():
        print(f"  {name:<24}{value:9.1f}{scores[name]:8.2f}")
    served, peer = f"ours {SERVED}", "transformers"
    if abs(scores[served] - scores[peer]) > EQUAL:
        raise SystemExit("bench decode: ours and transformers do not translate equally well; their speeds say nothing")
    print(Result("decode-bare", speeds[served], speeds[f"bare {SERVED}"], "").line())
    return Result("decode", speeds[served], speeds[peer], f"sentences/s, text to text against generate, {best}")


def train(folder: Path, pairs: int, steps: int) -> tuple[Path, Texts, Texts]:
    """A bundle of Transformer-tiny trained on the built-in sentences, and sources and references of its test set."""
    words = [f"paths.root={folder}", "experiment=demo", f"corpus.pairs={pairs}", "cluster.backend=local"]
    shards = shard(typed(Config, values(words))).directory
    model, directory = replace(TINY, dropout=0.0), folder / "bundle"
    with trainer(shards, folder / "run", default_precision(model), TOKENS, model) as made:
        optimizer = replace(made.config.optimizer, lr=0.002, warmup_steps=steps * 2 // 5, schedule="cosine")
        made.config = replace(made.config, max_steps=steps, optimizer=optimizer)
        made.run(lambda step, values: None)
    manifest = read_manifest(shards)
    pair = load_pair(shards, manifest.tokenizer)
    network = made.network.eval()
    assert isinstance(network, TranslationNetwork)
    save_bundle(directory, network=network, config=model, tokenizers=pair, facts={"pair": "-".join(manifest.languages)})
    return directory, *held_out(shards, "test", manifest.languages)


def ours(bundle: TranslationBundle, engine: EngineName, lines: Texts) -> Callable[[], tuple[float, Texts]]:
    """The whole way."""
    translator = open_translator(bundle, engine)
    translator.translate(lines[:4])

    def measure() -> tuple[float, Texts]:
        began = time.perf_counter()
        texts = [found.text for found in translator.translate(lines)]
        return len(lines) / (time.perf_counter() - began), texts

    return measure


def bare(bundle: TranslationBundle, export: Path, lines: Texts) -> Callable[[], tuple[float, Texts]]:
    """CTranslate2 alone: `translate_batch` of all sentences at once, which sorts and deals them to a batch a core."""
    engine = ctranslate2.Translator(os.fspath(export), inter_threads=len(os.sched_getaffinity(0)), intra_threads=1)
    names, target_names = bundle.tokens()
    sources = [[names[number] for number in ids] for ids in encode(bundle, lines)]
    numbers = {name: number for number, name in enumerate(target_names)}
    decode = bundle.decode

    def measure() -> tuple[float, Texts]:
        began = time.perf_counter()
        found = engine.translate_batch(
            sources,
            max_batch_size=decode.sentence_tokens,
            batch_type="tokens",
            beam_size=decode.beam,
            length_penalty=decode.alpha,
            max_decoding_length=decode.longest(max(map(len, sources)), bundle.target_positions),
            disable_unk=True,
        )
        seconds = time.perf_counter() - began
        made = [[numbers[token] for token in one.hypotheses[0]] for one in found]
        return len(lines) / seconds, bundle.tokenizers.target.decode(made)

    return measure


def transformers(
    bundle: TranslationBundle, path: Path, lines: Texts, dtype: str, batch: int, threads: int
) -> Callable[[], tuple[float, Texts]]:
    """MarianMT in the peers' own environment: the figure that it prints."""
    sources, decode = encode(bundle, lines), bundle.decode
    work = {
        "sources": sources,
        "beam": decode.beam,
        "alpha": decode.alpha,
        "longest": decode.longest(max(map(len, sources)), bundle.target_positions),
        "forbidden": decode.forbidden(),
        "batch": batch,
        "dtype": dtype,
        "threads": threads,
    }

    def measure() -> tuple[float, Texts]:
        path.write_text(json.dumps(work), encoding="utf-8")
        words = [str(peer_python()), "-m", "bench.marian_generate", str(bundle.directory.resolve()), str(path)]
        theirs = peer_environment()
        out = subprocess.run(words, check=True, cwd=ROOT, env=theirs, stdout=subprocess.PIPE, text=True).stdout
        made: list[list[int]] = json.loads(path.with_suffix(".out").read_text(encoding="utf-8"))
        return float(out.split()[-1]), bundle.tokenizers.target.decode(made)

    return measure


def encode(bundle: TranslationBundle, lines: Sequence[str]) -> list[list[int]]:
    """What the peers are given: our ids, end of sentence included."""
    return [ids.tolist() for ids in open_translator(bundle, "torch").encode(lines)]
