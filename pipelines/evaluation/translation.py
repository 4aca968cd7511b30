"""Evaluates a bundle on a held-out set: its scores, its hypotheses and their files."""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.files import atomic_write
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Translator, open_translator
from dragoman.model.languages import is_rewriting, languages_of
from dragoman.model.plural import plural
from dragoman.model.runs import paths
from dragoman.model.settings import DecodeConfig, EngineName
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.excerpt import excerpt
from dragoman.pipelines.evaluation.base import Rows, SplitEvaluation, origin
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import Sample, Scores, sample_table, score
from dragoman.pipelines.evaluation.significance import Significance, compare_translations
from dragoman.pipelines.evaluation.tuning import settle_length_penalty
from dragoman.pipelines.settings import PENALTIES

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class TranslationEvaluation(SplitEvaluation):
    """The results; texts are in the order of the held-out set."""

    sources: list[str]
    references: list[str]
    hypotheses: list[str]
    scores: Scores
    samples: list[Sample]
    decode: DecodeConfig
    engine: str  # the serving engine, whose translations `scores` are of
    tokenize: str  # of BLEU
    parts: dict[str, Scores]  # of a mix: each corpus
    float32: dict[str, float] | None  # BLEU and chrF of float32's translations, if `engine` is int8

    @property
    def speed(self) -> float:
        """Returns sentences per second."""
        return len(self.sources) / max(self.seconds, 1e-9)

    def figures(self) -> dict[str, float]:
        of_parts = {f"{name}_bleu": part.bleu for name, part in self.parts.items()}
        return {**self.scores.metrics(), **of_parts}

    def facts(self) -> dict[str, Any]:
        return {self.split: asdict(self.scores)}

    def summary(self) -> dict[str, str]:
        return {"bleu": self.scores.lines["bleu"]}

    def details(self) -> dict[str, Any]:
        parts = {name: part.record() for name, part in self.parts.items()}
        return {
            "pair": self.pair,
            "scores": asdict(self.scores),
            **({"parts": parts} if parts else {}),
            "samples": [asdict(sample) for sample in self.samples],
            "decode": asdict(self.decode),
            "engine": self.engine,
            "float32": self.float32,
            "sentences_per_second": round(self.speed, 1),
        }

    def hypotheses_file(self, folder: Path) -> Path:
        """Returns the path of the translations that `write` writes."""
        return paths.hypotheses(folder, self.split, languages_of(self.pair)[-1])

    def write(self, folder: Path) -> list[Path]:
        """Writes `evaluation.SPLIT.json` and `hypotheses.SPLIT.LANGUAGE.txt`."""
        texts = self.hypotheses_file(folder)
        atomic_write(texts, "".join(f"{line}\n" for line in self.hypotheses))
        return [*super().write(folder), texts]

    def tables(self) -> dict[str, Rows]:
        rows = [[sample.source, sample.hypothesis, sample.reference] for sample in self.samples]
        return {"samples.json": (["source", "translation", "reference"], rows)}

    def examples(self) -> list[tuple[str, str]]:
        """Returns the worst, a middle and the best of the samples."""
        count = len(self.samples)
        chosen = sorted({0, count // 2, count - 1}) if count else []
        return [(self.samples[number].source, self.samples[number].hypothesis) for number in chosen]

    def compare(self, baseline: Self, trials: int) -> Significance:
        """Returns the difference in BLEU."""
        language = languages_of(self.pair)[-1]
        texts = baseline.hypotheses, self.hypotheses, self.references
        return compare_translations(*texts, language, self.tokenize, trials)

    def report(self) -> str:
        """Returns scores with signatures, buckets by length, samples."""
        scores, settings = self.scores, self.decode
        lines = [
            f"{self.pair} {self.split}: {plural(scores.sentences, 'sentence')}, beam {settings.beam}, "
            f"length penalty {settings.alpha:g}, {self.engine}, {self.speed:,.0f} sentences/s",
            *scores.lines.values(),
            *([f"float32: BLEU {beside['bleu']:.2f}, chrF {beside['chrf']:.2f}"] if (beside := self.float32) else []),
            "",
            f"{scores.unit + ' of the reference':>27}  sentences   BLEU   chrF  length",
            *(
                f"{bucket.words:>27}  {bucket.sentences:>9,}  {bucket.bleu:5.1f}  {bucket.chrf:5.1f}  "
                f"{bucket.length_ratio:6.3f}"
                for bucket in scores.buckets
            ),
        ]
        for name, part in self.parts.items():
            lines.append(
                f"{name}, of the mix: {plural(part.sentences, 'sentence')}, BLEU {part.bleu:.2f}, chrF {part.chrf:.2f}"
            )
        for sample in self.samples:
            lines += [
                "",
                f"line {sample.number}, chrF {sample.chrf:.1f}",
                f"  source     {excerpt(sample.source)}",
                f"  reference  {excerpt(sample.reference)}",
                f"  hypothesis {excerpt(sample.hypothesis)}",
            ]
        return "\n".join(lines)


def evaluate_bundle(
    directory: Path | TranslationBundle,
    shards: Path,
    split: str = "test",
    decode: DecodeConfig | None = None,
    *,
    engine: EngineName = "auto",
    sentences: int = 0,
    samples: int = 10,
    tokenize: str = "auto",
    penalties: Sequence[float] = PENALTIES,
) -> TranslationEvaluation:
    """Translates the held-out texts of `split` in the shard directory and scores them.

    `decode` None means the bundle's own settings. A length penalty of `auto` is the bundle's, or is tuned on the split
    `valid` if the bundle has none. `sentences` 0 means all.
    """
    bundle = directory if isinstance(directory, TranslationBundle) else load_bundle(directory)
    sources, references = held_out(shards, split, bundle.languages, sentences)
    decode_config = replace(bundle.decode if decode is None else decode, nbest=1)
    validation = None
    if decode_config.length_penalty == "auto" and bundle.decode.length_penalty == "auto" and split != "valid":
        validation = held_out(shards, "valid", bundle.languages, sentences)
    decode_config = settle_length_penalty(decode_config, bundle, validation, penalties)
    translator = open_translator(bundle, engine)
    logger.info(f"translating {plural(len(sources), 'sentence')} of {split}")
    hypotheses, seconds = translate(translator, sources, decode_config)
    float32 = None
    if "int8" in translator.engine.name:
        by_float32, _ = translate(open_translator(bundle, "ctranslate2"), sources, decode_config, warns=False)
        of_float32 = score(by_float32, references, bundle.languages[1], tokenize)
        float32 = {"bleu": of_float32.bleu, "chrf": of_float32.chrf}
    return TranslationEvaluation(
        split=split,
        pair=bundle.pair,
        sources=sources,
        references=references,
        hypotheses=hypotheses,
        float32=float32,
        scores=score(hypotheses, references, bundle.languages[1], tokenize, with_rouge=is_rewriting(bundle.languages)),
        samples=sample_table(sources, references, hypotheses, samples),
        parts=score_parts(hypotheses, references, shards, split, bundle.languages[1], tokenize),
        decode=decode_config,
        engine=translator.engine.name,
        seconds=seconds,
        tokenize=tokenize,
        **origin(bundle, shards),
    )


def translate(
    translator: Translator, sources: Sequence[str], decode: DecodeConfig, warns: bool = True
) -> tuple[list[str], float]:
    """Returns the translations, a line each, and the seconds that they took; `warns`: of incomplete ones."""
    translator.translate(sources[:1], decode)  # warm up: first-call costs are not speed
    begin, losses = time.perf_counter(), Losses()
    answers = translator.translate(sources, decode)
    seconds = time.perf_counter() - begin
    for source, answer in zip(sources, answers, strict=True):
        losses.add(source, answer)
    for message in losses.messages() if warns else ():
        logger.warning(message)
    return [" ".join(answer.text.split("\n")) for answer in answers], seconds


def score_parts(
    hypotheses: Sequence[str], references: Sequence[str], shards: Path, split: str, language: str, tokenize: str
) -> dict[str, Scores]:
    """Returns the scores of each corpus of a mix by its name."""
    manifest, lines, parts = read_manifest(shards), range(len(references)), dict[str, tuple[list[int], str]]()
    target_of = {part.name: languages_of(part.pair)[-1] for part in manifest.parts}
    for name, ids in manifest.part_ranges(split).items():
        if rows := [row for row in ids if row in lines]:
            parts[name] = rows, target_of[name]
    return {
        name: score([hypotheses[row] for row in rows], [references[row] for row in rows], spoken, tokenize, False)
        for name, (rows, spoken) in parts.items()
    }
