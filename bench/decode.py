"""Translating: the served path against `transformers` MarianMT's generate of the same size, sentences/s.

Sentences of 25 tokens in and out, beam 5, batches of 64. Both networks are the size of `transformer_tiny` (or `base`)
with random weights, and both must write exactly 25 tokens, so that they do the same work. Ours counts everything from
text to text; the peer's figure is generate alone, from ids to ids, with its cache. The exports and PyTorch are printed
beside what is served (the int8 export, which a trained bundle serves where its chrF allows).

    python -m bench decode [--quick] [--base] [--bundle DIRECTORY FILE]

With `--bundle`, our engines translate the lines of FILE by the bundle's own settings instead; there is no peer then.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench.peers import peer_python
from bench.result import Result, in_turns, rate
from model.bundles.translation import load_bundle, save_bundle
from model.inference.translator import Translator, open_translator
from model.networks.transformer import Transformer, TransformerConfig
from model.settings import DecodeConfig, EngineName
from model.text.tokenizer import EOS, SPECIAL_PIECES, TokenizerPair
from model.text.words import WordTokenizer

WORDS, BEAM, LENGTH, BATCH = 10_000, 5, 25, 64
SIZES = {
    "tiny": TransformerConfig(width=128, heads=4, feed_forward=256, encoder_layers=4, decoder_layers=4),
    "base": TransformerConfig(),
}
SERVED: EngineName = "ctranslate2-int8"


def run(quick: bool, args: list[str]) -> Result:
    """Sentences a second; ours is the int8 export's, the peer's is generate's on all cores."""
    if "--bundle" in args:
        return _of_bundle(args[args.index("--bundle") + 1 :], quick)
    size = "base" if "--base" in args else "tiny"
    count = {"tiny": 128, "base": 64}[size] * (1 if quick else 8)
    rng = random.Random(1)
    lines = [" ".join(f"w{rng.randrange(6, WORDS)}" for _ in range(LENGTH - 1)) for _ in range(count)]
    decode = DecodeConfig(beam=BEAM, max_ratio=0.0, max_extra=LENGTH, min_length=LENGTH)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "bundle"
        save_random(directory, SIZES[size])
        translators = _translators(directory)
        for translator in translators.values():
            _check(translator, lines[0], decode)
        found = in_turns(
            1 if quick else 3,
            **{name: _measure(translator, lines, decode) for name, translator in translators.items()},
            peer=lambda: _peer(size, count),
        )
    print(f"transformer_{size}, {count} sentences of {LENGTH} tokens in and out, beam {BEAM}; sentences/s:")
    for name, figure in found.items():
        print(f"  {name:<18}{figure:9.1f}")
    return Result("decode", found[SERVED], found["peer"], "sentences/s, text to text against generate")


def _translators(directory: Path) -> dict[str, Translator]:
    bundle = load_bundle(directory)
    engines: tuple[EngineName, ...] = ("torch", "ctranslate2", SERVED)
    return {name: open_translator(bundle, name) for name in engines}


def _measure(translator: Translator, lines: list[str], decode: DecodeConfig) -> Callable[[], float]:
    def work() -> int:
        for first in range(0, len(lines), BATCH):
            translator.translate(lines[first : first + BATCH], decode)
        return len(lines)

    return lambda: rate(work)


def _check(translator: Translator, line: str, decode: DecodeConfig) -> None:
    """Warms up, and makes sure that the work is what is said: 25 tokens out, however random the weights."""
    (ids,) = translator.encode([line])
    assert len(ids) == LENGTH and ids[-1] == EOS
    ((best, *_),) = translator.engine.search([ids], decode)
    assert len(best.ids) == LENGTH


def save_random(directory: Path, config: TransformerConfig) -> None:
    """A bundle of random weights over a vocabulary of made-up words."""
    words = WordTokenizer([*SPECIAL_PIECES, *(f"w{number}" for number in range(len(SPECIAL_PIECES), WORDS))])
    torch.manual_seed(1)
    network = Transformer(config, WORDS, WORDS)
    pair = TokenizerPair(words, words)
    save_bundle(directory, network=network, config=config, tokenizers=pair, facts={"pair": "en-de"})


def _of_bundle(words: list[str], quick: bool) -> Result:
    """Our engines on real text: sentences a second of each; the ratio is int8 over PyTorch."""
    if len(words) != 2:
        raise SystemExit("bench decode --bundle: needs the bundle's directory and a file of sentences")
    lines = Path(words[1]).read_text(encoding="utf-8").split("\n")[: 200 if quick else 1000]
    found = {}
    for name, translator in _translators(Path(words[0])).items():
        translator.translate(lines[:4])
        began = time.perf_counter()
        translator.translate(lines)
        found[name] = len(lines) / (time.perf_counter() - began)
        print(f"  {name:<18}{found[name]:9.1f} sentences/s")
    return Result("decode", found[SERVED], found["torch"], "sentences/s, int8 against our PyTorch engine")


def _peer(size: str, count: int) -> float:
    """MarianMT in the peers' own environment, on all cores: the figure that it prints."""
    config = SIZES[size]
    sizes = [config.width, config.heads, config.feed_forward, config.encoder_layers, config.decoder_layers]
    settings = [*sizes, WORDS, count, BATCH, LENGTH, BEAM]
    script = Path(__file__).parent / "marian_generate.py"
    done = subprocess.run(
        [peer_python(), script, *map(str, settings)], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise RuntimeError("bench decode: the peer failed")
    return float(done.stdout.split()[-1])
