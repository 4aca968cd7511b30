"""Evaluates a network that was trained by denoising: how well it rewrites the texts of a split under fixed noise.

The noise is that of the validation during the training, so both figures are of the same batches. Each token is
predicted from the noised text and the true tokens before it.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.decoding.fill_mask import decode_masked
from dragoman.model.decoding.search import decode
from dragoman.model.errors import UserError
from dragoman.model.networks.network import TranslationNetwork, evaluating
from dragoman.model.plural import plural
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.tokenizer import PAD
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.evaluation.base import Rows, SplitEvaluation, origin
from dragoman.pipelines.evaluation.held_out import pick_evenly
from dragoman.pipelines.evaluation.language.samples import TextSample, sample_rows
from dragoman.pipelines.evaluation.significance import Significance, compare_items
from dragoman.pipelines.loaders.denoising import held_out_noised
from dragoman.pipelines.settings import LoaderConfig

NOISE = "noise"  # the fact of a bundle that tells its training's noise
BATCH_TOKENS = 4096


@dataclass(kw_only=True)
class Reconstruction(SplitEvaluation):
    """The results; arrays are by text, in the order of (record, side)."""

    nll: NDArray[np.float64]  # (texts,) nats of its tokens
    items: NDArray[np.int64]  # (texts,) tokens
    right: int  # tokens of all texts that were predicted correctly
    samples: list[TextSample]
    noise: dict[str, Any]

    def figures(self) -> dict[str, float]:
        items = int(self.items.sum())
        nats = float(self.nll.sum()) / items
        return {"nats": nats, "perplexity": math.exp(min(nats, 700.0)), "accuracy": self.right / items, "tokens": items}

    def details(self) -> dict[str, Any]:
        return {
            "pair": self.pair,
            "scores": self.figures(),
            "texts": len(self.items),
            "noise": self.noise,
            "samples": [asdict(sample) for sample in self.samples],
        }

    def tables(self) -> dict[str, Rows]:
        return {"samples.json": sample_rows(("noised", "rewritten", "text"), self.samples)}

    def report(self) -> str:
        scores = self.figures()
        lines = [
            f"{self.pair} {self.split}: {plural(len(self.items), 'noised text')}, {scores['tokens']:,.0f} tokens, "
            f"{self.noise['denoise']}; {self.seconds:.0f} s",
            f"{scores['nats']:.4f} nats per token, perplexity {scores['perplexity']:.2f}, "
            f"{scores['accuracy']:.1%} of the tokens right; translations are not measured, for it translates nothing",
        ]
        for sample in self.samples:
            columns = (("noised", sample.prompt), ("rewritten", sample.text), ("text", sample.truth))
            lines += ["", *(f"  {name:<9}  {excerpt(text)}" for name, text in columns)]
        return "\n".join(lines)

    def compare(self, baseline: Self, trials: int) -> Significance:
        """Tests the nats per token of the texts; lower is better."""
        if baseline.noise != self.noise or not np.array_equal(baseline.items, self.items):
            raise UserError("evaluate.against: networks that denoise are compared under equal noise and tokenizers")
        return compare_items(baseline.nll, self.nll, self.items, "nats a token", trials, "texts")


def evaluate_reconstruction(
    bundle: TranslationBundle, shards: Path, split: str, records: int = 0, samples: int = 10
) -> Reconstruction:
    """Evaluates a denoised bundle on the first `records` of a split, 0 for all."""
    noise: Mapping[str, Any] = bundle.facts[NOISE]
    reader = ShardReader(shards, split)
    theirs, ours = (
        {entry["side"]: entry["sha256"] for entry in record["files"]}
        for record in (reader.manifest.tokenizer, bundle.tokenizers.describe())
    )
    if theirs != ours:
        raise UserError(
            f"bundle: {bundle.directory} has another tokenizer than the shards in {shards}; this makes shards "
            f"with it: {shard_command(f'tokenizer.same_as={bundle.directory}', beside=str(shards))}"
        )
    begin = time.perf_counter()
    batches = list(held_out_noised(reader, LoaderConfig(**{**noise, "batch_tokens": BATCH_TOKENS}), records=records))
    if not batches:
        raise UserError(f"evaluate.split={split}: the split is empty")
    with evaluating(bundle.network), torch.inference_mode():
        predictions = [predict(bundle.network, batch) for batch in batches]
    order = np.argsort(np.concatenate([batch.ids for batch in batches]), kind="stable")
    nll, right, items = (np.concatenate(arrays)[order] for arrays in zip(*predictions, strict=True))
    return Reconstruction(
        split=split,
        pair=bundle.pair,
        nll=nll,
        items=items,
        right=int(right.sum()),
        samples=rewrite(bundle, batches, samples),
        noise=dict(noise),
        seconds=time.perf_counter() - begin,
        **origin(bundle, shards),
    )


def predict(
    network: TranslationNetwork, batch: TranslationBatch
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns each text's nats, its tokens predicted correctly, and its tokens (B,)."""
    real = batch.target_out != PAD  # (B, T)
    scores = network.logits(network(batch)[real]).float().log_softmax(-1)  # (N, V)
    targets = batch.target_out[real]
    nll, right = torch.zeros(real.shape, dtype=torch.float64), torch.zeros(real.shape, dtype=torch.int64)
    nll[real] = -scores.gather(1, targets[:, None])[:, 0].double()
    right[real] = (scores.argmax(1) == targets).long()
    return nll.sum(1).numpy(), right.sum(1).numpy(), real.sum(1).numpy()


def rewrite(bundle: TranslationBundle, batches: Sequence[TranslationBatch], count: int) -> list[TextSample]:
    """Returns noised texts, what the network writes for them (greedily), and what it was to write."""
    rows = [
        (source[source != PAD].numpy(), target[target != PAD].numpy())
        for batch in batches
        for source, target in zip(batch.source, batch.target_out, strict=True)
    ]
    chosen = pick_evenly(rows, count)
    rewritten = decode(bundle.network, [source for source, _ in chosen], DecodeConfig(beam=1, length_penalty=1.0))
    tokenizer = bundle.tokenizers.source
    return [
        TextSample(*(decode_masked(tokenizer, ids) for ids in (source, np.array(best.ids, np.int64), target)))
        for (source, target), (best, *_) in zip(chosen, rewritten, strict=True)
    ]
