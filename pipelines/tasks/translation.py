"""Translation models, plain sentence pairs: the task's row, and the work of one training process."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.layers.positions import Positions
from dragoman.model.loaded import later, loaded
from dragoman.model.networks.architectures import wrong_kind
from dragoman.model.networks.network import Network, TranslationNetwork
from dragoman.model.shards.opening import open_reader
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import WITHOUT, missing, shard_command
from dragoman.pipelines.loaders.pairs import LaneLoader, check_lengths, held_out_batches
from dragoman.pipelines.tasks import pretrained_embeddings
from dragoman.pipelines.tasks.base import Task
from dragoman.pipelines.tasks.identity import check_shards
from dragoman.pipelines.tasks.network import Learning, NetworkTraining

VALIDATION_BLEU = later("dragoman.pipelines.tasks.validation_bleu:validation_bleu")
RELEASE = "dragoman.pipelines.tasks.translation_release"  # what only the end of a training needs


class Pairs(Learning):
    """Pairs of sentences."""

    kind, unit, passes = "translation", "target tokens", 22.0

    @cached_property
    def network(self) -> TranslationNetwork:
        network = super().network
        assert isinstance(network, TranslationNetwork), "the task is translation"
        pretrained_embeddings.initialise(self.config, network, self.tokenizers)
        return network

    @property
    def of_loader(self) -> Sequence[str]:
        return LaneLoader.of

    def loader(self, rank: int = 0, world: int = 1) -> LaneLoader:
        reader = open_reader(self.shards, "train", self.settings.reader)
        return LaneLoader(reader, self.settings, self.config.seed, rank, world)

    def held_out(self, ranks: Ranks) -> Callable[[], Iterable[TranslationBatch]]:
        reader = ShardReader(self.shards, "valid")
        reader.expect_all()
        return lambda: held_out_batches(reader, self.settings.batch_tokens, ranks.rank, ranks.world)

    def bleu(self, ranks: Ranks) -> Callable[[], float]:
        return partial(VALIDATION_BLEU, self.config, self.network, self.tokenizers, ranks)

    def check(self) -> None:
        manifest, config = self.manifest, self.config
        if manifest.kind != "parallel":
            labels = "model=classifier_transformer registry=labels (or tagger_transformer), "
            raise UserError(
                f"model={config.model.get('name')}: a translation model needs pairs of sentences, and the shards in "
                f"{self.shards} are {manifest.kind} ({'-'.join(manifest.languages)}). What learns from them: "
                f"{labels if manifest.kind == 'labelled' else ''}model=skipgram registry=vectors, "
                f"model=rnnlm_lstm registry=language"
            )
        check_shards(config)
        for split in ("valid", config.evaluate.split):
            if split in WITHOUT and split not in manifest.splits:
                command = shard_command(f"corpus.cut.{split}=0.02", beside=config.paths.shards)
                raise UserError(f"{self.shards}: {missing(manifest, split)}: {command}")
        tokeniser(config.evaluate.tokenize, config.languages[1])
        bound = any(isinstance(module, Positions) for module in self.network.modules())
        most = min(self.network.max_source_positions, self.network.max_target_positions) if bound else None
        check_lengths(manifest.split("train"), manifest.length_bounds, self.settings, most)

    def check_network(self, network: Network) -> None:
        if not isinstance(network, TranslationNetwork):
            raise wrong_kind(str(self.config.model["architecture"]), "translation")
        network.check_vocabularies(self.tokenizers.one_vocabulary)

    def shares(self, loader: LaneLoader) -> Iterable[str]:
        return loader.mix.describe() if loader.mix else ()

    def describe(self) -> str:
        train = self.manifest.split("train")
        return f"{train.records:,} pairs, {train.target_tokens:,} target tokens"

    def plan(self) -> str:
        tokens, records = self.settings.lanes * self.settings.batch_tokens, self.manifest.split("train").records
        return f"{records:,} pairs: {{steps:,}} steps of {tokens:,} tokens"


def learned(config: Config) -> Pairs:
    """Returns the pairs, or with `loader.denoise` the noised texts of each side."""
    noised = "dragoman.pipelines.tasks.noised:NoisedTexts"
    pairs: Pairs = Pairs(config) if config.loader.denoise == "none" else loaded(noised)(config)
    return pairs


TRANSLATION = Task(
    Pairs.kind,
    NetworkTraining(learned, unread=("vectors",)),
    save_bundle=later(f"{RELEASE}:save_bundle"),
    record=later(f"{RELEASE}:record"),
    fit_release=later(f"{RELEASE}:fit_release"),
    evaluate=later(f"{RELEASE}:evaluate"),
    judge=later(f"{RELEASE}:judge"),
)
