"""Language models, plain and masked: the tasks' rows, and the work of one training process.

Networks with states read streams, those with a bounded view read windows, masked ones whole records.
"""

import json
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.bundles.network import save_bundle as write_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, architecture, model_config
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network
from dragoman.model.plural import plural
from dragoman.model.runs.record import write_evaluation
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import SPECIAL, Tokenizer, TokenizerPair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation, evaluate_text_bundle, report
from dragoman.pipelines.evaluation.language.evaluation import compare as significance
from dragoman.pipelines.evaluation.language.held_out import PARTS, parts, span_batches, views
from dragoman.pipelines.evaluation.language.plots import surprise_by_line
from dragoman.pipelines.loaders.masked import MaskedLoader, held_out_masked, masking
from dragoman.pipelines.loaders.prefetch import Lanes
from dragoman.pipelines.loaders.segments import side_number
from dragoman.pipelines.loaders.streams import StreamLoader, WindowLoader, rows_of
from dragoman.pipelines.loaders.text import SplitText, side_tokenizer
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.base import Measured, Plan, Task
from dragoman.pipelines.tasks.identity import check_shards, network_fingerprint
from dragoman.pipelines.tasks.network import (
    check_held_out,
    check_positions,
    final_network,
    needs_training,
    refuse_translation_settings,
    train_network,
)
from dragoman.pipelines.tasks.parts import counted
from dragoman.pipelines.tasks.precision import refuse_unrunnable
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import warn_of_warmup
from dragoman.pipelines.tasks.split_comparison import compare_rivals, judge_by_split
from dragoman.pipelines.tasks.workers import check_lanes_of, worker_count
from dragoman.pipelines.tracking.plots import curves
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training.final_weights import stored_weights, weights_hashes
from dragoman.pipelines.training.loop import Progress
from dragoman.pipelines.training.verification import replay_lanes


def text_tokenizer(config: Config) -> Tokenizer:
    """Returns the tokenizer of the training text."""
    return side_tokenizer(config.shard_dir, read_manifest(config.shard_dir), config.loader.side)


def fresh_network(config: Config, tokenizer: Tokenizer) -> Network:
    """Returns the untrained network of the configuration; every rank draws the same weights from the seed."""
    torch.manual_seed(config.seed)
    network = any_network(model_config(config.model), tokenizer.vocabulary, tokenizer.vocabulary)
    warm_start.initialise(config, network, TokenizerPair(tokenizer, tokenizer))
    return network


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> TextBundle:
    """Saves the final weights with everything that reading, writing and guessing text needs."""
    manifest, settings = read_manifest(config.shard_dir), config.loader
    tokenizer = text_tokenizer(config)
    network, origin = final_network(config, tracked, tokenizer.vocabulary, tokenizer.vocabulary)
    facts = {
        "pair": manifest.languages[side_number(manifest, settings.side, "loader.side")],
        **origin,
        "masking": {"share": settings.mlm_probability, "whole_words": settings.whole_words},
    }
    write_bundle(
        directory,
        network=network,
        config=model_config(config.model),
        tokenizers=tokenizer,
        facts=json.loads(json.dumps(facts)),
    )
    return load_text_bundle(directory)


def evaluate(config: Config, bundle: TextBundle) -> Measured:
    """Runs `evaluate_text_bundle` by the section `evaluate`."""
    settings = config.evaluate
    evaluation = evaluate_text_bundle(
        bundle,
        config.shard_dir,
        settings.split,
        stride=settings.stride,
        records=settings.sentences,
        samples=settings.samples,
    )
    return Measured.of_split(evaluation, report(evaluation), evaluation.scores())


def write(measured: Measured, directory: Path) -> Sequence[Path]:
    evaluation: TextEvaluation = measured.details
    return [write_evaluation(directory, evaluation.split, evaluation.record())]


def record(config: Config, _bundle: TextBundle, measured: Measured, tracked: TrackedRun) -> None:
    """Records samples and curves."""
    evaluation: TextEvaluation = measured.details
    names = ["masked", "guessed", "truth"] if evaluation.kind == "masked" else ["prompt", "continuation", "truth"]
    tracked.table(names, [[sample.prompt, sample.text, sample.truth] for sample in evaluation.samples], "samples.json")
    tracked.figure(curves(tracked.history(), config.name, "token"), "curves.png")
    tracked.figure(surprise_by_line(evaluation), f"evaluation/surprise-{evaluation.split}.png")


judge = judge_by_split(
    metrics=("auto", "likelihood"),
    compared_by="language models are compared by the likelihood of a text",
    measure=lambda bundle, shards, split: evaluate_text_bundle(load_text_bundle(bundle), shards, split, samples=0),
    test=significance,
    floor=lambda evaluation: ("the tokens' frequencies in it", evaluation.unigram),
    sides=lambda evaluation: (evaluation.language,),
)
logger = logging.getLogger(__name__)


def train_rank(config: Config, ranks: Ranks, run: Run) -> Progress:
    """Trains on this rank until the run is over, from the run's newest checkpoint."""
    tokenizer = text_tokenizer(config)
    network = fresh_network(config, tokenizer)
    loader = make_loader(config, network, tokenizer, ranks.rank, ranks.world)
    held_out = validation_batches(config, network, tokenizer, ranks)
    return train_network(config, ranks, run, network, loader, held_out)


def carries(network: Network) -> bool:
    """Returns True if the network carries states from batch to batch; otherwise each row is independent."""
    return isinstance(network, LanguageNetwork) and network.max_positions is None


