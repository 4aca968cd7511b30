"""The endpoint: `dragoman serve` over HTTP against bare CTranslate2 in process, sentences a CPU second.

A sentence a request, 25 tokens in and out, all different, random weights, int8: `transformer_tiny` by greedy search,
`transformer_base` by a beam of 4. The client is wrk with 1, 4, 16 and 64 kept-alive connections; its CPU time counts as
the server's. One peer is `translate_batch` on the same export and all cores, as many sentences at a time as there are
clients: what the machine would give them if HTTP, the queue and the tokenizer cost nothing. The other is LibreTranslate
itself around the same export (libretranslate.py). CPU time is compared, for wall time depends on what else the machine
does; memory is the share of the server's processes (PSS). A round is as long as its clients need for a request each
(four without --quick) at the rate of the slower server's warm-up. The last line is that of tiny with 16 clients
against bare CTranslate2.

    python -m bench endpoint [--quick] [tiny | base]     # needs wrk (Debian: apt-get install wrk)
"""

import contextlib
import json
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import psutil
import torch

from bench.libretranslate import serving_libretranslate
from bench.peers import ROOT
from bench.result import Result
from dragoman.model.bundles.network import save_bundle
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import EngineName
from dragoman.model.text.subwords import UnigramTokenizer
from dragoman.model.text.tokenizer import BOS, EOS, PAD, SPECIAL_PIECES, UNK, TokenizerPair
from dragoman.model.text.word_table import SPACE

WORDS, LENGTH = 10_000, 25
FIRST = len(SPECIAL_PIECES) + 1  # behind the full stop, which the endpoint gives a sentence that has none
FEWEST = 16  # requests of a round
SERVERS = ("ours", "libretranslate")
SERVED: EngineName = "ctranslate2-int8"
CLIENTS = (1, 4, 16, 64)
_BEGINNINGS = "un re over out with under fore mis dis inter up down in on off back after side by high low new"
_STEMS = "work light thought wish friend help play walk look watch wait water stone field house hand thing teach "
_STEMS += "speak write paint turn hold build"
_ENDINGS = "s ed ing er ers ful less ness ship ly able en some like wards fully lessly ings ment ish"
USUAL = ("the", "and", "of", "is", "with")  # every fifth word of a sentence
BEGINNINGS, STEMS, ENDINGS = (words.split() for words in (_BEGINNINGS, _STEMS, _ENDINGS))
SCRIPT = Path(__file__).with_suffix(".lua")


@dataclass(frozen=True)
class Size:
    """A network and its search."""

    width: int
    heads: int
    feed_forward: int
    layers: int
    beam: int
    seconds: float  # of a round with one number of clients, at least

    @property
    def settings(self) -> tuple[str, ...]:
        """Returns the command line that makes every sentence as long."""
        lengths = (f"decode.max_extra={LENGTH}", f"decode.min_length={LENGTH}")
        return (f"decode.beam={self.beam}", "decode.max_ratio=0", *lengths)


SIZES = {"tiny": Size(128, 4, 256, 4, beam=1, seconds=4), "base": Size(512, 8, 2048, 6, beam=4, seconds=12)}


@dataclass(frozen=True)
class Load:
    """What a load of clients, or of bare calls, took."""

    sentences: int
    wall: float  # seconds
    cpu: float  # seconds, of the server and its client
    p50: float  # ms
    p99: float

    @property
    def each(self) -> float:
        """Returns CPU milliseconds a sentence."""
        return 1000 * self.cpu / self.sentences


def run(quick: bool, args: list[str]) -> Result:
    """Sentences a CPU second of 16 kept-alive clients against the bare engine's."""
    sizes = args or list(SIZES)
    for word in sizes:
        if word not in SIZES:
            raise SystemExit(f"bench endpoint: {word!r} is not known. Choices: --quick, {', '.join(SIZES)}")
    if shutil.which("wrk") is None:
        raise SystemExit("bench endpoint: wrk is not installed (Debian: apt-get install wrk)")
    results = [measure(name, 1 if quick else 5, quick) for name in sizes]
    return results[0]


