"""The translator: lines of text in, lines of text out."""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.decoding.word_loops import WordLoops
from dragoman.model.errors import UserError
from dragoman.model.inference.engines import CTranslate2Engine, Engine, TorchEngine, runs_int8
from dragoman.model.settings import ENGINES, DecodeConfig, EngineName
from dragoman.model.text.loops import goes_round
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS, UNK, TokenizerPair

if TYPE_CHECKING:
    from dragoman.model.alignment.attention_map import AttentionMap
    from dragoman.model.networks.network import TranslationNetwork

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Alternative:
    """One of several translations of a line."""

    text: str
    score: float  # log probability / length ** length penalty
    log_probability: float = 0.0  # natural logarithm, as the search counts it
    ids: tuple[int, ...] = field(default=(), compare=False, repr=False)  # its tokens, without the end of sentence


@dataclass(frozen=True)
class Translation:
    """The answer for one line. An empty line has an empty text, the score 0 and no alternatives."""

    text: str
    score: float
    nbest: list[Alternative] = field(default_factory=list)  # best first, `text` among them
    truncated: bool = False  # True if the source was longer than the model can read
    error: str | None = None  # why there is no text (only with `on_error="keep"`)
    attention: "tuple[AttentionMap, ...]" = ()  # one map per sentence, on request
    unknown: int = 0  # pieces of the source that the vocabulary lacks
    missing: tuple[str, ...] = ()  # the words or characters behind the unknown tokens, each once
    loops: bool = False  # True: the text repeats itself and its source does not
    loop_broken: bool = False  # True: searched again because a word repeated itself (`decode.repeats_in_word`)

    @classmethod
    def joined(cls, text: str, score: float, nbest: list[Alternative], parts: "Sequence[Translation]") -> "Translation":
        """Returns the translation of a text from its `parts`, with all their losses."""
        error = next((part.error for part in parts if part.error), None)
        return cls(
            "" if error else text,
            0.0 if error else score,
            nbest,
            any(part.truncated for part in parts),
            error,
            tuple(row for part in parts for row in part.attention),
            sum(part.unknown for part in parts),
            tuple(dict.fromkeys(word for part in parts for word in part.missing)),
            any(part.loops for part in parts),
            any(part.loop_broken for part in parts),
        )


