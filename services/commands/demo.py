"""`dragoman demo`: the whole way from the built-in corpus to answers over HTTP, in minutes.

Each step is the command that a user would type, as its own process: shard, train (which evaluates and registers),
promote, serve. All get the overrides. Every process is stopped at the end, however the demo ends.
"""

import contextlib
import difflib
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.interrupts import held_signals
from dragoman.model.durations import duration
from dragoman.model.errors import UserError
from dragoman.model.languages import split_pair
from dragoman.model.runs.record import read_release
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.storage.places import local_folder

SENTENCES = 5
PATIENCE = 120.0  # seconds for a step to end by itself
STEPS = {
    "shard": "packs a corpus into shards",
    "train": "two workers train a Transformer; then it is averaged, scored and registered",
    "promote": "the new version becomes champion if it is better than the one before",
    "serve": "the endpoint starts on a free port",
}


@dataclass
class DemoRoot:
    """The settings that the demo itself needs, as plain values; the steps check them."""

    name: str
    pair: str
    paths: dict[str, Any]
    tracking: dict[str, Any]
    registry: dict[str, Any]


class StepFailedError(Exception):
    """A step ended with this exit code, after printing why."""

    def __init__(self, verb: str, code: int) -> None:
        super().__init__(f"{verb} ended with exit code {code}")
        self.code = code


@dataclass(frozen=True)
class Sample:
    """A held-out sentence, its translation over HTTP, the corpus' reference, and the model's second choice."""

    source: str
    translation: str
    reference: str
    second: str = ""


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the failed step, or 0."""
    words = list(argv)
    if not any(word.lstrip("+").startswith("experiment=") for word in words):
        words.insert(0, "experiment=demo")
    return compose.run(lambda root: demo(root, words), DemoRoot, words, "demo")


def demo(root: DemoRoot, words: Sequence[str]) -> int:
    """Runs all steps and shows the results."""
    started = time.monotonic()
    try:
        for verb in ("shard", "train"):
            run_step(verb, words, started)
        # 1: not better than an earlier demo's champion, which then answers. Without one, serve reports it.
        run_step("promote", words, started, accepted=(0, 1))
        with run_endpoint(serve_words(root, words), started) as address:
            samples, headers = translate_samples(address, root)
    except StepFailedError as problem:
        print(f"dragoman demo: {problem}", file=sys.stderr)
        return problem.code
    print(summary(root, words, samples, headers, time.monotonic() - started))
    return compose.OK


def serve_words(root: DemoRoot, words: Sequence[str]) -> list[str]:
    """Returns the settings with which the endpoint follows the demo's model."""
    places = [word for word in words if word.startswith(("paths.", "tracking."))]
    return [f"serve.model=models:/{root.registry['name']}@{root.registry['alias']}", *places]


def run_step(verb: str, words: Sequence[str], started: float, accepted: Sequence[int] = (0,)) -> None:
    """Runs a command to its end and shows its output as it comes.

    Raises StepFailedError: an exit code other than the accepted ones.
    """
    announce(verb, words, started)
    with child(command(verb, words)) as process:
        code = process.wait()
    if code not in accepted:
        raise StepFailedError(verb, code if code > 0 else 128 - code)