def make_loader(
    config: Config, network: Network, tokenizer: Tokenizer, rank: int = 0, world: int = 1
) -> Lanes[TextBatch]:
    """Returns the training split in the form that the network reads."""
    settings = config.loader
    text = SplitText(config.shard_dir, "train", settings.side, settings.reader)
    if carries(network):
        return StreamLoader(text, settings, config.seed, rank, world)
    if isinstance(network, LanguageNetwork):
        check_positions("context_length", settings.context_length, network)
        return WindowLoader(text, settings, config.seed, rank, world)
    check_positions("max_length", min(settings.max_length, settings.batch_tokens), network)
    rules = masking(tokenizer, settings.mlm_probability, settings.whole_words)
    return MaskedLoader(text, settings, rules, config.seed, rank, world)


def validation_batches(
    config: Config, network: Network, tokenizer: Tokenizer, ranks: Ranks
) -> Callable[[], Iterable[TextBatch]]:
    """Yields this rank's share of the validation split, anew at each call.

    During a training it is read in the cheapest fair way: recurrent networks read rows in parallel, each from its
    beginning to its end; windows do not overlap. The final evaluation gives more context.
    """
    settings = config.loader
    text = SplitText(config.shard_dir, "valid", settings.side)
    if not isinstance(network, LanguageNetwork):
        rules = masking(tokenizer, settings.mlm_probability, settings.whole_words)
        longest = min(settings.max_length, settings.batch_tokens)
        return lambda: held_out_masked(text, rules, longest, settings.batch_tokens, ranks.rank, ranks.world)
    rows = rows_of(settings)
    if carries(network):
        count = max(PARTS, min(rows, text.tokens // (8 * settings.context_length)))  # each long against its beginning
        spans = parts(text.tokens, count, 0)
    else:
        spans = views(text.tokens, settings.context_length, settings.context_length)
    return lambda: span_batches(text, spans, rows, settings.context_length, ranks.rank, ranks.world)


def validate(config: Config) -> None:
    """Reports all mistakes that can be known before any worker starts.

    Raises UserError: a setting is out of range, shards are missing or of other languages, a model or lanes do not fit
    them, or a setting is for translations.
    """
    config.train.check()
    manifest = read_manifest(config.shard_dir)
    check_shards(config)
    refuse_translation_settings(config, "a language model")
    check_held_out(config, manifest)
    tokenizer = text_tokenizer(config)
    network = fresh_network(config, tokenizer)
    refuse_unrunnable(config, network)
    warn_of_warmup(config)
    processes = worker_count(config)
    refuse_shared_statistics(config, processes)
    make_loader(config, network, tokenizer, 0, processes).close()
    train = SplitText(config.shard_dir, "train", config.loader.side)
    SplitText(config.shard_dir, "valid", config.loader.side)
    if config.train.loss.label_smoothing:
        logger.warning(
            f"train.loss.label_smoothing={config.train.loss.label_smoothing}: spreads probability that a language "
            f"model is measured by; train.loss.label_smoothing=0 gives the better perplexity"
        )
    reading = "streams with carried states" if carries(network) else "rows that each stand for themselves"
    logger.info(
        f"{config.name}: {config.model['name']} ({architecture(config.model['architecture']).kind}), "
        f"{counted(network)}; {train.tokens:,} tokens of {train.language} as {reading}; "
        f"{plural(processes, 'worker')}, {plural(config.loader.lanes, 'lane')} of {config.loader.batch_tokens:,} "
        f"tokens; shards {manifest_hash(config.shard_dir)[:12]}"
    )


def refuse_shared_statistics(config: Config, processes: int) -> None:
    """Refuses BatchNorm where its running statistics, which are no weights, would not be those of the whole run."""
    if config.model.get("norm_kind") != "batch":
        return
    if processes > 1:
        raise UserError(
            f"model.norm_kind=batch: its running statistics are those of one process, and {processes} would train; "
            f"choose cluster.workers=1, or model.norm_kind=layer"
        )
    if config.train.optimizer.ema_decay:
        raise UserError(
            f"train.optimizer.ema_decay={config.train.optimizer.ema_decay:g}: averages weights, but not the running "
            f"statistics of model.norm_kind=batch; choose 0"
        )


def fingerprint(config: Config) -> dict[str, Any]:
    """Returns the run's identity: everything that the weights after a given step depend on."""
    network = shape_of_network(config)
    if isinstance(network, LanguageNetwork):
        read = StreamLoader.of if carries(network) else WindowLoader.of
    else:
        read = MaskedLoader.of
    return {**network_fingerprint(config, read), **warm_start.identity(config)}


def plan(config: Config) -> Plan:
    """Finds the network's initial weights once, before the ranks start."""
    tokenizer = text_tokenizer(config)
    warm_start.keep(config, TokenizerPair(tokenizer, tokenizer))
    return Plan(config.train.max_steps, "tokens", config.cluster)


def shape_of_network(config: Config) -> Network:
    """Returns the network without its weights."""
    with torch.device("meta"):
        return any_network(model_config(config.model), len(SPECIAL), len(SPECIAL))


def replay(config: Config) -> Generator[tuple[int, int]]:
    """Yields (digest, tokens) of each step's batches."""
    return replay_lanes(make_loader(config, shape_of_network(config), text_tokenizer(config)))


LANGUAGE = Task(
    kind="language",
    unread=("vectors", "embeddings", "decode"),
    validate=validate,
    validate_settings=check_lanes_of,
    fingerprint=fingerprint,
    needs_training=needs_training,
    plan=plan,
    train_rank=train_rank,
    weights_origin=lambda config: weights_hashes(config.run_dir, config.train),
    stored_origin=stored_weights,
    save_bundle=save_bundle,
    record=record,
    evaluate=evaluate,
    write=write,
    compare=partial(compare_rivals, evaluate, significance),
    judge=judge,
    replay=replay,
)
MASKED = replace(LANGUAGE, kind="masked")
