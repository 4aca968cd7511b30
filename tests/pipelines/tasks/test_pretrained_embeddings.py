"""Word vectors as first values of embedding tables: which rows, how large, kept in the run, and frozen to the end."""

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dragoman.model.bundles.vectors import load_vectors, save_vectors
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import architecture
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.ports import free_ports
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.subword_training import train_subwords
from dragoman.model.text.tokenizer import SPECIAL, SPECIAL_PIECES, Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.words import CharacterTokenizer, WordRules, WordTokenizer
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import EmbeddingsConfig, LoaderConfig, OptimizerConfig, TrainConfig
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.pretrained_embeddings import ROWS, initialise, matches
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.final_weights import final_weights
from dragoman.pipelines.training.loop import Trainer
from tests.warm import start_ranks

WIDTH, VOCABULARY = 16, 50  # of the shards that `make_shards` makes: words w0 to w43
CPU = torch.device("cpu")


def words_of(pieces: Sequence[str], **rules: bool) -> WordTokenizer:
    return WordTokenizer([*SPECIAL_PIECES, *pieces], WordRules(**rules))


def bundle(directory: Path, words: Sequence[str], width: int = WIDTH, tokenizer: Tokenizer | None = None) -> Path:
    """Vectors of `words` whose row r is drawn around r, a thousand times as large as a table's."""
    tokenizer = tokenizer or words_of(words)
    rng = np.random.default_rng(0)
    table = rng.normal(0, 100, (len(words), width)).astype(np.float32)
    save_vectors(
        directory,
        words=words,
        counts=np.arange(len(words), 0, -1),
        tables={"vectors": table},
        config=Word2VecConfig(width=width),
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts={"pair": "en"},
    )
    return directory


def network(tie: str = "none", vocabulary: int = VOCABULARY) -> Transformer:
    torch.manual_seed(1)
    settings = TransformerConfig("transformer", "t", WIDTH, 2, 16, 1, 1, dropout=0.1, tie=tie)  # type: ignore[arg-type]
    return Transformer(settings, vocabulary, vocabulary)


@pytest.fixture
def shards(make_shards: Callable[..., Path], random_pairs: list[Any]) -> Path:
    return make_shards(random_pairs)


@pytest.fixture
def pair() -> TokenizerPair:
    tokenizer = words_of([f"w{i}" for i in range(VOCABULARY - len(SPECIAL))])
    return TokenizerPair(tokenizer, tokenizer)


@pytest.fixture
def config(shards: Path, tmp_path: Path) -> Callable[..., Config]:
    """config(source=..., target=..., freeze=...) of a run in an empty folder."""

    def made(**section: Any) -> Config:
        paths = PathsConfig(root=str(tmp_path), shards=str(shards), runs=str(tmp_path / "runs"))
        made = Config(name="run", paths=paths, embeddings=EmbeddingsConfig(**section))
        made.run_dir.mkdir(parents=True, exist_ok=True)
        return made

    return made


