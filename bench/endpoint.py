"""The endpoint: HTTP clients of `dragoman serve` against bare CTranslate2 in process on the same export, sentences/s.

A sentence a request, 25 tokens in and out, greedy, by a network of the size of `transformer_tiny` with random weights.
1 and 16 clients, each on one kept-alive connection or on a new one for every request. The peer is `translate_batch` on
the same int8 export and all cores, as many sentences at a time as there are clients: what the machine would give them
if HTTP, the queue and the tokenizer cost nothing. The last line is that of 16 kept-alive clients.

    python -m bench endpoint [--quick]
"""

import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import ctranslate2
import torch

from bench.peers import ROOT
from bench.result import Result, in_turns, rate
from model.bundles.translation import save_bundle
from model.networks.transformer import Transformer, TransformerConfig
from model.settings import EngineName
from model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from model.text.words import WordTokenizer

WORDS, LENGTH = 10_000, 25
SERVED: EngineName = "ctranslate2-int8"
SETTINGS = ("decode.beam=1", "decode.max_ratio=0", f"decode.max_extra={LENGTH}", f"decode.min_length={LENGTH}")
CLIENTS = (1, 16)


@dataclass
class Clients:
    """So many at once, each sending a sentence, waiting for its translation, and sending the next."""

    count: int
    kept: bool  # on one connection each; else on a new one for every request
    seconds: list[float] = field(default_factory=list)  # of every request

    def __str__(self) -> str:
        return f"{self.count} {'kept-alive' if self.kept else 'new'}"

    def ask(self, address: str, lines: Sequence[str]) -> int:
        """Have all lines translated; how many they were."""
        share = [lines[number :: self.count] for number in range(self.count)]
        threads = [threading.Thread(target=self._ask, args=(address, own)) for own in share]
        before = len(self.seconds)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(self.seconds) - before != len(lines):
            raise RuntimeError("bench endpoint: requests failed")
        return len(lines)

    def _ask(self, address: str, lines: Sequence[str]) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        for line in lines:
            body = json.dumps({"q": line, "source": "en", "target": "de"})
            began = time.perf_counter()
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            translated = json.loads(answer.read())
            if not self.kept:
                connection.close()
            self.seconds.append(time.perf_counter() - began)
            assert answer.status == 200 and translated["translatedText"], translated
        connection.close()


def run(quick: bool, args: list[str]) -> Result:
    """Sentences a second of 16 kept-alive clients against the bare engine's."""
    if args:
        raise SystemExit(f"bench endpoint: {args[0]!r} is not known; the only option is --quick")
    rng = random.Random(1)
    words = [[f"w{rng.randrange(6, WORDS)}" for _ in range(LENGTH - 1)] for _ in range(160 if quick else 1600)]
    lines = [" ".join(line) for line in words]
    loads = [Clients(count, kept) for count in CLIENTS for kept in (True, False)]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bundle = Path(folder) / "bundle"
        save_random(bundle)
        (export,) = bundle.rglob("*int8*/model.bin")
        address = stack.enter_context(serving(bundle, Path(folder)))
        peer = bare(export.parent)
        loads[-1].ask(address, lines[:32])  # warms up
        loads[-1].seconds.clear()
        found = in_turns(
            1 if quick else 3,
            **{str(load): lambda load=load: rate(lambda: load.ask(address, lines)) for load in loads},
            **{f"peer {count}": lambda count=count: rate(lambda: peer(words, count)) for count in CLIENTS},
        )
    print(f"transformer_tiny, int8, a sentence of {LENGTH} tokens in and out a request, greedy")
    print(f"  {'clients':<16}{'p50 ms':>9}{'p99 ms':>9}{'sentences/s':>13}{'bare':>9}")
    for load in loads:
        cuts = statistics.quantiles(load.seconds, n=100)
        figures = f"{1000 * cuts[49]:9.2f}{1000 * cuts[98]:9.2f}{found[str(load)]:13.1f}"
        print(f"  {load!s:<16}{figures}{found[f'peer {load.count}']:9.1f}")
    return Result("endpoint", found["16 kept-alive"], found["peer 16"], "sentences/s, over HTTP against bare")


def save_random(directory: Path) -> None:
    """A bundle of random weights, the size of transformer_tiny, over a vocabulary of made-up words."""
    words = WordTokenizer([*SPECIAL_PIECES, *(f"w{number}" for number in range(len(SPECIAL_PIECES), WORDS))])
    torch.manual_seed(1)
    config = TransformerConfig(width=128, heads=4, feed_forward=256, encoder_layers=4, decoder_layers=4)
    network = Transformer(config, WORDS, WORDS)
    pair = TokenizerPair(words, words)
    save_bundle(directory, network=network, config=config, tokenizers=pair, facts={"pair": "en-de"})


def bare(export: Path) -> Callable[[Sequence[list[str]], int], int]:
    """CTranslate2 alone: translate(sentences, how many at a time) -> how many they were."""
    cores = len(os.sched_getaffinity(0))
    engine = ctranslate2.Translator(os.fspath(export), inter_threads=cores, intra_threads=1)

    def translate(sentences: Sequence[list[str]], at_a_time: int) -> int:
        for first in range(0, len(sentences), at_a_time):
            tokens = [[*sentence, "</s>"] for sentence in sentences[first : first + at_a_time]]
            found = engine.translate_batch(
                tokens,
                max_batch_size=-(-at_a_time // cores),  # a part for every core
                beam_size=1,
                min_decoding_length=LENGTH,
                max_decoding_length=LENGTH,
            )
            assert len(found) == len(tokens)
        return len(sentences)

    return translate


@contextlib.contextmanager
def serving(bundle: Path, home: Path) -> Iterator[str]:
    """The address of `dragoman serve` over the bundle, in a process of its own."""
    words = [f"serve.bundle={bundle}", f"serve.engine={SERVED}", "serve.port=0", f"paths.root={home}", *SETTINGS]
    process = subprocess.Popen(
        [sys.executable, "-m", "services.cli", "serve", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("bench endpoint: the server did not start")
        yield address
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
