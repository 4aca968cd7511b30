"""Denoising pre-training of encoder-decoders (`loader.denoise`): noised texts of each side in place of pairs."""

from collections.abc import Callable, Iterable, Sequence

from dragoman.model.errors import UserError
from dragoman.model.shards.opening import open_reader
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.denoising import DenoisingLoader, held_out_noised
from dragoman.pipelines.tasks.network import refuse_bleu
from dragoman.pipelines.tasks.translation import Pairs


class NoisedTexts(Pairs):
    """Noised texts of each side; a network learns to write them as they were."""

    @property
    def of_loader(self) -> Sequence[str]:
        return DenoisingLoader.of

    def loader(self, rank: int = 0, world: int = 1) -> DenoisingLoader:
        reader = open_reader(self.shards, "train", self.settings.reader)
        return DenoisingLoader(reader, self.settings, self.config.seed, rank, world)

    def held_out(self, ranks: Ranks) -> Callable[[], Iterable[TranslationBatch]]:
        reader = ShardReader(self.shards, "valid")
        reader.expect_all()
        return lambda: held_out_noised(reader, self.settings, ranks.rank, ranks.world)

    def check(self) -> None:
        manifest, noise = self.manifest, f"loader.denoise={self.settings.denoise}"
        if manifest.kind != "parallel":
            raise UserError(
                f"{noise}: needs shards of two sides, and those in {self.shards} are "
                f"{manifest.kind}. One text may be both sides: dragoman shard corpus=moses pair=en-en "
                f"corpus.train.source=FILE corpus.train.target=FILE; then train with loader.side=source"
            )
        super().check()
        refuse_bleu(self.config, noise)  # it learns no translation that could be measured
