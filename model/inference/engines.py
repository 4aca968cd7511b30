"""The two engines behind a translator: PyTorch for every architecture, CTranslate2 for exported Transformers."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from model.bundles.ctranslate2 import distinct
from model.decoding.hypothesis import Hypothesis, hypothesis
from model.decoding.search import decode, fit, length_batches
from model.networks.network import TranslationNetwork
from model.settings import DecodeConfig
from model.text.tokenizer import UNK

NEXT_TO_NOTHING = 1e-9  # as a length penalty: any length to this power is 1 in float32


class Engine(Protocol):
    """Source ids (with the end of sentence) -> the best hypotheses of each, best first."""

    name: str
    bytes: int  # of its weights in memory

    def search(self, sources: Sequence[np.ndarray], config: DecodeConfig) -> list[list[Hypothesis]]: ...


def runs_int8(device: str) -> bool:
    """Returns True if CTranslate2 multiplies integers on this machine's `device`; else it converts them to float32."""
    import ctranslate2

    return "int8" in ctranslate2.get_supported_compute_types(device)


class TorchEngine:
    """Decodes in PyTorch with cached state; any architecture."""

    name = "torch"

    def __init__(self, network: TranslationNetwork) -> None:
        self.network = network
        self.bytes = sum(one.numel() * one.element_size() for one in network.parameters())

    def search(self, sources: Sequence[np.ndarray], config: DecodeConfig) -> list[list[Hypothesis]]:
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
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """`*_positions` are the sizes of the position tables; `threads` the batches at a time (None: one per core)."""
        import ctranslate2

        self.name = f"ctranslate2 ({folder.name})"
        self.bytes = (folder / "model.bin").stat().st_size
        self.source_tokens, self.target_tokens = distinct(source_tokens), distinct(target_tokens)
        self.target_ids = {token: number for number, token in enumerate(self.target_tokens)}
        self.source_positions, self.target_positions = source_positions, target_positions
        self.threads = threads or (len(os.sched_getaffinity(0)) if device == "cpu" else 1)
        self.translator = ctranslate2.Translator(
            os.fspath(folder), device=device, inter_threads=self.threads, intra_threads=1
        )
        # Batches wait here, not in CTranslate2's own queue, which cannot be interrupted.
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="ctranslate2")

    def search(self, sources: Sequence[np.ndarray], config: DecodeConfig) -> list[list[Hypothesis]]:
        """Returns hypotheses by the same rules as `decode`: limits, forbidden tokens, scores.

        Raises:
            UserError: a setting out of range, or a source beyond the position table under `too_long: error`.
        """
        config.check()
        cut = [fit(ids, number, self.source_positions, config.too_long) for number, ids in enumerate(sources)]
        limits = [config.longest(len(ids), self.target_positions) for ids in cut]
        options = self.options(config)
        answers: list[list[Hypothesis]] = [[] for _ in cut]
        searches: list[tuple[list[int], Future[Any]]] = []  # rows and their future results
        try:
            for limit in sorted(set(limits), reverse=True):  # one limit a call; see DecodeConfig.longest
                rows = [row for row, own in enumerate(limits) if own == limit]
                lengths = [len(cut[row]) for row in rows]
                share = -(-sum(lengths) // self.threads)  # smaller batches if a thread would have none
                for part in length_batches(lengths, min(config.sentence_tokens, share), config.sentences):
                    batch = [rows[place] for place in part]
                    tokens = [[self.source_tokens[number] for number in cut[row]] for row in batch]
                    search = self.pool.submit(
                        self.translator.translate_batch, tokens, max_decoding_length=limit, **options
                    )
                    searches.append((batch, search))
            for batch, search in searches:
                for row, found in zip(batch, search.result(), strict=True):
                    answers[row] = [
                        self.hypothesis(tokens, score, config.alpha)
                        for tokens, score in zip(found.hypotheses, found.scores, strict=True)
                    ]
        finally:
            for _, search in searches:  # after an interrupt, searches that have not begun never do
                search.cancel()
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
            "min_decoding_length": config.min_length,
            "max_input_length": self.source_positions,
            "disable_unk": not config.allow_unknown,
            "suppress_sequences": suppressed,
            "return_scores": True,
            "return_end_token": True,
        }

    def hypothesis(self, tokens: Sequence[str], score: float, alpha: float) -> Hypothesis:
        ids = [self.target_ids[token] for token in tokens]
        return replace(hypothesis(ids, score * max(1, len(ids)) ** alpha, alpha), score=score)
