"""Evaluates a language model on a held-out text: nats and bits per token, character and byte, perplexity.

For a masked model: how well it predicts masked tokens. The bundle's own tokenizer splits the text. Figures per
character, byte and word compare across tokenizers that write every text (characters, bytes, subwords); those per token
do not.

A record's end is a token and counts as one character, one byte and one word, for its line feed.
"""

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dragoman.model.bundles.language import TextBundle
from dragoman.model.decoding.fill_mask import decode_masked
from dragoman.model.errors import UserError
from dragoman.model.layers.losses import CHUNK_ROWS
from dragoman.model.networks.network import Network
from dragoman.model.plural import plural
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, PAD, UNK, Tokenizer
from dragoman.model.text.words import WordTokenizer
from dragoman.pipelines.evaluation.base import Rows, SplitEvaluation, origin
from dragoman.pipelines.evaluation.held_out import held_out_lines, pick_evenly
from dragoman.pipelines.evaluation.language.held_out import PARTS, parts, span_batches, views
from dragoman.pipelines.evaluation.language.samples import TextSample, continuations, sample_rows
from dragoman.pipelines.evaluation.significance import Significance, compare_items
from dragoman.pipelines.loaders.masked import MaskedWindow, Masking, held_out_bits, masking, sorted_batches


class TokenLosses(NamedTuple):
    """The losses of the scored tokens, in the order of the batch."""

    rows: NDArray[np.int64]  # (n,) row of each
    columns: NDArray[np.int64]  # (n,)
    nll: NDArray[np.float64]  # (n,) nats
    predictions: NDArray[np.int64]  # (n,) the likeliest token


def token_losses(network: Network, batch: TextBatch) -> TokenLosses:
    """Scores every target of the batch that is not PAD, in evaluation mode. Pass a stream's batches in order."""
    device = next(network.parameters()).device
    batch = batch.to(device)
    with torch.inference_mode():
        states = network(batch)  # (B, T, D)
        rows, columns = (batch.targets != PAD).nonzero(as_tuple=True)  # (n,)
        target_tokens = batch.targets[rows, columns]
        states = states[rows, columns]  # (n, D)
        nll, predictions = [], []
        for part, target in zip(torch.split(states, CHUNK_ROWS), torch.split(target_tokens, CHUNK_ROWS), strict=True):
            logits = network.logits(part).float()  # (c, V)
            nll.append(nn.functional.cross_entropy(logits, target, reduction="none").double())
            predictions.append(logits.argmax(1))
    return TokenLosses(
        rows.cpu().numpy(), columns.cpu().numpy(), torch.cat(nll).cpu().numpy(), torch.cat(predictions).cpu().numpy()
    )


def stream_nll(network: Network, batches: Iterable[TextBatch], tokens: int) -> NDArray[np.float64]:
    """Returns (N,) nats of each token of a text, from batches that score each token once; their `ids` are positions."""
    nats = np.full(tokens, np.nan)
    for batch in batches:
        losses = token_losses(network, batch)
        nats[batch.ids[losses.rows] + losses.columns] = losses.nll
    return nats


