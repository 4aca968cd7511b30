"""Language models, plain and masked: the tasks' rows, and the work of one training process.

Networks with states read streams, those with a bounded view read windows, masked ones whole records.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.bundles.network import save_bundle as write_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import SPECIAL, TokenizerPair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation, evaluate_text_bundle
from dragoman.pipelines.evaluation.language.held_out import PARTS, parts, span_batches, views
from dragoman.pipelines.loaders.masked import MaskedLoader, Masking, held_out_masked, masking
from dragoman.pipelines.loaders.prefetch import Lanes
from dragoman.pipelines.loaders.segments import side_number
from dragoman.pipelines.loaders.streams import StreamLoader, WindowLoader, rows_of
from dragoman.pipelines.loaders.text import SplitText, side_tokenizer
from dragoman.pipelines.tasks.base import Task
from dragoman.pipelines.tasks.network import Learning, NetworkTraining, check_positions, final_network
from dragoman.pipelines.tasks.split_comparison import judge_by_split
from dragoman.pipelines.tasks.workers import worker_count
from dragoman.pipelines.tracking.run import TrackedRun

logger = logging.getLogger(__name__)


class Texts(Learning):
    """Texts of one language."""

    kind, called = "language", "a language model"

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        tokenizer = side_tokenizer(self.shards, self.manifest, self.settings.side)
        return TokenizerPair(tokenizer, tokenizer)

    @cached_property
    def shape(self) -> Network:
        """The network without its weights."""
        with torch.device("meta"):
            return build_network(model_config(self.config.model), len(SPECIAL), len(SPECIAL))

    @property
    def carries(self) -> bool:
        """True if the network carries states from batch to batch; otherwise each row is independent."""
        return isinstance(self.shape, LanguageNetwork) and self.shape.max_positions is None

    @property
    def of_loader(self) -> Sequence[str]:
        return (StreamLoader if self.carries else WindowLoader if self.predicts else MaskedLoader).of

    @property
    def predicts(self) -> bool:
        """True if the network predicts the next token; otherwise masked ones."""
        return isinstance(self.shape, LanguageNetwork)

    @property
    def masking(self) -> Masking:
        return masking(self.tokenizers.source, self.settings.mlm_probability, self.settings.whole_words)

    def loader(self, rank: int = 0, world: int = 1) -> Lanes[TextBatch]:
        settings = self.settings
        own = SplitText(self.shards, "train", settings.side, settings.reader), settings
        of_rank = self.config.seed, rank, world
        if self.carries:
            return StreamLoader(*own, *of_rank)
        if self.predicts:
            return WindowLoader(*own, *of_rank)
        return MaskedLoader(*own, self.masking, *of_rank)

    def held_out(self, ranks: Ranks) -> Callable[[], Iterable[TextBatch]]:
        """Reads in the cheapest fair way: recurrent networks rows in parallel, each from its beginning to its end;
        windows do not overlap. The final evaluation gives more context."""
        settings, text = self.settings, SplitText(self.shards, "valid", self.settings.side)
        if not self.predicts:
            rules, budget = self.masking, settings.batch_tokens
            return lambda: held_out_masked(text, rules, self.longest, budget, ranks.rank, ranks.world)
        rows = rows_of(settings)
        if self.carries:  # each long against its beginning
            spans = parts(text.tokens, max(PARTS, min(rows, text.tokens // (8 * settings.context_length))), 0)
        else:
            spans = views(text.tokens, settings.context_length, settings.context_length)
        return lambda: span_batches(text, spans, rows, settings.context_length, ranks.rank, ranks.world)

    def check(self) -> None:
        super().check()
        refuse_shared_statistics(self.config, worker_count(self.config))
        SplitText(self.shards, "valid", self.settings.side)
        smoothing = self.config.train.loss.label_smoothing
        if smoothing:
            logger.warning(
                f"train.loss.label_smoothing={smoothing}: spreads probability that a language model is measured by; "
                f"train.loss.label_smoothing=0 gives the better perplexity"
            )

    def check_network(self, network: Network) -> None:
        if not self.predicts:
            super().check_network(network)
        elif not self.carries:
            check_positions("context_length", self.settings.context_length, network)

    def describe(self) -> str:
        train = SplitText(self.shards, "train", self.settings.side)
        reading = "streams with carried states" if self.carries else "rows that each stand for themselves"
        return f"{train.tokens:,} tokens of {train.language} as {reading}"


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> TextBundle:
    """Saves the final weights with everything that reading, writing and guessing text needs."""
    manifest, settings = read_manifest(config.shard_dir), config.loader
    tokenizer = Texts(config).tokenizers.source
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


def evaluate(config: Config, bundle: TextBundle) -> TextEvaluation:
    """Runs `evaluate_text_bundle` by the section `evaluate`."""
    settings = config.evaluate
    return evaluate_text_bundle(
        bundle,
        config.shard_dir,
        settings.split,
        stride=settings.stride,
        records=settings.sentences,
        samples=settings.samples,
    )


judge = judge_by_split(
    metrics=("auto", "likelihood"),
    compared_by="language models are compared by the likelihood of a text",
    evaluate=evaluate,
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


LANGUAGE = Task(
    Texts.kind,
    NetworkTraining(Texts, unread=("vectors", "embeddings", "decode")),
    save_bundle=save_bundle,
    evaluate=evaluate,
    judge=judge,
)
MASKED = replace(LANGUAGE, kind="masked")
