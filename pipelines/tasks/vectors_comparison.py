"""Compares word vectors: `dragoman evaluate evaluate.against=[glove,tfidf]`, and two versions for a promotion."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.model.bundles.vectors import VectorsBundle, load_vectors
from dragoman.model.columns import columns
from dragoman.model.errors import UserError, unknown
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.word_vectors.comparison import METRICS, method_table, significance
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets, halves, read_sets
from dragoman.pipelines.evaluation.word_vectors.plots import methods
from dragoman.pipelines.tasks.base import Measured, compared
from dragoman.pipelines.tasks.vectors_release import Details, draw
from dragoman.pipelines.tracking.gate import set_name
from dragoman.pipelines.tracking.promotion import Comparison, PromoteConfig
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

SEED, WIDTH = 12345, 64  # of random vectors


def compare(config: Config, measured: Measured, rivals: Sequence[VectorsBundle], directory: Path) -> str:
    """Compares all on their common words; returns a line per rival that says if the lead is beyond chance."""
    details: Details = measured.details
    every = by_name([details.bundle, *rivals])
    first, *others = every
    compared = method_table(every, config.vectors.evaluate, details.sets, details.records)
    picture = methods(compared) if config.vectors.evaluate.pictures else None
    if picture is not None:
        draw({"methods": picture}, directory)
    lines = ["\n".join(as_lines(compared, list(every)))]
    return "\n\n".join(lines + [against(config, details.sets, every, first, other) for other in others])


def by_name(bundles: Sequence[VectorsBundle]) -> dict[str, Embeddings]:
    """Returns bundles by the name of their method, or, if two have the same, by run or directory."""
    short = [str(bundle.config.name) for bundle in bundles]
    names: dict[str, Embeddings] = {}
    for bundle, name in zip(bundles, short, strict=True):
        run = dict(bundle.facts.get("run") or {}).get("name")
        ways = [name, str(run or name), bundle.directory.parent.name, str(bundle.directory)]
        free = [way for way in ways[0 if short.count(name) == 1 else 1 :] if way not in names]
        names[free[0] if free else f"{name} {len(names) + 1}"] = bundle.embeddings
    return names


def against(config: Config, sets: Sets, every: dict[str, Embeddings], first: str, other: str) -> str:
    """Returns one line: the embeddings named `first` against those named `other`."""
    metric = config.promote.metric if config.promote.metric in METRICS else "auto"
    try:
        paired = significance(
            every[other], every[first], sets, config.vectors.evaluate.restrict, metric, config.evaluate.bootstrap
        )
    except UserError as problem:
        return f"{first} against {other}: {problem}"
    return (
        f"{paired.metric} {first} {paired.candidate:.2f} against {other} {paired.baseline:.2f}: "
        f"{paired.difference:+.2f} (mean of {paired.samples:,} resampled sets {paired.mean_difference:+.2f}, "
        f"p = {paired.p_value:.4f}) {paired.signature}"
    )


def as_lines(compared: dict[str, dict[str, float | None]], names: Sequence[str]) -> list[str]:
    """Returns the table of methods, one line per task."""
    rows = [
        [key, *("-" if row[name] is None else f"{row[name]:.1f}" for name in names)] for key, row in compared.items()
    ]
    return columns([["on the words that all have", *names], *rows], right=True)


def judge(
    registry: Registry,
    candidate: Version,
    champion: Version | None,
    config: PromoteConfig,
    _shards: Path,
    settings: EvaluateVectors,
) -> Comparison:
    """Compares the candidate with the champion on half of the sets of `vectors.evaluate`, over their common words.

    The other half is their test set: its score is reported and decides nothing.
    """
    if config.metric not in METRICS:
        raise unknown("promote.metric", config.metric, METRICS)
    if settings.root is None or not (settings.similarity or settings.analogies):
        raise UserError(
            "vectors.evaluate.root: word vectors are promoted by similarity sets and analogies; name their folder "
            "(vectors=english lists the English files), or use promote.force=true with a reason"
        )
    selection, test = halves(read_sets(settings))
    ours = fetch(registry, candidate)
    versions = random_vectors(ours) if champion is None else fetch(registry, champion), ours
    paired = significance(*versions, selection, settings.restrict, config.metric, config.samples)
    try:
        other = significance(*versions, test, settings.restrict, config.metric, samples=1)
        reported = f"{other.metric} {other.candidate:.2f} against {other.baseline:.2f}"
    except UserError:  # few pairs, none of them in this half
        reported = "nothing that both know"
    sizes = dict(part.split(":") for part in paired.signature.split("|"))
    items = int(sizes["pairs"]) + int(sizes["questions"])
    return compared(
        replace(paired, items=items, unit="pairs and questions"),
        gate=set_name(selection.items()),
        of="the half that is the gate",
        floor="random vectors" if champion is None else "",
        reported=reported,
    )


def random_vectors(like: Embeddings) -> Embeddings:
    """Returns vectors that know nothing, of the same words: the same at each call."""
    drawn = np.random.default_rng(SEED).standard_normal((len(like.words), WIDTH), np.float32)
    return Embeddings(like.words, like.counts, drawn, language=like.language)


def fetch(registry: Registry, version: Version) -> Embeddings:
    """Returns the vectors of a version; a download is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return load_vectors(registry.bundle(version, Path(folder))).embeddings
