"""The two engines behind a translator: PyTorch for every architecture, CTranslate2 for exported Transformers."""

import itertools
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dragoman.model.bundles.exports import distinct
from dragoman.model.decoding.hypothesis import Hypothesis, hypothesis
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import UNK

if TYPE_CHECKING:
    from dragoman.model.networks.network import TranslationNetwork

Sources: TypeAlias = Sequence[np.ndarray]
Found: TypeAlias = list[list[Hypothesis]]
NEXT_TO_NOTHING = 1e-9  # as a length penalty: any length to this power is 1 in float32


class Engine(Protocol):
    """Source ids (with the end of sentence) -> the best hypotheses of each, best first."""

    name: str
    bytes: int  # of its weights in memory
    target_positions: int  # the most tokens of a translation

    def search(self, sources: Sources, config: DecodeConfig, scored: bool = True) -> Found:
        """Without `scored`, hypotheses may have the score 0, if that is faster."""


def runs_int8(device: str) -> bool:
    """Returns True if CTranslate2 multiplies integers on this machine's `device`; else it converts them to float32."""
    import ctranslate2

    return "int8" in ctranslate2.get_supported_compute_types(device)


class TorchEngine:
    """Decodes in PyTorch with cached state; any architecture."""

    name = "torch"

    def __init__(self, network: "TranslationNetwork") -> None:
        self.network = network
        self.target_positions = network.max_target_positions
        self.bytes = network.bytes

    def search(self, sources: Sources, config: DecodeConfig, scored: bool = True) -> Found:
        from dragoman.model.decoding.search import decode

        return decode(self.network, sources, config)


class CTranslate2Engine:
    """Decodes in CTranslate2: one batch per core (several cores for one batch are far slower on small ones)."""

    def __init__(
        self,
        folder: Path,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        *,
        source_positions: int,
        target_positions: int,
        source_prefix: Sequence[int] = (),
        target_prefix: Sequence[int] = (),
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """`*_positions` are the most tokens of a side without its prefix, `*_prefix` the ids that the network puts
        before every source and target; `threads` the batches of a call at a time (None: one per core)."""
        import ctranslate2

        self.name = f"ctranslate2 ({folder.name})"
        self.bytes = (folder / "model.bin").stat().st_size
        self.source_tokens, self.target_tokens = distinct(source_tokens), distinct(target_tokens)
        self.target_ids = {token: number for number, token in enumerate(self.target_tokens)}
        self.source_positions, self.target_positions = source_positions, target_positions
        self.source_prefix = [self.source_tokens[number] for number in source_prefix]
        self.target_prefix = [self.target_tokens[number] for number in target_prefix]
        self.threads = threads or (len(os.sched_getaffinity(0)) if device == "cpu" else 1)
        # The endpoint's lane of long texts searches beside the other. Workers share the weights, and each keeps a heap.
        workers = self.threads + 1 if device == "cpu" else self.threads
        self.translator = ctranslate2.Translator(
            os.fspath(folder), device=device, inter_threads=workers, intra_threads=1
        )
        # Batches wait in `search`, not in CTranslate2's own queue, which cannot be interrupted.
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="ctranslate2")

    def search(self, sources: Sources, config: DecodeConfig, scored: bool = True) -> Found:
        """Returns hypotheses by the same rules as `decode`: limits, forbidden tokens, scores."""
        config.check()
        cut = fit(sources, self.source_positions, config.too_long, side="source")
        limits = [config.longest(len(ids), self.target_positions) for ids in cut]
        options = self.options(config) | {"return_scores": scored}
        prefix = self.target_prefix
        if prefix:  # it counts as part of the length: all that ended are scored again and sorted here
            options |= {"return_scores": True, "num_hypotheses": config.candidates}
        answers: list[list[Hypothesis]] = [[] for _ in cut]
        batches: deque[tuple[list[int], int]] = deque()  # rows, and the most tokens of their translations
        # One limit a call, see DecodeConfig.longest. Padding changes the order of sums: that may turn a near tie, above
        # all in int8, where a sum next to the border of two steps becomes the other one.
        groups = [(limit, len(ids) if config.same_length else 0) for limit, ids in zip(limits, cut, strict=True)]
        for limit, length in sorted(set(groups), reverse=True):
            rows = [row for row, own in enumerate(groups) if own == (limit, length)]
            lengths = [len(cut[row]) for row in rows]
            share = -(-sum(lengths) // self.threads)  # smaller batches if a thread would have none
            for part in length_batches(min(config.sentence_tokens, share), config.sentences, lengths):
                batches.append(([rows[place] for place in part], limit))
        running: dict[Future[Any], list[int]] = {}
        while batches or running:
            while batches and len(running) < self.threads:
                rows, limit = batches.popleft()
                tokens = [self.source_prefix + [self.source_tokens[number] for number in cut[row]] for row in rows]
                most = limit + len(prefix)
                if prefix:
                    options["target_prefix"] = [prefix] * len(rows)
                search = self.pool.submit(self.translator.translate_batch, tokens, max_decoding_length=most, **options)
                running[search] = rows
            for search in wait(running, return_when=FIRST_COMPLETED).done:
                for row, hypotheses in zip(running.pop(search), search.result(), strict=True):
                    each = [
                        self.hypothesis(tokens, score, config.alpha)
                        for tokens, score in zip(
                            hypotheses.hypotheses, hypotheses.scores or itertools.repeat(0.0), strict=False
                        )
                    ]
                    if prefix:
                        each = sorted(each, key=lambda hypothesis: -hypothesis.score)[: config.nbest]
                    answers[row] = each
        return answers

    def options(self, config: DecodeConfig) -> dict[str, Any]:
        """Returns the settings of a call, except for the maximum length."""
        suppressed = [[self.target_tokens[number]] for number in config.forbidden() if number != UNK]
        patience, penalty = config.patience, config.alpha
        if penalty == 0 and config.nbest > 1:
            # With penalty 0 it ends a sentence at the best hypothesis, although others of the n best may still come. So
            # it gets a penalty that changes no score, and the patience to search on to the maximum length.
            patience, penalty = float(self.target_positions + 1), NEXT_TO_NOTHING
        return {
            "beam_size": config.beam,
            "patience": patience,
            "num_hypotheses": config.nbest,
            "length_penalty": penalty,
            "min_decoding_length": config.min_length + len(self.target_prefix),
            "max_input_length": self.source_positions + len(self.source_prefix),
            "disable_unk": not config.allow_unknown,
            "suppress_sequences": suppressed,
            "return_end_token": True,
        }

    def hypothesis(self, tokens: Sequence[str], score: float, alpha: float) -> Hypothesis:
        ids = [self.target_ids[token] for token in tokens[len(self.target_prefix) :]]
        rescored = hypothesis(ids, score * max(1, len(tokens)) ** alpha, alpha)
        return rescored if self.target_prefix else replace(rescored, score=score)
