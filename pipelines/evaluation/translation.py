"""Evaluates a bundle on a held-out set: its scores, its hypotheses and their files."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_write
from dragoman.model.inference.translator import Translator, open_translator
from dragoman.model.languages import is_rewriting, languages_of
from dragoman.model.plural import plural
from dragoman.model.runs import paths, record
from dragoman.model.settings import DecodeConfig, EngineName
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.text.excerpt import excerpt
from dragoman.pipelines.evaluation.checks import Check, checks_record, checks_report, run_checks
from dragoman.pipelines.evaluation.metrics import Sample, Scores, sample_table, score
from dragoman.pipelines.evaluation.sets.stored import translate_once
from dragoman.pipelines.evaluation.tuning import settle_length_penalty
from dragoman.pipelines.settings import PENALTIES, CheckName

logger = logging.getLogger(__name__)


@dataclass
class Evaluation:
    """The results; texts are in the order of the held-out set."""

    split: str
    pair: str
    sources: list[str]
    references: list[str]
    hypotheses: list[str]
    scores: Scores
    samples: list[Sample]
    decode: DecodeConfig
    engine: str  # the serving engine, whose translations `scores` are of
    seconds: float  # of translating, without loading
    bundle: str  # the bundle's digest
    manifest_hash: str  # of the shards that the held-out set came from
    parts: dict[str, Scores] = field(
        default_factory=dict
    )  # near: a training pair is near (`corpus.near_words`); far: none is; of a mix: each corpus by its name
    checks: dict[CheckName, Check] = field(default_factory=dict)  # for faults of meaning
    run_records: dict[str, str] = field(default_factory=dict)  # heads of the run's records that the bundle names
    float32: dict[str, float] | None = None  # BLEU and chrF of float32's translations, if `engine` is int8

    @property
    def speed(self) -> float:
        """Returns sentences per second."""
        return len(self.sources) / max(self.seconds, 1e-9)

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON, without the texts."""
        return {
            "split": self.split,
            "pair": self.pair,
            "scores": asdict(self.scores),
            **(
                {"parts": {name: part_evaluation.record() for name, part_evaluation in self.parts.items()}}
                if self.parts
                else {}
            ),
            "checks": checks_record(self.checks, self.sources, self.references, self.hypotheses),
            "samples": [asdict(sample) for sample in self.samples],
            "decode": asdict(self.decode),
            "engine": self.engine,
            "float32": self.float32,
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.speed, 1),
            "bundle": self.bundle,
            "manifest_hash": self.manifest_hash,
            "run_records": self.run_records,
        }


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
    stored: Path | None = None,
) -> Evaluation:
    """Translates the held-out texts of `split` in the shard directory and scores them.

    `decode` None means the bundle's own settings. A length penalty of `auto` is the bundle's, or is tuned on the split
    `valid` if the bundle has none. `sentences` 0 means all. Translations in the folder `stored` are used, and others
    are saved there; None translates anew.

    Raises UserError: not a bundle, no such split, or held-out texts of other languages.
    """
    bundle = directory if isinstance(directory, TranslationBundle) else load_bundle(directory)
    sources, references = held_out(shards, split, bundle.languages, sentences)
    decode_config = replace(bundle.decode if decode is None else decode, nbest=1)
    validation = None
    if decode_config.length_penalty == "auto" and bundle.decode.length_penalty == "auto" and split != "valid":
        validation = held_out(shards, "valid", bundle.languages, sentences)
    decode_config = settle_length_penalty(decode_config, bundle, validation, penalties)
    translator = open_translator(bundle, engine)
    made = translate_once(translator, sources, decode_config, bundle.digest, stored)
    for warning in made.warnings:
        logger.warning(f"{bundle.pair} {split}: {warning}")
    hypotheses = made.texts
    return Evaluation(
        split=split,
        pair=bundle.pair,
        sources=sources,
        references=references,
        hypotheses=hypotheses,
        float32=score_float32(bundle, translator, sources, references, decode_config, tokenize, stored),
        scores=score(hypotheses, references, bundle.languages[1], tokenize, with_rouge=is_rewriting(bundle.languages)),
        samples=sample_table(sources, references, hypotheses, samples),
        parts=score_parts(hypotheses, references, shards, split, bundle.languages[1], tokenize),
        checks=run_checks(sources, [(line,) for line in references], hypotheses, bundle.languages),
        decode=decode_config,
        engine=made.engine,
        seconds=made.seconds,
        bundle=bundle.digest,
        manifest_hash=manifest_hash(shards),
        run_records=bundle.facts.get("records") or {},
    )


def score_parts(
    hypotheses: Sequence[str], references: Sequence[str], shards: Path, split: str, language: str, tokenize: str
) -> dict[str, Scores]:
    """Returns the scores of the sentences near a training pair (`near`) and of the others (`far`), and of a mix those
    of each corpus by its name.

    Without `near` and `far` if sharding did not check (`corpus.near_words`) or one of them is empty."""
    manifest, lines = read_manifest(shards), range(len(references))
    marked = set(manifest.near.get(split, ()))
    near = {"near": [row for row in lines if row in marked], "far": [row for row in lines if row not in marked]}
    parts = {name: (rows, language) for name, rows in near.items() if all(near.values())}
    target_of = {part.name: languages_of(part.pair)[-1] for part in manifest.parts}
    for name, ids in manifest.part_ranges(split).items():
        if rows := [row for row in ids if row in lines]:
            parts[name] = rows, target_of[name]
    return {
        name: score([hypotheses[row] for row in rows], [references[row] for row in rows], spoken, tokenize, False)
        for name, (rows, spoken) in parts.items()
    }