class Lines:
    """Records, one line each, as one row of tokens; every record ends with EOS for the line's end."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        if not texts:
            raise UserError("evaluate.split: no texts to evaluate on")
        self.texts = list(texts)
        encoded = tokenizer.encode(self.texts)
        self.lengths = np.array([len(ids) + 1 for ids in encoded], dtype=np.int64)  # (records,)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.tokens = int(self.lengths.sum())  # N
        self.row = np.full(self.tokens, EOS, dtype=np.int64)
        inside = np.ones(self.tokens, dtype=np.bool_)
        inside[self.starts + self.lengths - 1] = False
        self.row[inside] = np.concatenate(encoded)
        self.unknown = int(np.count_nonzero(self.row == UNK))
        self.characters = np.array([len(text) + 1 for text in self.texts], dtype=np.int64)  # (records,) with the end
        self.bytes = np.array([len(text.encode()) + 1 for text in self.texts], dtype=np.int64)
        self.words = np.array([len(text.split()) + 1 for text in self.texts], dtype=np.int64)

    def rows(self, starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Returns (B, count): the tokens from each of the positions (B,) on, wrapping around at both ends."""
        return np.take(self.row, starts[:, None] + np.arange(count), mode="wrap")

    def by_record(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """values (N,) of tokens -> their sums (records,)."""
        return np.add.reduceat(values, self.starts)


STEP = 256  # tokens that a recurrent network reads at a time
BATCH_TOKENS = 8192  # for networks with a bounded context
FEW = 0.001  # share of unknown tokens that figures per character hardly notice
LONGEST = 512  # pieces of masked records, if the network has no limit


@dataclass(kw_only=True)
class TextEvaluation(SplitEvaluation):
    """The results; arrays are by record, in the order of the held-out texts."""

    kind: str  # language or masked
    nll: NDArray[np.float64]  # (records,) nats of its tokens; masked: of the predicted ones
    items: NDArray[np.int64]  # (records,) number of those tokens
    characters: NDArray[np.int64]  # (records,)
    bytes: int
    words: int
    unknown: int  # tokens that are not in the vocabulary
    tokens: int  # all of them
    right: int | None  # masked: tokens predicted correctly
    context: str  # how much context each token had, in words
    samples: list[TextSample]
    tokenizer: str  # sha256 of its file and the masking rules; masked figures compare only if it is equal
    lossless: bool  # its tokens can write every text, so figures per character compare with other tokenizers'
    # (records,) nats of its items where each token is as likely as it is frequent in these texts
    frequencies: NDArray[np.float64]

    def figures(self) -> dict[str, float]:
        items = int(self.items.sum())
        nats = float(self.nll.sum()) / max(items, 1)
        values = {"nats": nats, "bits": nats / math.log(2), "perplexity": math.exp(min(nats, 700.0)), "tokens": items}
        values["unknown_rate"] = self.unknown / self.tokens
        if self.right is not None:
            return {**values, "accuracy": self.right / max(items, 1)}
        total = float(self.nll.sum())
        return {
            **values,
            "nats_per_character": total / int(self.characters.sum()),
            "bits_per_character": total / math.log(2) / int(self.characters.sum()),
            "bits_per_byte": total / math.log(2) / self.bytes,
            "word_perplexity": math.exp(min(total / self.words, 700.0)),
        }

    def details(self) -> dict[str, Any]:
        return {
            "language": self.pair,
            "scores": self.figures(),
            "records": len(self.items),
            "characters": int(self.characters.sum()),
            "unknown": self.unknown,
            "context": self.context,
            "samples": [asdict(sample) for sample in self.samples],
        }

    def tables(self) -> dict[str, Rows]:
        names = ("masked", "guessed", "truth") if self.kind == "masked" else ("prompt", "continuation", "truth")
        return {"samples.json": sample_rows(names, self.samples)}

    def unit(self) -> tuple[str, str]:
        return "token", "nats per {}"

    def floor(self) -> "tuple[str, TextEvaluation]":
        """Returns a model that knows nothing but the frequencies of the tokens."""
        return "the tokens' frequencies in it", replace(self, nll=self.frequencies)

    def report(self) -> str:
        scores = self.figures()
        lines = [
            f"{self.pair} {self.split}: {plural(len(self.items), 'record')}, "
            f"{scores['tokens']:,.0f} tokens, {100 * scores['unknown_rate']:.2f} % unknown; "
            f"each given {self.context}; {self.seconds:.0f} s"
        ]
        figures = (
            f"{scores['nats']:.4f} nats per token ({scores['bits']:.4f} bits), perplexity {scores['perplexity']:.2f}"
        )
        if "accuracy" in scores:
            lines.append(f"{figures}; {100 * scores['accuracy']:.1f} % of the masked tokens guessed right")
        else:
            lines += [
                figures,
                f"{scores['nats_per_character']:.4f} nats per character ({scores['bits_per_character']:.4f} bits), "
                f"{scores['bits_per_byte']:.4f} bits per byte, perplexity per word {scores['word_perplexity']:.2f}",
            ]
        for sample in self.samples:
            lines += [
                "",
                f"[{excerpt(sample.prompt)}]{excerpt(sample.text)}"
                if self.kind == "language"
                else excerpt(sample.prompt),
            ]
            if self.kind == "masked":
                lines += [f"  guessed  {excerpt(sample.text)}", f"  truth    {excerpt(sample.truth)}"]
        return "\n".join(lines)

    def compare(self, baseline: Self, trials: int = 1000) -> Significance:
        """Tests bits per character, which works across tokenizers that write every text.

        Of masked models nats per predicted token. Lower is better.
        """
        if (baseline.kind, baseline.pair) != (self.kind, self.pair):
            raise UserError(
                f"a {self.kind} model of {self.pair} and a {baseline.kind} model of {baseline.pair} cannot be compared"
            )
        if self.kind == "masked":
            if baseline.tokenizer != self.tokenizer:
                raise UserError("masked models are compared by what they guess; these have other tokenizers or masks")
            metric, scale, sizes = "nats a guessed token", 1.0, self.items
        else:
            if baseline.tokenizer != self.tokenizer and not (baseline.lossless and self.lossless):
                raise UserError(
                    "one model leaves out what its vocabulary lacks, the other has another tokenizer: their bits per "
                    "character cannot be compared"
                )
            metric, scale, sizes = "bits a character", math.log(2), self.characters
        if not np.array_equal(baseline.characters, self.characters):
            raise UserError("the two models were evaluated on other texts")
        return compare_items(baseline.nll / scale, self.nll / scale, sizes, metric, trials)


def evaluate_text_bundle(
    bundle: TextBundle, shards: Path, split: str = "test", *, stride: int = 0, records: int = 0, samples: int = 10
) -> TextEvaluation:
    """Evaluates a bundle on the held-out texts of `split` in the shard directory.

    `stride`: tokens that a network with a bounded context scores at a time, the rest being context; 0: half of it.
    `records` 0 means all.
    """
    lines = Lines(held_out_lines(shards, split, bundle.language, records), bundle.tokenizer)
    begin = time.perf_counter()
    if bundle.kind == "language":
        nll, context = _language_nll(bundle, lines, stride)
        items, right = lines.lengths, None
        samples_shown = continuations(
            bundle.language_network, bundle.tokenizer, lines.texts, samples, bundle.normalisation
        )
    else:
        nll, items, right, samples_shown = _masked_nll(bundle, lines, samples)
        context = "its record, masked"
    return TextEvaluation(
        kind=bundle.kind,
        split=split,
        pair=bundle.language,
        nll=nll,
        items=items,
        characters=lines.characters,
        bytes=int(lines.bytes.sum()),
        words=int(lines.words.sum()),
        unknown=lines.unknown,
        tokens=lines.tokens,
        right=right,
        context=context,
        samples=samples_shown,
        seconds=time.perf_counter() - begin,
        tokenizer=_tokens_of(bundle),
        lossless=lines.unknown <= FEW * lines.tokens and not isinstance(bundle.tokenizer, WordTokenizer),
        **origin(bundle, shards),
        frequencies=unigram_nll(lines) * items / np.maximum(lines.lengths, 1),
    )


def unigram_nll(lines: Lines) -> NDArray[np.float64]:
    """Returns (records,) nats of the records, each token as likely as it is frequent in them."""
    _, inverse, counts = np.unique(lines.row, return_inverse=True, return_counts=True)
    return lines.by_record(-np.log(counts[inverse] / len(lines.row)))


def _language_nll(bundle: TextBundle, lines: Lines, stride: int) -> tuple[NDArray[np.float64], str]:
    """Returns (records,) nats, and how much context each token had."""
    network = bundle.language_network
    if network.max_positions is None:
        spans = parts(lines.tokens)
        batches = span_batches(lines, spans, PARTS, STEP)
        context = "all text before it (its state is carried)"
    else:
        length = min(network.max_positions, lines.tokens)
        stride = stride or max(1, length // 2)
        if not 1 <= stride <= network.max_positions:
            raise UserError(f"evaluate.stride={stride}: must be from 1 to the network's {network.max_positions} tokens")
        batches = span_batches(lines, views(lines.tokens, length, stride), max(1, BATCH_TOKENS // length), length)
        context = f"{max(0, length - stride):,} to {length:,} tokens before it"
    return lines.by_record(stream_nll(network, batches, lines.tokens)), context


def _masked_nll(
    bundle: TextBundle, lines: Lines, samples: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], int, list[TextSample]]:
    """Returns nats and predicted tokens of each record (records,), correct predictions, and filled texts."""
    longest = bundle.positions or LONGEST
    ids = np.arange(len(lines.texts), dtype=np.int64)
    window = MaskedWindow.mask_records(lines.row, lines.lengths, ids, longest, _masking(bundle), held_out_bits())
    nll, items = np.zeros(len(lines.texts)), np.zeros(len(lines.texts), dtype=np.int64)
    right = 0
    filled = window.inputs.copy()
    for batch, rows in sorted_batches(window, BATCH_TOKENS):
        losses = token_losses(bundle.network, batch)
        positions = window.starts[rows][losses.rows] + losses.columns
        np.add.at(nll, batch.ids[losses.rows], losses.nll)
        np.add.at(items, batch.ids[losses.rows], 1)
        right += int(np.count_nonzero(losses.predictions == window.targets[positions]))
        filled[positions] = losses.predictions
    samples_shown = []
    guessed = np.flatnonzero(items)
    for number in pick_evenly(guessed.tolist(), samples):
        begin = int(lines.starts[number])
        at = slice(begin, begin + int(lines.lengths[number]) - 1)  # without the end of record
        masked_text, guess = (decode_masked(bundle.tokenizer, ids[at]) for ids in (window.inputs, filled))
        samples_shown.append(TextSample(masked_text, guess, lines.texts[number]))
    return nll, items, right, samples_shown


def _masking(bundle: TextBundle) -> Masking:
    """Returns the masking rules of the bundle's training."""
    rules: Mapping[str, Any] = bundle.facts.get("masking") or {}
    return masking(bundle.tokenizer, float(rules.get("share", 0.15)), bool(rules.get("whole_words", False)))


def _tokens_of(bundle: TextBundle) -> str:
    files = json.dumps([bundle.facts.get("masking"), bundle.positions], sort_keys=True)
    return hashlib.sha256(bundle.tokenizer.serialise() + files.encode()).hexdigest()
