"""Releases a translation model: its bundle with decoding settled on the validation set, its scores, its rivals."""

import hashlib
import json
import logging
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dragoman.model.alignment.attention_plots import fonts, maps_picture, save
from dragoman.model.bundles.directory import WEIGHTS, read_facts
from dragoman.model.bundles.network import save_bundle as write_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError, unknown
from dragoman.model.inference.aligner import open_aligner
from dragoman.model.inference.engines import TorchEngine
from dragoman.model.inference.translator import network_translator, open_translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import gate_split, held_out
from dragoman.pipelines.evaluation.metrics import Sample, quick_bleu
from dragoman.pipelines.evaluation.reconstruction import NOISE, Reconstruction, evaluate_reconstruction
from dragoman.pipelines.evaluation.significance import compare_translations
from dragoman.pipelines.evaluation.translation import TranslationEvaluation, evaluate_bundle
from dragoman.pipelines.evaluation.tuning import gate_int8, tune_length_penalty
from dragoman.pipelines.loaders.denoising import OF_NOISE
from dragoman.pipelines.tasks.network import final_network
from dragoman.pipelines.tasks.split_comparison import compared
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training.time_limit import FIXED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST, EXAMPLES, LONGEST = 8, 4, 90  # samples, attention maps, characters of a map's sentence
WIDTH = 100  # characters of a line
LINE = 0.2  # inches
TRANSLATIONS = "translations.json"  # in a bundle: what it makes of the validation set, for a promotion
SAMPLE = 16  # held-out sentences that tell how long one takes
FEWEST = 100  # held-out sentences, or all, by which a release chooses and measures
# A release translates a sentence once as the sample was, in a larger batch, and four times by quicker exports: all of
# it takes the time of the sample's sentence so many times.
TIMES = 2.0
COLOURS = {"source": "#555555", "translation": "#2463a8", "reference": "#2f8f5b"}
logger = logging.getLogger(__name__)


def save_pictures(samples: Sequence[Sample], bundle: TranslationBundle, folder: Path) -> list[Path]:
    """Writes `samples.png`, and `attention.png` if the network has attention; returns the files."""
    if not samples:
        return []
    folder.mkdir(exist_ok=True)
    drawn = {"samples": samples_picture(samples), "attention": attention_picture(samples, bundle)}
    files = []
    for name, figure in drawn.items():
        if figure is not None:
            files.append(folder / f"{name}.png")
            save(figure, files[-1])
    return files