def score_float32(
    bundle: TranslationBundle,
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    decode: DecodeConfig,
    tokenize: str,
    stored: Path | None = None,
) -> dict[str, float] | None:
    """Returns BLEU and chrF of float32's translations if int8 made the reported ones, else None."""
    if "int8" not in translator.engine.name:
        return None
    made = translate_once(open_translator(bundle, "ctranslate2"), sources, decode, bundle.digest, stored)
    scores = score(made.texts, references, bundle.languages[1], tokenize)
    return {"bleu": scores.bleu, "chrf": scores.chrf}


def held_out(
    shards: Path, split: str, languages: Sequence[str], sentences: int = 0, key: str = "evaluate.split"
) -> tuple[list[str], list[str]]:
    """Reads sources and references of a split from the shard directory; the first `sentences` of them, 0 for all.

    Raises UserError: an unknown split or language, or a file that differs from the one written (named).
    """
    source, target = (held_out_lines(shards, split, language, sentences, key) for language in languages)
    return source, target


def held_out_lines(shards: Path, split: str, language: str, most: int = 0, key: str = "evaluate.split") -> list[str]:
    """Reads one language of `held_out`; `key` is the setting to name in messages."""
    texts = read_manifest(shards).texts
    if split not in texts:
        raise unknown(key, split, texts)
    if language not in texts[split]:
        raise UserError(f"{shards}: {split} is in {', '.join(texts[split])}; the bundle needs {language!r}")
    entry = texts[split][language]
    path = shards / entry["file"]
    if not path.is_file():
        raise UserError(f"{path}: missing from the shard directory; run `dragoman shard` again")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise UserError(f"{path}: not the file that was written (its sha256 differs); run `dragoman shard` again")
    lines: list[str] = content.decode().split("\n")[:-1]
    return lines[:most] if most else lines


def gate_split(shards: Path, split_name: str) -> str:
    """Returns the split that decides a promotion: `promote.split`, where `auto` means gate, else valid.

    Raises UserError: there is none, the split is unknown, or it is the test set.
    """
    texts = [split for split in read_manifest(shards).texts if split not in ("train", "test")]
    if split_name == "test":
        raise UserError(
            f"promote.split=test: a test set is reported and not selected on. Choices: auto, {', '.join(texts) or '-'}"
        )
    if split_name != "auto" and split_name not in texts:
        raise unknown("promote.split", split_name, ["auto", *texts])
    splits = [split for split in ("gate", "valid") if split in texts] if split_name == "auto" else [split_name]
    if not splits:
        raise UserError(
            f"promote.split: {shards} keeps neither a gate nor a validation set; corpus.cut.gate=0.02 gives one "
            f"(dragoman shard), or use promote.force=true with a reason"
        )
    return splits[0]


def hypotheses_file(evaluation: Evaluation, directory: Path) -> Path:
    """Returns the path of the translations that `write_evaluation` writes."""
    return paths.hypotheses(directory, evaluation.split, languages_of(evaluation.pair)[-1])


def write_evaluation(evaluation: Evaluation, directory: Path) -> tuple[Path, Path]:
    """Writes `evaluation.SPLIT.json` and `hypotheses.SPLIT.LANGUAGE.txt`; returns their paths."""
    texts = hypotheses_file(evaluation, directory)
    atomic_write(texts, "".join(f"{line}\n" for line in evaluation.hypotheses))
    return record.write_evaluation(directory, evaluation.split, evaluation.record()), texts


def report(evaluation: Evaluation) -> str:
    """Returns the report for users: scores with signatures, buckets by length, samples."""
    scores, settings = evaluation.scores, evaluation.decode
    lines = [
        f"{evaluation.pair} {evaluation.split}: {plural(scores.sentences, 'sentence')}, beam {settings.beam}, "
        f"length penalty {settings.alpha:g}, {evaluation.engine}, {evaluation.speed:,.0f} sentences/s",
        *scores.lines.values(),
        *([f"float32: BLEU {beside['bleu']:.2f}, chrF {beside['chrf']:.2f}"] if (beside := evaluation.float32) else []),
        "",
        f"{scores.unit + ' of the reference':>27}  sentences   BLEU   chrF  length",
        *(
            f"{bucket.words:>27}  {bucket.sentences:>9,}  {bucket.bleu:5.1f}  {bucket.chrf:5.1f}  "
            f"{bucket.length_ratio:6.3f}"
            for bucket in scores.buckets
        ),
    ]
    for name, part in evaluation.parts.items():
        meaning = {"near": "nearly in a training pair", "far": "further from all of them"}.get(name, "of the mix")
        lines.append(
            f"{name}, {meaning}: {plural(part.sentences, 'sentence')}, BLEU {part.bleu:.2f}, chrF {part.chrf:.2f}"
        )
    if evaluation.checks:
        lines += ["", checks_report(evaluation.checks, evaluation.sources, evaluation.hypotheses)]
    for sample in evaluation.samples:
        lines += [
            "",
            f"line {sample.number}, chrF {sample.chrf:.1f}",
            f"  source     {excerpt(sample.source)}",
            f"  reference  {excerpt(sample.reference)}",
            f"  hypothesis {excerpt(sample.hypothesis)}",
        ]
    return "\n".join(lines)
