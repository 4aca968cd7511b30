"""Alignment quality of attention: alignment error rate, precision and recall of every head (Och and Ney 2003).

With A the links found, S the sure ones of the gold alignment and P the possible ones (including S):

    precision = |A and P| / |A|     recall = |A and S| / |S|     AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

All are of a whole set, not means over its sentences. The network reads the reference translations by teacher forcing,
so only the attention is measured. The validation set chooses twice: the best head or mean, for the bundle to show; and
the best single head, to see how much one head knows.

Letters: N heads and means of heads, T and S tokens, W target and U source words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.alignment.attention_map import (
    READINGS,
    AlignmentConfig,
    AttentionMap,
    Head,
    Link,
    Reading,
    Weights,
    links,
    read,
)
from dragoman.model.alignment.spans import merge_tokens
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.inference.aligner import Aligner, open_aligner
from dragoman.model.plural import plural
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.pipelines.corpus.gold import Links, gold_alignments, gold_words
from dragoman.pipelines.evaluation.held_out import held_out

Candidate = tuple[Reading, Head]


@dataclass(frozen=True)
class AlignmentScore:
    """Counts over a set, and their rates."""

    found: int  # |A|
    sure: int  # |S|
    found_sure: int  # |A and S|
    found_possible: int  # |A and P|

    @property
    def aer(self) -> float:
        return 1.0 - (self.found_sure + self.found_possible) / max(1, self.found + self.sure)

    @property
    def precision(self) -> float:
        return self.found_possible / max(1, self.found)

    @property
    def recall(self) -> float:
        return self.found_sure / max(1, self.sure)

    def record(self) -> dict[str, float]:
        """Returns the rates to five digits."""
        return {name: round(getattr(self, name), 5) for name in ("aer", "precision", "recall")}


@dataclass
class AlignmentEvaluation:
    """The results; `tables` by split, then by reading and head. Texts and links are those of `split`."""

    split: str
    pair: str
    candidate: Candidate  # the best head or mean on the validation set, or the requested one
    single: Candidate  # the best single head there, or the requested one if it is single
    chosen_on: str  # "valid", or "alignment.head"
    threshold: float
    sources: list[str]  # of `split`
    targets: list[str]
    gold: list[Links]
    tables: dict[str, dict[Candidate, AlignmentScore]]
    pharaoh: list[list[Link]]  # the candidate's links of every sentence of `split`
    bundle: str  # the bundle's digest
    manifest_hash: str

    @property
    def score(self) -> AlignmentScore:
        """Returns the candidate's score on `split`."""
        return self.tables[self.split][self.candidate]

    @property
    def single_score(self) -> AlignmentScore:
        """Returns the single head's score on `split`."""
        return self.tables[self.split][self.single]

    def facts(self) -> dict[str, Any]:
        """Returns the bundle's facts: the head or mean to show, its quality, and the best single head."""
        single = {"reading": self.single[0], "head": str(self.single[1]), **self.single_score.record()}
        reading, head = self.candidate
        return {"head": str(head), "reading": reading, "split": self.split, **self.score.record(), "single": single}

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON, without the links."""
        return {
            **self.facts(),
            "counts": asdict(self.score),
            "pair": self.pair,
            "chosen_on": self.chosen_on,
            "sentences": len(self.sources),
            "threshold": self.threshold,
            "heads": self.rows(),
            "bundle": self.bundle,
            "manifest_hash": self.manifest_hash,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per split, reading and head."""
        return [
            {"split": split, "reading": reading, "head": str(head), **score.record()}
            for split, table in self.tables.items()
            for (reading, head), score in table.items()
        ]


def evaluate_alignment(
    bundle: TranslationBundle,
    shards: Path,
    split: str = "test",
    config: AlignmentConfig | None = None,
    sentences: int = 0,
) -> AlignmentEvaluation:
    """Scores every head against the gold alignment of the held-out pairs of `split`; `sentences` 0 means all.

    `config`: a head or reading named there is used instead of chosen; its threshold applies to all.

    Raises UserError: a network without attention, an unknown head or split, or a corpus without a gold alignment.
    """
    settings = config or AlignmentConfig()
    aligner = open_aligner(bundle, settings)
    texts = {name: held_out(shards, name, bundle.languages, sentences) for name in dict.fromkeys(("valid", split))}
    gold = gold_alignments(read_manifest(shards), shards, texts, bundle.languages[0])
    tables = {name: measure(aligner, *texts[name], gold[name], settings.threshold) for name in texts}
    named = settings.head != "auto"
    open_to = {
        candidate: score.aer
        for candidate, score in tables["valid"].items()
        if settings.reading in ("auto", candidate[0]) and (candidate[1] == aligner.head or not named)
    }
    candidate = min(open_to, key=lambda candidate: open_to[candidate])
    heads = {head: score.aer for head, score in tables["valid"].items() if head[1].head is not None}
    single = candidate if named and candidate in heads else min(heads, key=lambda head: heads[head])
    return AlignmentEvaluation(
        split=split,
        pair=bundle.pair,
        candidate=candidate,
        single=single,
        chosen_on="alignment.head" if named else "valid",
        threshold=settings.threshold,
        sources=texts[split][0],
        targets=texts[split][1],
        gold=gold[split],
        tables=tables,
        pharaoh=[sentence.pairs for sentence in word_maps(aligner, *texts[split], candidate)],
        bundle=bundle.digest,
        manifest_hash=manifest_hash(shards),
    )