@contextlib.contextmanager
def run_endpoint(words: Sequence[str], started: float) -> Iterator[str]:
    """Runs the endpoint on a free port during the block; yields its address.

    Raises StepFailedError: it did not start.
    """
    words = [*words, "serve.port=0"]
    announce("serve", words, started)
    with child(command("serve", words), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with process.stdout:
            address = process.stdout.readline().strip()
            if not address:
                raise StepFailedError("serve", process.wait() or compose.FAILED)
            print(address, flush=True)
            yield address


@contextlib.contextmanager
def child(words: Sequence[str], stdout: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Starts a process, and ends it with the block if it has not ended itself.

    That may take time: a training writes a checkpoint and tells MLflow that it was killed.
    """
    with contextlib.ExitStack() as stack:
        with held_signals("there is something to end"):
            process = subprocess.Popen(words, stdout=stdout, text=True)
            stack.callback(end, process)
        yield process


def end(process: "subprocess.Popen[str]") -> None:
    """Ends a process gracefully. The terminal may have interrupted it too; SIGTERM does no harm then."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def translate_samples(address: str, root: DemoRoot) -> tuple[list[Sample], dict[str, str]]:
    """Returns five held-out sentences translated over HTTP, and the answer's headers."""
    import httpx

    source, target = split_pair(root.pair)
    pairs = held_out(local_folder(root.paths["shards"], root.paths["cache"]), source, target)
    body = {"q": [text for text, _ in pairs], "source": source, "target": target, "alternatives": 1}
    answer = httpx.post(f"{address}/translate", json=body, timeout=60)
    answer.raise_for_status()
    translations, seconds = answer.json()["translatedText"], answer.json().get("alternatives", [[]] * len(pairs))
    samples = [
        Sample(text, translation, reference, *second[:1])
        for (text, reference), translation, second in zip(pairs, translations, seconds, strict=True)
    ]
    return samples, dict(answer.headers)


def unsure(sample: Sample) -> list[str]:
    """Returns the words that the model's second choice says otherwise, as "words / other words"."""
    first, second = sample.translation.split(), sample.second.split()
    if not second:
        return []
    edits = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return [
        f"{' '.join(first[a:b]) or '-'} / {' '.join(second[c:d]) or '-'}" for tag, a, b, c, d in edits if tag != "equal"
    ]


def held_out(shards: Path, source: str, target: str) -> list[tuple[str, str]]:
    """Returns pairs of the test set, evenly spread."""
    texts = read_manifest(shards).texts.get("test")
    if not texts:
        raise UserError(f"{shards}: keeps no test set")
    sides = [
        (shards / texts[language]["file"]).read_text(encoding="utf-8").split("\n")[:-1] for language in (source, target)
    ]
    count = len(sides[0])
    rows = [(2 * number + 1) * count // (2 * SENTENCES) for number in range(min(SENTENCES, count))]
    return [(sides[0][row], sides[1][row]) for row in rows]


def summary(
    root: DemoRoot, words: Sequence[str], samples: Sequence[Sample], headers: dict[str, str], seconds: float
) -> str:
    """Returns the table of translations, the score, and the next places to look at."""
    release = read_release(local_folder(root.paths["runs"], root.paths["cache"]) / root.name)
    uri = str(root.tracking["uri"])
    model = f"{headers.get('x-model-name')} version {headers.get('x-model-version')}"
    if release["version"] != headers.get("x-model-version"):
        model += f" (it stays champion; this run made version {release['version']})"
    rows = {
        "score": release["bleu"],
        "model": model,
        "run": f"{release['run']}, {headers.get('x-run-id')}",
        "shards": f"{root.paths['shards']}, manifest {headers.get('x-manifest-hash', '')[:12]}",
        "look at it": uri if uri.startswith("http") else f"{program('mlflow')} ui --backend-store-uri {uri}",
        "serve again": f"{program('dragoman')} {shlex.join(['serve', *serve_words(root, words)])}",
        "took": duration(seconds),
    }
    width = max(map(len, rows))
    lines = [f"{key:<{width}}  {value}" for key, value in rows.items()]
    return "\n".join(["", table(samples, shutil.get_terminal_size((120, 24)).columns), "", *lines])


def program(name: str) -> str:
    """Returns how to call a program of this environment: by its name if it is on the path, else by its path."""
    if shutil.which(name):
        return name
    place = Path(sys.executable).parent / name
    return str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)


def table(samples: Sequence[Sample], columns: int) -> str:
    """Puts source, translation and reference side by side, wrapped to the terminal.

    `=` marks a translation that equals the reference. Below stands what the model was unsure of."""
    width = max(20, (min(columns, 150) - 6) // 3)
    rows = [("SOURCE", "TRANSLATION", "REFERENCE", " ")]
    rows += [
        (sample.source, sample.translation, sample.reference, "=" if sample.translation == sample.reference else " ")
        for sample in samples
    ]
    lines = []
    for sample, (*cells, mark) in zip([None, *samples], rows, strict=True):
        wrapped = [textwrap.wrap(cell, width) or [""] for cell in cells]
        for number in range(max(map(len, wrapped))):
            parts = [cell[number] if number < len(cell) else "" for cell in wrapped]
            first, second, third = (f"{part:<{width}}" for part in parts)
            lines.append(f"{first}  {second} {mark if number == 0 else ' '} {third}".rstrip())
        if sample and (doubts := unsure(sample)):
            lines.append("  " + textwrap.shorten(f"unsure: {'; '.join(doubts)}", 3 * width, placeholder=" ..."))
    return "\n".join(lines)


def announce(verb: str, words: Sequence[str], started: float) -> None:
    number = list(STEPS).index(verb) + 1
    line = shlex.join(["dragoman", verb, *words])
    print(f"\n[{time.monotonic() - started:3.0f} s] {number}/{len(STEPS)} {STEPS[verb]}\n$ {line}", flush=True)


def command(verb: str, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "dragoman.services.cli", verb, *words]