@pytest.mark.parametrize(
    "made", [network, lambda: RNNSearch(RNNSearchConfig(embedding=WIDTH, width=8, encoder_width=4, tie="none"), 50, 50)]
)
def test_rows_with_a_word_are_copied_scaled_and_the_others_stay(
    made: Callable[[], TranslationNetwork], config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    """Of any network of the family."""
    path = bundle(tmp_path / "vectors", ["w3", "elsewhere", "w40", "w7"])
    ours = made()
    before = {side: table.weight.detach().clone() for side, table in ours.embedding_tables().items()}
    initialise(config(source=str(path)), ours, pair)
    table = ours.embedding_tables()["source"].weight.detach()
    ids = [SPECIAL["sep"] + 1 + i for i in (3, 40, 7)]
    vectors = torch.from_numpy(load_vectors(path).embeddings.vectors[[0, 2, 3]])  # type: ignore[arg-type]
    others = [i for i in range(VOCABULARY) if i not in ids]
    assert torch.equal(table[others], before["source"][others])
    torch.testing.assert_close(table[ids] / table[ids].norm(), vectors / vectors.norm())
    spread = before["source"][len(SPECIAL) :].std()
    assert float(table[ids].std(correction=0)) == pytest.approx(float(spread), rel=1e-5)
    assert torch.equal(ours.embedding_tables()["target"].weight, before["target"])
    assert all(parameter.requires_grad for parameter in ours.parameters())


def test_in_a_shared_table_the_targets_rows_have_the_last_word(
    config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    source, target = bundle(tmp_path / "a", ["w1", "w2"]), bundle(tmp_path / "b", ["w3", "w2"])
    ours = network("all")
    initialise(config(source=str(source), target=str(target)), ours, pair)
    table = ours.target_embedding.weight.detach()
    wanted = load_vectors(target).embeddings.vectors[1]
    cosine = torch.nn.functional.cosine_similarity(table[len(SPECIAL) + 2], torch.from_numpy(wanted), dim=0)  # type: ignore[arg-type]
    assert cosine == pytest.approx(1.0)
    assert table[len(SPECIAL) + 1].std() > 0.05


def test_a_frozen_table_is_frozen_for_all_that_share_it(
    config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    path = str(bundle(tmp_path / "vectors", ["w3"]))
    shared, apart = network("all"), network("target")
    initialise(config(source=path, freeze=True), shared, pair)
    assert not shared.output.weight.requires_grad
    initialise(config(source=path, freeze=True), apart, pair)
    assert not apart.source_embedding.weight.requires_grad
    assert apart.output.weight.requires_grad


LINES = ["the house and the houses", "the cat in the house", "The cats and houses of The House"] * 20


def subwords() -> Tokenizer:
    return train_subwords(TokenizerConfig(type="bpe", vocabulary=45), LINES)


def found(tokenizer: Tokenizer, words: Sequence[str], theirs: Tokenizer, tmp_path: Path) -> dict[str, str]:
    """piece -> word."""
    opened = load_vectors(bundle(tmp_path / "vectors", words, tokenizer=theirs))
    ids, rows = matches(tokenizer, opened)
    return dict(zip(tokenizer.pieces(ids), (opened.words[row] for row in rows), strict=True))


def test_a_piece_that_begins_a_word_is_that_whole_word_in_the_vectors_letter_case(tmp_path: Path) -> None:
    words = ["the", "house", "ho", "us", "cat", "t"]
    theirs = words_of(words, lowercase=True, punctuation=False)
    pieces = found(subwords(), words, theirs, tmp_path)
    assert pieces["▁the"] == "the" and pieces["▁house"] == "house"
    assert pieces.get("▁The", "the") == "the"
    assert all(piece.startswith("▁") for piece in pieces)  # "us" inside of a word is no word


def test_case_counts_where_the_vectors_tell_it_apart(tmp_path: Path) -> None:
    tokenizer = words_of(["The", "the", "House"])
    assert found(tokenizer, ["the", "house"], words_of(["the", "house"]), tmp_path) == {"the": "the"}
    lower = words_of(["the", "house"], lowercase=True)
    assert found(tokenizer, ["the", "house"], lower, tmp_path / "lower") == {
        "The": "the",
        "the": "the",
        "House": "house",
    }


def test_characters_are_no_words(tmp_path: Path) -> None:
    characters = CharacterTokenizer([*SPECIAL_PIECES, "a", "b"])
    assert found(characters, ["a", "and"], words_of(["a", "and"]), tmp_path) == {}
    assert found(characters, ["a", "c"], characters, tmp_path / "same") == {"a": "a"}


@pytest.mark.parametrize(
    ("words", "width", "message"),
    [
        (["w1", "w2"], 12, r"its vectors have 12 numbers, the rows of the network's table 16\. Choices: 12 for the"),
        (["x", "y"], WIDTH, r"none of its 2 words \(x, y \.\.\.\) is a piece of the source vocabulary \(w0, w1, w2"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(
    words: list[str], width: int, message: str, config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    path = bundle(tmp_path / "vectors", words, width)
    with pytest.raises(UserError, match=message) as caught:
        initialise(config(source=str(path)), network(), pair)
    assert str(caught.value).startswith(f"embeddings.source={str(path)!r}: ")


def test_references_to_nothing_are_refused(config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"embeddings\.target: 'nowhere' is neither a bundle's directory nor a run"):
        initialise(config(target="nowhere"), network(), pair)
    with pytest.raises(UserError, match=r"embeddings\.freeze=true: needs embeddings\.source or embeddings\.target"):
        initialise(config(freeze=True), network(), pair)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.json").write_text('{"format_version": 2}')
    with pytest.raises(UserError, match=r"embeddings\.source=.*a bundle of the kind 'translation'"):
        initialise(config(source=str(tmp_path / "odd")), network(), pair)


def test_a_run_keeps_its_rows_wherever_the_reference_points_later(
    config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = bundle(tmp_path / "vectors", ["w3", "w4"])
    settings = config(source=str(path), freeze=True)
    with caplog.at_level(logging.INFO):
        warm_start.keep(settings, pair)
    assert f"embeddings.source: 2 of 44 rows start from {path}" in caplog.text
    assert "42 rows of the source table have no vector" in caplog.text
    first = network()
    initialise(settings, first, pair)
    shutil.rmtree(path)
    bundle(path, ["w9"])
    warm_start.keep(settings, pair)
    again = network()
    initialise(settings, again, pair)
    assert torch.equal(again.source_embedding.weight, first.source_embedding.weight)
    assert ROWS.note(config(source="another")) is None
    told = warm_start.facts(settings)["embeddings"]
    assert told["source"]["rows"] == 2 and told["freeze"] is True


TRAIN = TrainConfig(
    max_steps=8,
    precision="fp32",
    optimizer=OptimizerConfig(kind="adamw", lr=0.01, warmup_steps=2, weight_decay=0.1, ema_decay=0.9),
    checkpoint_every=4,
    evaluate_every=8,
    average_last=2,
)


def train(settings: Config, tie: str, ranks: Ranks, steps: int = 8) -> Trainer:
    """One start of a run whose source table begins with vectors and is frozen."""
    pair = TokenizerPair(*[words_of([f"w{i}" for i in range(VOCABULARY - len(SPECIAL))])] * 2)
    ours = network(tie)
    initialise(settings, ours, pair)
    loader = LaneLoader(ShardReader(settings.shard_dir, "train"), LoaderConfig(2, 120, 2), 3, ranks.rank, ranks.world)
    trainer = Trainer(
        ours,
        architecture("transformer").loss,
        loader,
        2,
        replace(TRAIN, max_steps=steps),
        settings.run_dir,
        ranks,
        3,
        lambda: [],
    )
    try:
        trainer.run(lambda step, values: None)
    finally:
        loader.close()
    return trainer


@pytest.mark.parametrize("tie", ["all", "none"])
def test_a_frozen_table_stays_as_it_began_through_training_and_resume(
    tie: str, config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    path = bundle(tmp_path / "vectors", ["w3", "w4"])
    settings = config(source=str(path), freeze=True)
    frozen = "output.weight" if tie == "all" else "source_embedding.weight"
    fresh = network(tie)
    initialise(settings, fresh, pair)
    whole = train(replace(settings, name="whole"), tie, Ranks(0, 1, CPU))
    train(settings, tie, Ranks(0, 1, CPU), steps=4)
    resumed = train(settings, tie, Ranks(0, 1, CPU))
    for trainer in (whole, resumed):
        assert torch.equal(trainer.network.embedding_tables()["source"].weight, fresh.source_embedding.weight)
        moved, began = dict(trainer.network.named_parameters()), dict(fresh.named_parameters())
        assert {name for name in began if torch.equal(moved[name], began[name])} == {frozen}
    mine, theirs = (dict(one.network.named_parameters()) for one in (resumed, whole))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    newest = checkpoints.newest(settings.run_dir)
    assert newest is not None
    tensors, _ = checkpoint.read(newest)
    assert not any(name.startswith(f"{frozen}/") for name in tensors["optimizer"])
    assert torch.equal(tensors["network"][frozen], fresh.source_embedding.weight)
    assert torch.equal(tensors["average"][frozen], fresh.source_embedding.weight)
    mean, _ = final_weights(settings.run_dir, settings.train)
    assert torch.equal(mean[frozen], fresh.source_embedding.weight)


def rank_process(rank: int, port: int, settings: Config) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    train(settings, "all", Ranks(rank, 2, CPU))
    dist.destroy_process_group()


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.long
def test_two_ranks_train_around_a_frozen_table(
    config: Callable[..., Config], pair: TokenizerPair, tmp_path: Path
) -> None:
    settings = config(source=str(bundle(tmp_path / "vectors", ["w3", "w4"])), freeze=True)
    alone = train(replace(settings, name="alone"), "all", Ranks(0, 1, CPU))
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, settings))
    one, other = (
        [line["loss"] for line in journal.lines(run / paths.STEPS) if "batch" in line]
        for run in (settings.run_dir, settings.run_dir.parent / "alone")
    )
    assert len(one) == 8
    assert one == pytest.approx(other, rel=1e-4)
    newest = checkpoints.newest(settings.run_dir)
    assert newest is not None
    together = checkpoint.read(newest)[0]["network"]
    assert torch.equal(together["output.weight"], alone.network.output.weight)
