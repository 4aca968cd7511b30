"""Networks that label texts: the task's row, and the work of one training process."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.model.bundles.labelled import LabelBundle, load_label_bundle
from dragoman.model.bundles.network import save_bundle as write_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import model_config
from dragoman.model.networks.heads import Head
from dragoman.model.networks.network import Network
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.opening import open_reader
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.text_batch import TextBatch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.evaluation.labels.evaluation import LabelEvaluation, evaluate_label_bundle
from dragoman.pipelines.loaders.labelled import LabelledLoader, held_out_labelled
from dragoman.pipelines.tasks.base import Task
from dragoman.pipelines.tasks.network import Learning, NetworkTraining, final_network
from dragoman.pipelines.tasks.split_comparison import judge_by_split
from dragoman.pipelines.tracking.run import TrackedRun


class Labelled(Learning):
    """Texts with labels."""

    kind, called, unit = "labels", "a model that labels", "labels"
    of_loader = LabelledLoader.of

    @property
    def labels(self) -> LabelTokenizer:
        """The labels of the shards."""
        if not isinstance(self.tokenizers.target, LabelTokenizer):
            raise UserError("paths.shards: the shards have no labels; corpus=labelled makes some that have")
        return self.tokenizers.target

    def check(self) -> None:
        if self.manifest.kind != "labelled":
            raise UserError(
                f"paths.shards={self.shards}: holds {self.manifest.kind} texts, and model={self.config.model['name']} "
                f"needs labelled ones: "
                f"{shard_command('corpus=labelled', 'pair=en', beside=self.config.paths.shards)}"
            )
        super().check()

    def check_network(self, network: Network) -> None:
        assert isinstance(network, Head), "the task is that of heads"
        if network.head != self.labels.task:
            raise UserError(
                f"model.head={network.head}: the shards in {self.shards} have {self.labels.task}; "
                f"model.head={self.labels.task} learns them"
            )
        super().check_network(network)

    def loader(self, rank: int = 0, world: int = 1) -> LabelledLoader:
        reader = open_reader(self.shards, "train", self.settings.reader)
        return LabelledLoader(reader, self.labels, self.settings, self.config.seed, rank, world)

    def held_out(self, ranks: Ranks) -> Callable[[], Iterable[TextBatch]]:
        reader, budget = ShardReader(self.shards, "valid"), self.settings.batch_tokens
        return lambda: held_out_labelled(reader, self.labels, self.longest, budget, ranks.rank, ranks.world)

    def describe(self) -> str:
        labels, records = self.labels, self.manifest.split("train").records
        return f"{len(labels.labels)} {labels.task} of {records:,} texts in {self.manifest.languages[0]}"


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> LabelBundle:
    """Saves the final weights with everything that labelling needs."""
    tokenizers = Labelled(config).tokenizers
    sizes = tokenizers.source.vocabulary, tokenizers.target.vocabulary
    network, origin = final_network(config, tracked, *sizes)
    assert isinstance(network, Head), "the task is that of heads"
    facts = {"pair": read_manifest(config.shard_dir).languages[0], **origin}
    write_bundle(
        directory,
        network=network,
        config=model_config(config.model),
        tokenizers=tokenizers,
        facts=json.loads(json.dumps(facts)),
    )
    return load_label_bundle(directory)


def evaluate(config: Config, bundle: LabelBundle) -> LabelEvaluation:
    """Runs `evaluate_label_bundle` by the section `evaluate`."""
    settings = config.evaluate
    return evaluate_label_bundle(bundle, config.shard_dir, settings.split, settings.sentences, settings.samples)


judge = judge_by_split(metrics=("auto",), compared_by="models that label are compared by accuracy", evaluate=evaluate)
LABELS = Task(
    Labelled.kind,
    NetworkTraining(Labelled, unread=("vectors", "embeddings", "decode")),
    save_bundle=save_bundle,
    evaluate=evaluate,
    judge=judge,
)