def measure(name: str, rounds: int, quick: bool) -> Result:
    """Prints the table of one network; returns the line of 16 clients."""
    size = SIZES[name]
    least = 0.0 if quick else size.seconds
    rng = random.Random(1)
    words = [[*(made_up(rng, place) for place in range(LENGTH - 2)), "."] for _ in range(1600)]
    found: dict[str, dict[int, list[Load]]] = {who: {count: [] for count in CLIENTS} for who in (*SERVERS, "bare")}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bundle, bodies, peer = (Path(folder) / name for name in ("bundle", "bodies", "peer"))
        save_random(bundle, size)
        asked = ({"q": f"{' '.join(line[:-1])}.", "source": "en", "target": "de"} for line in words)
        bodies.write_text("".join(f"{json.dumps(body)}\n" for body in asked), encoding="utf-8")
        servers = {"ours": stack.enter_context(serving(bundle, Path(folder), size.settings))}
        (export,) = bundle.rglob("*int8*/model.bin")
        servers["libretranslate"] = stack.enter_context(
            serving_libretranslate(export.parent, bundle / "tokenizer.model", peer, LENGTH, size.beam)
        )
        bare = bare_engine(export.parent, size, words)
        warm = [ask(*place, bodies, 16, 8.0 if quick else 20.0) for place in servers.values()]  # load what they need
        rate = min(load.sentences / load.wall for load in warm)
        bare(16, 0.5)
        for _ in range(rounds):
            for count in CLIENTS:  # in turns, so that a busy moment hits all alike
                seconds = max(least, math.ceil((1 if quick else 4) * max(count, FEWEST) / rate))
                for who, place in servers.items():
                    found[who][count].append(ask(*place, bodies, count, seconds))
                found["bare"][count].append(bare(count, seconds))
        memory = {who: memory_of(server) / 2**20 for who, (_, server) in servers.items()}
    print(f"transformer_{name}, int8, beam {size.beam}, {LENGTH} tokens in and out, medians of {rounds}")
    print(f"  clients  {'':<14}  CPU ms a sentence  sentences/s (wall)  p50 ms  p99 ms   MiB  bare's CPU / its CPU")
    for count in CLIENTS:
        for who, loads in ((who, counted[count]) for who, counted in found.items()):
            cpu, rate, p50, p99 = (statistics.median(values) for values in zip(*map(figures, loads), strict=True))
            ratio = statistics.median(
                other.each / mine.each for mine, other in zip(loads, found["bare"][count], strict=True)
            )
            mib = f"{memory[who]:.0f}" if who in memory else ""
            row = f"  {count:>7}  {who:<14}  {cpu:17.2f}  {rate:18.0f}  {p50:6.1f}  {p99:6.0f}"
            print(f"{row}  {mib:>4}  {ratio:20.2f}")
    rate, bare_rate = (statistics.median(1000 / one.each for one in found[who][16]) for who in ("ours", "bare"))
    return Result("endpoint", rate, bare_rate, f"sentences a CPU second, 16 clients over HTTP against bare, {name}")


def figures(load: Load) -> tuple[float, float, float, float]:
    """Returns what a row shows: CPU ms a sentence, sentences/s, p50 and p99 in ms."""
    return load.each, load.sentences / load.wall, load.p50, load.p99


