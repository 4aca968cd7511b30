"""Settings chosen on the validation set: the length penalty, and whether int8 may serve."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.decoding.search import decode
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.engines import runs_int8
from dragoman.model.inference.translator import network_translator, open_translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.plural import plural
from dragoman.model.processor import int8_instructions
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.evaluation.metrics import quick_chrf
from dragoman.pipelines.evaluation.significance import score_resampled
from dragoman.pipelines.settings import PENALTIES

logger = logging.getLogger(__name__)
RESAMPLED = 200  # sets, for a standard error


@dataclass
class PenaltyChoice:
    """A length penalty, and the results of the others."""

    penalty: float
    bleu: float
    tried: dict[float, float]  # penalty -> BLEU
    best: float  # the penalty with the best BLEU; `penalty` may be within a standard error of it
    translations: list[str]  # under `penalty`

    def facts(self) -> dict[str, Any]:
        """Returns the choice for a bundle's facts."""
        return {"penalty": self.penalty, "bleu": self.bleu, "tried": self.tried, "best": self.best}


def tune_length_penalty(
    network: TranslationNetwork,
    tokenizers: TokenizerPair,
    sources: Sequence[str],
    references: Sequence[str],
    config: DecodeConfig,
    penalties: Sequence[float] = PENALTIES,
    language: str = "en",
    form: str = "NFC",
) -> PenaltyChoice:
    """Chooses the penalty nearest 1 among those whose BLEU on these sentences is within a standard error of the best.

    A flat curve peaks where the length of these references happens to be, and other sentences have another length. So
    the one-standard-error rule applies (Breiman et al. 1984, section 3.4.3), to the difference to the best on resampled
    sets.

    One search serves all penalties: a penalty above 0 only ranks finished hypotheses and does not steer the search, so
    ranking them again gives exactly the result of another search. `form` is the shards' normalisation.
    """
    logger.info(f"trying length penalties on {plural(len(sources), 'validation sentence')}")
    translator = network_translator(network, tokenizers, config, form)
    filled = [row for row, ids in enumerate(translator.encode(sources)) if len(ids) > 1]
    encoded = translator.encode([sources[row] for row in filled])
    decoded = decode(network, encoded, replace(config, length_penalty=1.0, nbest=1), every=True)
    translations = []
    alphas = list(dict.fromkeys(float(alpha) for alpha in penalties))
    for penalty in alphas:
        best = [best_under(hypotheses, penalty) for hypotheses in decoded]
        texts = [""] * len(sources)
        for row, text in zip(
            filled, tokenizers.target.decode([list(hypothesis.ids) for hypothesis in best]), strict=True
        ):
            texts[row] = text
        translations.append(texts)
    scores, drawn = score_resampled(translations, references, tokeniser("auto", language), RESAMPLED)
    tried = {penalty: float(bleu) for penalty, bleu in zip(alphas, scores, strict=True)}
    top = int(scores.argmax())
    errors = (drawn[:, [top]] - drawn).std(axis=0)  # of the difference to the best
    within = [alpha for alpha, bleu, error in zip(alphas, scores, errors, strict=True) if scores[top] - bleu <= error]
    penalty = min(within, key=lambda alpha: (abs(alpha - 1.0), -tried[alpha]))
    near = f", within a standard error of {scores[top]:.2f} with {alphas[top]:g}" if penalty != alphas[top] else ""
    logger.info(f"length penalty {penalty:g}: validation BLEU {tried[penalty]:.2f}{near}")
    return PenaltyChoice(penalty, tried[penalty], tried, alphas[top], translations[alphas.index(penalty)])


def best_under(hypotheses: Sequence[Hypothesis], penalty: float) -> Hypothesis:
    """Returns the best of one sentence's hypotheses by log probability / length ** penalty."""
    return max(hypotheses, key=lambda hypothesis: hypothesis.log_probability / max(1, hypothesis.length) ** penalty)


def settle_length_penalty(
    config: DecodeConfig,
    bundle: TranslationBundle,
    validation: tuple[Sequence[str], Sequence[str]] | None,
    penalties: Sequence[float] = PENALTIES,
) -> DecodeConfig:
    """Returns `config` with a length penalty as a number: its own, else the bundle's, else tuned on validation."""
    if config.length_penalty != "auto":
        return config
    if bundle.decode.length_penalty != "auto" or validation is None:
        return replace(config, length_penalty=bundle.decode.alpha)
    choice = tune_length_penalty(
        bundle.network, bundle.tokenizers, *validation, config, penalties, bundle.languages[1], bundle.normalisation
    )
    return replace(config, length_penalty=choice.penalty)


def gate_int8(
    bundle: TranslationBundle, sources: Sequence[str], references: Sequence[str], tolerance: float = 0.5
) -> dict[str, list[str]]:
    """Lets int8 serve only if its chrF is at most `tolerance` below float32's and the processor multiplies integers.

    A processor does by its instructions, not by a clock: so the same machine decides the same beside any other work.
    The decision is written to the bundle's facts (`int8`), where `open_translator` reads it. Returns the translations
    of each engine by its name; none if the bundle lacks an export, or this machine runs no int8: float32 then serves.
    """
    both = bundle.export_folder("float32") is not None and bundle.export_folder("int8") is not None
    if not both or not runs_int8("cpu"):
        return {}
    instructions = int8_instructions()
    logger.info(f"comparing int8 with float32 on {plural(len(sources), 'validation sentence')}")
    translators = open_translator(bundle, "ctranslate2"), open_translator(bundle, "ctranslate2-int8")
    made = {each.engine.name: [answer.text for answer in each.translate(sources)] for each in translators}
    chrf_float32, chrf_int8 = (quick_chrf(translations, references) for translations in made.values())
    near = chrf_int8 >= chrf_float32 - tolerance
    if near and not instructions:
        logger.info("this processor has no instructions for 8-bit integers (VNNI, AMX): float32 serves")
    verdict = {
        "accepted": near and bool(instructions),
        "chrf_float32": chrf_float32,
        "chrf_int8": chrf_int8,
        "instructions": instructions,
        "tolerance": tolerance,
        "sentences": len(sources),
    }
    bundle.update_facts({"int8": verdict})
    return made