def samples_picture(samples: Sequence[Sample]) -> "Figure":
    """Draws source, translation and reference of the first samples, one paragraph each."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, str]] = []
    for sample in samples[:MOST]:
        sides = {"source": sample.source, "translation": sample.hypothesis, "reference": sample.reference}
        for side, text in sides.items():
            visible = "".join(letter if letter.isprintable() else " " for letter in text)
            rows += [(side, line) for line in textwrap.wrap(visible, WIDTH) or ["–"]]
        rows.append(("source", ""))
    figure = Figure(figsize=(10.0, LINE * len(rows) + 0.4))
    for number, (side, line) in enumerate(rows):
        height = 1 - (number + 1) / (len(rows) + 1)
        figure.text(0.02, height, line, color=COLOURS[side], fontsize=9, family=fonts(), parse_math=False)
    figure.text(0.98, 0.01, "grey: source, blue: translation, green: reference", fontsize=8, ha="right")
    return figure


def attention_picture(samples: Sequence[Sample], bundle: TranslationBundle) -> "Figure | None":
    """Draws the attention of short samples' translations; None if there are none, or no attention."""
    short = [
        sample for sample in samples if sample.hypothesis and max(len(sample.source), len(sample.hypothesis)) <= LONGEST
    ]
    if not short:
        return None
    try:
        aligner = open_aligner(bundle)
    except UserError as problem:
        logger.debug("no picture of attention: %s", problem)
        return None
    chosen = short[:EXAMPLES]
    targets = aligner.tokenizers.target.encode([sample.hypothesis for sample in chosen])
    maps = aligner.maps([sample.source for sample in chosen], [ids.tolist() for ids in targets])
    return maps_picture(maps, [f"{sentence_map.head}, read by {sentence_map.reading}" for sentence_map in maps])


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> TranslationBundle:
    """Saves the final weights with everything that translating needs, and settles decoding on the validation set."""
    manifest = read_manifest(config.shard_dir)
    tokenizers = load_pair(config.shard_dir, manifest.tokenizer)
    sizes = tokenizers.source.vocabulary, tokenizers.target.vocabulary
    network, origin = final_network(config, tracked, *sizes)
    assert isinstance(network, TranslationNetwork), "the task is translation"
    decode = config.decode
    facts: dict[str, Any] = {
        "pair": config.pair,
        **origin,
        **({"parts": [asdict(part) for part in manifest.parts]} if manifest.parts else {}),
        **noise_facts(config),
    }
    measures = "valid" in manifest.texts and NOISE not in facts
    sentences = config.evaluate.sentences
    valid = held_out(config.shard_dir, "valid", config.languages, sentences) if measures else None
    made: dict[str, list[str]] = {}  # an engine -> its translations of the validation set
    if decode.length_penalty == "auto" and valid is not None:
        choice = tune_length_penalty(
            network,
            tokenizers,
            *valid,
            decode,
            config.evaluate.length_penalties,
            config.languages[1],
            manifest.normalisation,
        )
        decode = replace(decode, length_penalty=choice.penalty)
        facts["length_penalty"] = {"chosen_on": "valid", **choice.facts()}
        if choice.penalty != 0 and not decode.repeats_in_word:  # which would search otherwise
            made[TorchEngine.name] = choice.translations
    facts["decode"] = asdict(decode)
    write_bundle(
        directory, network=network, config=network.config, tokenizers=tokenizers, facts=json.loads(json.dumps(facts))
    )
    bundle = load_bundle(directory)
    if valid is not None:
        made |= gate_int8(bundle, *valid, config.evaluate.int8_tolerance)
        engine = open_translator(bundle).engine.name
        if engine in made:
            keep_translations(bundle, valid[0], engine, made[engine])
            bleu = quick_bleu(made[engine], valid[1], config.languages[1])
            tracked.metrics(checkpoints.newest_step(config.run_dir), {"valid/bleu": bleu})
    return bundle


def fit_release(config: Config, tracked: TrackedRun, seconds: float) -> Config:
    """Returns settings of a release that takes at most so many seconds, by the time of a first batch.

    A network that has learned little writes every translation to its maximum length: then fewer sentences are held out,
    but at least `FEWEST`, for fewer decide nothing.
    """
    manifest = read_manifest(config.shard_dir)
    if "valid" not in manifest.texts or noise_facts(config):
        return config
    tokenizers = load_pair(config.shard_dir, manifest.tokenizer)
    network, _ = final_network(config, tracked, tokenizers.source.vocabulary, tokenizers.target.vocabulary)
    assert isinstance(network, TranslationNetwork), "the task is translation"
    sources, _ = held_out(config.shard_dir, "valid", config.languages, SAMPLE)
    translator = network_translator(network, tokenizers, config.decode, manifest.normalisation)
    translator.translate(sources[:1])  # first-call costs are not speed
    began = time.monotonic()
    translator.translate(sources)
    each = (time.monotonic() - began) / len(sources)
    texts = [manifest.texts[split][config.languages[0]] for split in ("valid", config.evaluate.split)]
    wanted = config.evaluate.sentences or max(text["lines"] for text in texts)
    fitting = max(FEWEST, int((seconds - FIXED) / (TIMES * each)))
    if fitting >= wanted:
        return config
    logger.warning(
        f"{config.train.max_minutes:g} min: one held-out sentence takes {each:.2g} s to translate; the release "
        f"translates the first {fitting:,} of {wanted:,}"
    )
    return replace(config, evaluate=replace(config.evaluate, sentences=fitting))


def noise_facts(config: Config) -> dict[str, Any]:
    """Returns the noise that the network learned to undo; empty for one that learned to translate."""
    loader = config.loader
    return {} if loader.denoise == "none" else {NOISE: {key: getattr(loader, key) for key in OF_NOISE}}


