"""`dragoman demo`: the whole way from the built-in corpus to answers over HTTP, in minutes.

The steps are shard, train (which evaluates and registers), promote and serve. All get the overrides.
"""

import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.conf import again, compose, groups
from dragoman.model.durations import duration
from dragoman.model.errors import UserError
from dragoman.model.languages import split_pair
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.paths import STEPS
from dragoman.model.runs.record import read_release
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.storage.places import local_folder
from dragoman.services.commands.demo_steps import StepFailedError, Steps, newest_line

SENTENCES = 5
USES = {"train": "learn from", "valid": "validate with", "test": "test with"}  # of a split's sentences


@dataclass
class DemoRoot:
    """The settings that the demo itself needs, as plain values; the steps check them."""

    name: str
    pair: str
    paths: dict[str, Any]
    tracking: dict[str, Any]
    registry: dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A held-out sentence, its translation over HTTP, and the corpus' reference."""

    source: str
    translation: str
    reference: str


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the failed step, or 0."""
    words = list(argv)
    if not any(word.lstrip("+").startswith("experiment=") for word in words):
        words.insert(0, "experiment=demo")
    return compose.run(lambda root: demo(root, words), DemoRoot, words, "demo")


def demo(root: DemoRoot, words: Sequence[str]) -> int:
    """Runs all steps and shows the results."""
    began = time.monotonic()
    steps = Steps(local_folder(root.paths["root"], root.paths["cache"]) / f"{root.name}.log")
    try:
        steps.run("shard", words, lambda _: describe_shards(root))
        steps.run("train", words, lambda _: describe_training(root))
        # 1: not better than an earlier demo's champion, which then answers. Without one, serve reports it.
        steps.run("promote", words, newest_line, accepted=(0, 1))
        with steps.endpoint(serve_words(root, words)) as address:
            samples, headers = translate_samples(address, root)
    except StepFailedError as problem:
        print(problem.said, file=sys.stderr)
        print(f"dragoman demo: {problem}; {steps.log} has all that it said", file=sys.stderr)
        return problem.code
    print(summary(root, words, samples, headers, steps.log, time.monotonic() - began))
    return compose.OK


def describe_shards(root: DemoRoot) -> str:
    """Returns the sizes of the splits."""
    splits = read_manifest(local_folder(root.paths["shards"], root.paths["cache"])).splits
    sizes = [f"{splits[name].records:,} to {use}" for name, use in USES.items() if name in splits]
    return f"sentences: {', '.join(sizes)}"


def describe_training(root: DemoRoot) -> str:
    """Returns the last step, its validation loss, and the version that came of it."""
    run = run_folder(root)
    measured = [line for line in JournalReader(run / STEPS).lines() if "valid_loss" in line][-1:]
    parts = [f"{line['step']:,} steps, validation loss {line['valid_loss']:.2f}" for line in measured]
    if release := read_release(run):
        parts.append(f"it is version {release['version']}")
    return ", ".join(parts)


def run_folder(root: DemoRoot) -> Path:
    """Returns the run's folder on this machine."""
    return local_folder(root.paths["runs"], root.paths["cache"]) / root.name


def serve_words(root: DemoRoot, words: Sequence[str]) -> list[str]:
    """Returns the settings with which the endpoint follows the demo's model: places of shards it has none."""
    read = groups.written_defaults("serve")
    places = [word for word in words if word.startswith(("paths.", "tracking.")) and again.key_of(word) in read]
    return [f"bundle=models:/{root.registry['name']}@{root.registry['alias']}", *places]


def translate_samples(address: str, root: DemoRoot) -> tuple[list[Sample], dict[str, str]]:
    """Returns five held-out sentences translated over HTTP, and the answer's headers."""
    import httpx

    source, target = split_pair(root.pair)
    pairs = held_out(local_folder(root.paths["shards"], root.paths["cache"]), source, target)
    body = {"q": [text for text, _ in pairs], "source": source, "target": target}
    answer = httpx.post(f"{address}/translate", json=body, timeout=60)
    answer.raise_for_status()
    samples = [
        Sample(text, translation, reference)
        for (text, reference), translation in zip(pairs, answer.json()["translatedText"], strict=True)
    ]
    return samples, dict(answer.headers)


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
    root: DemoRoot,
    words: Sequence[str],
    samples: Sequence[Sample],
    headers: dict[str, str],
    log: Path,
    seconds: float,
) -> str:
    """Returns the table of translations, the score, and the next places to look at."""
    release = read_release(run_folder(root))
    uri = str(root.tracking["uri"])
    model = f"{headers.get('x-model-name')} version {headers.get('x-model-version')}"
    if release["version"] != headers.get("x-model-version"):
        model += f" (it stays champion; this run made version {release['version']})"
    rows = {
        "BLEU": f"{release['bleu'].partition(' = ')[2].split()[0]} on sentences that it has never seen",
        "model": model,
        "curves": uri if uri.startswith("http") else f"{program('mlflow')} ui --backend-store-uri {uri}",
        "serve again": f"{program('dragoman')} {shlex.join(['serve', *serve_words(root, words)])}",
        "details": f"{log} (checks, scores with their signature, more translations)",
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

    `=` marks a translation that equals the reference."""
    width = max(20, (min(columns, 150) - 6) // 3)
    rows = [("SOURCE", "TRANSLATION", "REFERENCE", " ")]
    rows += [
        (sample.source, sample.translation, sample.reference, "=" if sample.translation == sample.reference else " ")
        for sample in samples
    ]
    lines = []
    for *cells, mark in rows:
        wrapped = [textwrap.wrap(cell, width) or [""] for cell in cells]
        for number in range(max(map(len, wrapped))):
            parts = [cell[number] if number < len(cell) else "" for cell in wrapped]
            first, second, third = (f"{part:<{width}}" for part in parts)
            lines.append(f"{first}  {second} {mark if number == 0 else ' '} {third}".rstrip())
    return "\n".join(lines)