def measure(
    aligner: Aligner, sources: Sequence[str], targets: Sequence[str], gold: Sequence[Links], threshold: float = 0.0
) -> dict[Candidate, AlignmentScore]:
    """Returns the score of every head, every layer's mean and the mean of all, in both readings.

    `gold` links are sure, over the words of `gold_words`.
    """
    heads = candidates(aligner.layers, aligner.heads)
    totals = {reading: np.zeros((len(heads), 2), np.int64) for reading in READINGS}  # |A|, |A and S|
    sure = 0
    pairs = aligner.encode(sources, [ids.tolist() for ids in aligner.tokenizers.target.encode(targets)])
    for row, weights in aligner.weights(pairs):
        words = gold_words(sources[row]), gold_words(targets[row])
        left, right = aligner.word_shares(pairs[row], sources[row], targets[row], *words, rows=weights.shape[2])
        gold_links = table_of(gold[row], len(words[1]), len(words[0]))
        sure += int(gold_links.sum())
        every = stack_heads(weights)  # (N, T, S)
        for reading in READINGS:
            linked = links(merge_tokens(read(every, reading), left[:, :-1], right[:, :-1]), threshold)  # (N, W, U)
            totals[reading] += np.stack([linked.sum((1, 2)), (linked & gold_links).sum((1, 2))], 1)
    return {
        (reading, head): AlignmentScore(int(linked), sure, int(right), int(right))
        for reading in READINGS
        for head, (linked, right) in zip(heads, totals[reading], strict=True)
    }


def word_maps(
    aligner: Aligner, sources: Sequence[str], targets: Sequence[str], candidate: Candidate
) -> list[AttentionMap]:
    """Returns one head's map of each pair, over the words that gold alignments use."""
    reading, head = candidate
    own = replace(aligner, config=replace(aligner.config, head=str(head), reading=reading, units="words"))
    pairs = own.encode(sources, [ids.tolist() for ids in own.tokenizers.target.encode(targets)])
    maps: dict[int, AttentionMap] = {}
    for row, weights in own.weights(pairs):
        chosen = read(head.select(weights), reading)
        maps[row] = own.make_map(pairs[row], sources[row], targets[row], chosen, gold_words)
    return [maps[row] for row in range(len(pairs))]


def candidates(layers: int, heads: int) -> list[Head]:
    """Returns every head and, if there are several, every layer's mean and the mean of all."""
    single = [Head(layer, head) for layer in range(layers) for head in range(heads)]
    return single if len(single) == 1 else [*single, *(Head(layer) for layer in range(layers)), Head()]


def stack_heads(weights: Weights) -> Weights:
    """(L, H, T, S) -> (N, T, S) in the order of `candidates`."""
    single = weights.reshape(-1, *weights.shape[2:])
    if len(single) == 1:
        return single
    return np.concatenate([single, weights.mean(1), weights.mean((0, 1))[None]])


def table_of(gold: Iterable[Link], rows: int, columns: int) -> NDArray[np.bool_]:
    """Returns (W, U): True at the links (source, target)."""
    table = np.zeros((rows, columns), bool)
    for source, target in gold:
        table[target, source] = True
    return table


def report(evaluation: AlignmentEvaluation) -> str:
    """Returns the report for users: the chosen head's rates, and the error rate of every head."""
    table, valid = evaluation.tables[evaluation.split], evaluation.tables["valid"]
    lines = [
        f"alignment of {evaluation.pair} {evaluation.split}: {plural(len(evaluation.sources), 'sentence')}, "
        f"{evaluation.score.sure:,} gold links, chosen by {evaluation.chosen_on}"
    ]
    for what, candidate in (("best", evaluation.candidate), ("best single head", evaluation.single)):
        if what == "best" or candidate != evaluation.candidate:
            score, (reading, head) = table[candidate], candidate
            lines.append(
                f"{what}: {head}, read by {reading}: AER {score.aer:.3f}, precision {score.precision:.3f}, recall "
                f"{score.recall:.3f} (AER {valid[candidate].aer:.3f} on valid)"
            )
    layers = 1 + max(head.layer or 0 for _, head in table)
    heads = 1 + max(head.head or 0 for _, head in table)
    several = layers * heads > 1
    for order in READINGS:
        cells = [f"h{number}" for number in range(heads)] + (["mean"] if several else [])
        title = f"AER on {evaluation.split}, read by {order}"
        lines += ["", title + "".join(f"{cell:>7}" for cell in cells)]
        for layer in range(layers):
            members = [Head(layer, number) for number in range(heads)] + ([Head(layer)] if several else [])
            lines.append(f"{f'l{layer}':>{len(title)}}" + "".join(f"{table[order, head].aer:7.3f}" for head in members))
        if several:
            lines.append(f"{'mean of all':>{len(title)}}{table[order, Head()].aer:7.3f}")
    return "\n".join(lines)