def ask(address: str, server: psutil.Process, bodies: Path, clients: int, seconds: float) -> Load:
    """Runs wrk with so many connections."""
    threads = min(clients, 2)
    before, own = cpu_time(server), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["wrk", f"-t{threads}", f"-c{clients}", f"-d{seconds:g}s", "--timeout=30s", "-s", str(SCRIPT), address]
    out = subprocess.run([*command, "--", str(bodies)], check=True, capture_output=True, text=True).stdout
    told = json.loads(out.strip().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if told["failed"] or not told["requests"]:
        raise RuntimeError(f"bench endpoint: requests failed: {told}")
    client = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    cpu = cpu_time(server) - before + client
    return Load(told["requests"], told["seconds"], cpu, told["p50"], told["p99"])


def cpu_time(server: psutil.Process) -> float:
    """Returns the seconds of CPU time that a server's processes have had."""
    times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def memory_of(server: psutil.Process) -> float:
    """Returns the bytes of memory that a server's processes take, what they share counted once (PSS)."""
    return float(sum(one.memory_full_info().pss for one in (server, *server.children(recursive=True))))


def save_random(directory: Path, size: Size) -> None:
    """Writes a bundle of random weights over a vocabulary of made-up words."""
    words = UnigramTokenizer(vocabulary())
    torch.manual_seed(1)
    config = TransformerConfig(
        width=size.width,
        heads=size.heads,
        feed_forward=size.feed_forward,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        norm="pre",
        tie="none",
    )
    network = Transformer(config, WORDS, WORDS)
    with torch.no_grad():  # each word is followed by another one: random sentences are loops, which the endpoint mends
        table = network.target_embedding.weight.mul_(4)
        network.output.weight.copy_(table.roll(997, 0))
    pair = TokenizerPair(words, words)
    save_bundle(directory, network=network, config=config, tokenizers=pair, facts={"pair": "en-de"})


def vocabulary() -> bytes:
    """Returns a SentencePiece model whose pieces are the made-up words."""
    from sentencepiece import sentencepiece_model_pb2 as proto

    model = proto.ModelProto()
    kinds = dict.fromkeys(range(len(SPECIAL_PIECES)), proto.ModelProto.SentencePiece.CONTROL)
    kinds[UNK] = proto.ModelProto.SentencePiece.UNKNOWN
    for number, piece in enumerate([*SPECIAL_PIECES, ".", *(SPACE + word(one) for one in range(FIRST, WORDS))]):
        kind = kinds.get(number, proto.ModelProto.SentencePiece.NORMAL)
        model.pieces.add(piece=piece, score=-float(number), type=kind)
    model.trainer_spec.model_type = proto.TrainerSpec.UNIGRAM
    for name, value in (("pad_id", PAD), ("unk_id", UNK), ("bos_id", BOS), ("eos_id", EOS)):
        setattr(model.trainer_spec, name, value)
    model.normalizer_spec.name = "identity"
    found: bytes = model.SerializeToString()
    return found


def word(number: int) -> str:
    """Returns a made-up word that looks English and has no digits: the endpoint would keep numbers as they are, and
    look twice at a text that looks like no English."""
    if number - FIRST in range(len(USUAL)):
        return USUAL[number - FIRST]
    number, ending = divmod(number, len(ENDINGS))
    number, beginning = divmod(number, len(BEGINNINGS))
    return f"{BEGINNINGS[beginning]}{STEMS[number]}{ENDINGS[ending]}"


def made_up(rng: random.Random, place: int) -> str:
    """Returns the word at this place of a sentence."""
    return rng.choice(USUAL) if place % 5 == 0 else word(rng.randrange(FIRST, WORDS))


def bare_engine(export: Path, size: Size, lines: Sequence[list[str]]) -> Callable[[int, float], Load]:
    """Returns CTranslate2 alone over lines of words: translate(how many at a time, seconds)."""
    cores = len(os.sched_getaffinity(0))
    engine = ctranslate2.Translator(os.fspath(export), inter_threads=cores, intra_threads=1)
    sentences = [[*(SPACE + one for one in line[:-1]), line[-1], "</s>"] for line in lines]

    def translate(at_a_time: int, seconds: float) -> Load:
        took, place = [], 0
        began, before = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            batch = [sentences[(place + row) % len(sentences)] for row in range(at_a_time)]
            place += at_a_time
            start = time.perf_counter()
            found = engine.translate_batch(
                batch,
                max_batch_size=-(-at_a_time // cores),  # a part for every core
                beam_size=size.beam,
                min_decoding_length=LENGTH,
                max_decoding_length=LENGTH,
            )
            took.append(1000 * (time.perf_counter() - start))
            assert len(found) == at_a_time
        wall, cpu = time.perf_counter() - began, time.process_time() - before
        return Load(len(took) * at_a_time, wall, cpu, statistics.median(took), max(took))

    return translate


@contextlib.contextmanager
def serving(bundle: Path, home: Path, settings: Sequence[str]) -> Iterator[tuple[str, psutil.Process]]:
    """Yields the address of `dragoman serve` over the bundle, and its process."""
    words = [f"bundle={bundle}", f"engine={SERVED}", "serve.port=0", f"paths.root={home}", *settings]
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman.services.cli", "serve", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("bench endpoint: the server did not start")
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