def evaluate(config: Config, bundle: TranslationBundle) -> TranslationEvaluation | Reconstruction:
    """Runs `evaluate_bundle` by the sections `evaluate` and `decode`; measures the rewriting of one that denoises."""
    settings = config.evaluate
    if NOISE in bundle.facts:
        return evaluate_reconstruction(bundle, config.shard_dir, settings.split, settings.sentences, settings.samples)
    return evaluate_bundle(
        bundle,
        config.shard_dir,
        settings.split,
        config.decode,
        engine=config.engine,
        sentences=settings.sentences,
        samples=settings.samples,
        tokenize=settings.tokenize,
        penalties=settings.length_penalties,
    )


def record(
    config: Config, bundle: TranslationBundle, evaluation: TranslationEvaluation | Reconstruction, tracked: TrackedRun
) -> None:
    """Records samples, curves, the hypotheses of the whole split, and the alignment if requested."""
    evaluation.log(tracked)
    if isinstance(evaluation, Reconstruction):
        return
    for picture in save_pictures(evaluation.samples, bundle, config.run_dir / "pictures"):
        tracked.artifact(picture)
    tracked.artifact(evaluation.hypotheses_file(config.run_dir), "evaluation")


def judge(config: Config, registry: Registry, candidate: Version, champion: Version | None) -> Comparison:
    """Compares the candidate's translations of the held-out split with the champion's, or with the sources."""
    names: dict[str, Literal["bleu", "chrf"]] = {"auto": "bleu", "bleu": "bleu", "chrf": "chrf"}
    settings, shards = config.promote, config.shard_dir
    if settings.metric not in names:
        raise unknown("promote.metric", settings.metric, names)
    metric = names[settings.metric]
    languages, split = read_manifest(shards).languages, gate_split(shards, settings.split)
    sources, references = held_out(shards, split, languages, key="promote.split")

    champions = sources if champion is None else translate(registry, champion, sources)
    candidates = translate(registry, candidate, sources)
    texts = champions, candidates, references
    return compared(
        compare_translations(*texts, languages[1], trials=settings.trials, metric=metric),
        floor="a copy of the source" if champion is None else "",
        of=split,
    )


def translate(registry: Registry, version: Version, sources: Sequence[str]) -> list[str]:
    """Returns a version's translations by its own engine and decoding defaults, as the endpoint would.

    They are those of its release if that has translated the same sources so.
    """
    with tempfile.TemporaryDirectory() as folder:
        bundle = load_bundle(registry.bundle(version, Path(folder)))
        translator = open_translator(bundle)
        stored = stored_translations(bundle, sources, translator.engine.name)
        if stored is not None:
            logger.info(f"version {version.number}: its {plural(len(sources), 'translation')} are those of its release")
            return stored
        logger.info(f"version {version.number}: translating {plural(len(sources), 'sentence')}")
        return [answer.text for answer in translator.translate(sources)]


def keep_translations(bundle: TranslationBundle, sources: Sequence[str], engine: str, made: Sequence[str]) -> None:
    """Gives the bundle its translations of these sources, so that a promotion does not translate them again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, TRANSLATIONS)
        content = {"of": origin_of(bundle, sources, engine), "translations": made}
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        bundle.add_file(path)


def stored_translations(bundle: TranslationBundle, sources: Sequence[str], engine: str) -> list[str] | None:
    """Returns the bundle's translations of these sources by that engine; None if it has not one for each."""
    if TRANSLATIONS not in bundle.files:
        return None
    try:
        content = json.loads((bundle.directory / TRANSLATIONS).read_text(encoding="utf-8"))
        of, made = content["of"], [str(text) for text in content["translations"]]
    except (ValueError, TypeError, KeyError):
        return None
    fits = made == content["translations"] and len(made) == len(sources)
    return made if fits and of == origin_of(bundle, sources, engine) else None


def origin_of(bundle: TranslationBundle, sources: Sequence[str], engine: str) -> dict[str, Any]:
    """Returns what the bundle's translations of these sources depend on, as plain values."""
    return {
        "weights": read_facts(bundle.directory)["files"][WEIGHTS]["sha256"],
        "sources": hashlib.sha256("\n".join(sources).encode()).hexdigest(),
        "engine": engine,
        "decode": json.loads(json.dumps(asdict(bundle.decode))),
    }