class Translator:
    """Normalises, encodes, searches, decodes. Safe to call from several threads."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        decode: DecodeConfig,
        positions: int,
        form: str = "NFC",
        network: "Callable[[], TranslationNetwork] | None" = None,
    ) -> None:
        """Takes the parts; `open_translator` makes a translator from a bundle.

        `positions` is the most source tokens the model reads, `form` the Unicode normalisation of its shards, `network`
        returns the network that searches again under `decode.repeats_in_word`.
        """
        self.network = network
        self.engine = engine
        self.tokenizers = tokenizers
        self.decode = decode
        self.positions = positions
        self.form = form
        self.prefix = ""

    def prefixed(self, prefix: str) -> "Translator":
        """Returns the same translator with tags before each source line, as text, such as `<2de> `."""
        other = copy.copy(self)
        other.prefix = prefix
        return other

    def translate(
        self,
        lines: Sequence[str],
        decode: DecodeConfig | None = None,
        on_error: Literal["raise", "keep"] = "raise",
        scored: bool = True,
    ) -> list[Translation]:
        """Returns one translation per line, in order; empty lines get empty translations.

        A batch that fails is retried line by line, so that one line cannot fail its neighbours. A line that fails by
        itself raises, or its translation carries the `error`. Without `scored`, scores may be 0, if that is faster.
        """
        decode = self.decode if decode is None else decode
        decode.check()
        sources = self.encode(lines)
        filled = [row for row, ids in enumerate(sources) if len(ids) > 1]  # 1: only the end of sentence
        answers = [Translation("", 0.0) for _ in lines]
        searched = self.search([sources[row] for row in filled], decode, on_error, scored)
        for row, hypotheses in zip(filled, searched, strict=True):
            if isinstance(hypotheses, str):
                answers[row] = Translation("", 0.0, error=hypotheses)
            else:
                answers[row] = self.answer(lines[row], sources[row], hypotheses)
        return answers

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """Returns the lines normalised and tokenised with the end of sentence; [EOS] alone for an empty line."""
        texts = [text and self.prefix + text for line in lines for text in [normalise(line, self.form)]]
        return [np.append(ids.astype(np.int64), EOS) for ids in self.tokenizers.source.encode(texts)]

    def missing(self, line: str) -> tuple[str, ...]:
        """Returns the parts of a line that the source vocabulary lacks, each once."""
        return tuple(dict.fromkeys(self.tokenizers.source.unknown(normalise(line, self.form))))

    def search(
        self,
        sources: Sequence[np.ndarray],
        decode: DecodeConfig,
        on_error: Literal["raise", "keep"],
        scored: bool = True,
    ) -> list[list[Hypothesis] | str]:
        """Returns the engine's hypotheses of each source, or the message of the failure."""
        if not sources:
            return []
        try:
            return [*self.replace_loops(sources, decode, self.engine.search(sources, decode, scored))]
        except UserError as problem:
            if on_error == "raise":
                raise
            if len(sources) == 1:
                return [str(problem)]
        except (RuntimeError, ValueError, MemoryError, FloatingPointError) as problem:  # what the engines raise
            if len(sources) == 1:
                if on_error == "raise":
                    raise
                return [f"{type(problem).__name__}: {problem}"]
            logger.warning("a batch of %d failed (%s); trying it line by line", len(sources), problem)
        return [answer for source in sources for answer in self.search([source], decode, on_error, scored)]

    def replace_loops(
        self, sources: Sequence[np.ndarray], decode: DecodeConfig, hypotheses: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Replaces hypotheses with a loop of subwords in a word by those of a search that forbids loops.

        This search uses PyTorch whatever the engine, so that all engines give the same; few sentences have a loop.
        """
        if not decode.repeats_in_word or self.network is None:
            return hypotheses
        guard = WordLoops(self.tokenizers.target, decode.repeats_in_word)
        rows = [row for row, each in enumerate(hypotheses) if any(guard.found(hypothesis.ids) for hypothesis in each)]
        if rows:
            from dragoman.model.decoding.search import decode as search_again

            again = search_again(self.network(), [sources[row] for row in rows], decode, guard=guard)
            hypotheses = list(hypotheses)
            for row, each in zip(rows, again, strict=True):
                hypotheses[row] = [replace(hypothesis, loop_broken=True) for hypothesis in each]
        return hypotheses

    def answer(self, line: str, source: np.ndarray, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Returns the translation of a line, with what is wrong with it."""
        texts = self.tokenizers.target.decode([list(hypothesis.ids) for hypothesis in hypotheses])
        nbest = [
            Alternative(text, hypothesis.score, hypothesis.log_probability, hypothesis.ids)
            for text, hypothesis in zip(texts, hypotheses, strict=True)
        ]
        best, unknown = hypotheses[0], int(np.count_nonzero(source == UNK))
        missing = self.missing(line) if unknown else ()
        cut, loops = len(source) > self.positions, goes_round(texts[0], line)
        return Translation(texts[0], best.score, nbest, cut, None, (), unknown, missing, loops, best.loop_broken)


def open_translator(
    directory: Path | TranslationBundle, engine: EngineName = "auto", *, device: str = "cpu", threads: int | None = None
) -> Translator:
    """Returns a translator of the bundle in `directory`.

    `auto` takes the int8 export if the bundle's facts accept it (`int8.accepted`) and this machine runs it, else the
    float32 export, else PyTorch. `threads`: batches that CTranslate2 decodes at a time, one per core by default.
    """
    bundle = directory if isinstance(directory, TranslationBundle) else load_bundle(Path(directory))
    if engine not in ENGINES:
        raise UserError(f"engine: {engine!r} is not known. Choices: {', '.join(ENGINES)}")
    return Translator(
        choose_engine(bundle, engine, device, threads),
        bundle.tokenizers,
        bundle.decode,
        bundle.source_positions,
        bundle.normalisation,
        lambda: bundle.network.to(device),
    )


def network_translator(
    network: "TranslationNetwork", tokenizers: TokenizerPair, decode: DecodeConfig, form: str
) -> Translator:
    """Returns a PyTorch translator of a network in memory, for validation. `form`: its shards' normalisation."""
    return Translator(TorchEngine(network), tokenizers, decode, network.max_source_positions, form, lambda: network)


def choose_engine(bundle: TranslationBundle, engine: EngineName, device: str, threads: int | None) -> Engine:
    accepted = bool(dict(bundle.facts.get("int8") or {}).get("accepted"))
    wishes: dict[str, list[str]] = {
        "auto": [*(["int8"] if accepted and runs_int8(device) else []), "float32", "torch"],
        "ctranslate2": ["float32"],
        "ctranslate2-int8": ["int8"],
        "torch": ["torch"],
    }
    for wish in wishes[engine]:
        if wish == "torch":
            return TorchEngine(bundle.network.to(device))
        folder = bundle.export_folder("int8" if wish == "int8" else "float32")
        if folder is not None and wish == "int8" and not runs_int8(device):
            raise UserError(f"engine: {engine!r}: no int8 products on this {device}. Choices: auto, ctranslate2, torch")
        if folder is not None:
            return CTranslate2Engine(
                folder,
                *bundle.tokens(),
                source_positions=bundle.source_positions,
                target_positions=bundle.target_positions,
                source_prefix=bundle.model.get("source_prefix") or (),
                target_prefix=bundle.model.get("target_prefix") or (),
                device=device,
                threads=threads,
            )
    raise UserError(f"engine: {engine!r}: {bundle.directory} has no such export. Choices: auto, torch")
