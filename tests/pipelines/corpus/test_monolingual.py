"""The verb `shard` on text of one language: any shape of file, the same bytes whatever happens on the way."""

import gzip
import itertools
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import StreamReader
from dragoman.model.shards.verify import verify
from dragoman.model.text.tokenizer import EOS, UNK, TokenizerConfig
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.words import WordTokenizer, rules_of
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus import monolingual
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CutConfig, SplitFiles
from dragoman.pipelines.loaders.texts import unpack_split
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.shard import ShardResult, shard
from dragoman.pipelines.tasks.training_texts import overlap
from dragoman.pipelines.tracking.settings import TrackingConfig
from dragoman.pipelines.tracking.sharding import record_sharding
from dragoman.pipelines.unpack import main as unpack
from tests.pipelines.conftest import directory_bytes
from tests.pipelines.killed_sharding import kill_sharding, shard_over_ray

WORDS = ["the", "house", "of", "green", "rivers", "Runs", "über", "naïve", "猫", "new", "york", "old", "tree", "it's"]
SMALL = {"dragoman.pipelines.corpus.read.text_blocks.BLOCK_BYTES": 4000}
VOCABULARY = TokenizerConfig(
    name="vocabulary", type="words", vocabulary=1000, lowercase=True, punctuation=False, train_lines=0
)
Make = Callable[..., Config]


def _lines(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join([*rng.choices(WORDS, k=rng.randint(2, 20)), f"w{seed}{n % 50}"]) for n in range(count)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and tasks from a few hundred lines."""
    for name, value in SMALL.items():
        monkeypatch.setattr(name, value)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """make("name", {corpus keys}, ...) -> the configuration of an uncut text, whose shards go to tmp_path/name."""
    (tmp_path / "train.txt").write_text("".join(f"{line}\n" for line in _lines(900, 1)), encoding="utf-8")

    def config(name: str, corpus: dict[str, object] | None = None, **keys: object) -> Config:
        text: dict[str, object] = {
            "name": "text",
            "format": "text",
            "train": SplitFiles(file=str(tmp_path / "train.txt")),
            "clean": CleanConfig(max_chars=20_000, max_words=1000, duplicates=False),
            "cut": CutConfig(valid=0, test=0),
        }
        values: dict[str, object] = {
            "pair": "en",
            "corpus": CorpusConfig(**{**text, **(corpus or {})}),  # type: ignore[arg-type]
            "paths": PathsConfig(shards=str(tmp_path / name)),
            "tokenizer": TokenizerConfig(name="characters", type="characters", vocabulary=200),
            "shards": ShardsConfig(chunk_records=32),
            "cluster": ClusterConfig(backend="local"),
        }
        return Config(**{**values, **keys})  # type: ignore[arg-type]

    return config


def _texts(result: ShardResult, split: str = "train") -> list[str]:
    return [text for (text,) in unpack_split(result.directory, split)]


def test_what_goes_in_comes_out_in_order(make: Make) -> None:
    result = shard(make("shards"))
    assert _texts(result) == _lines(900, 1)
    manifest = result.manifest
    assert (manifest.kind, manifest.languages) == ("monolingual", ["en"])
    assert len(manifest.split("train").shards) > 4
    assert not (result.directory / ".work").exists()
    assert [list(chunk.source) for chunk in StreamReader(result.directory, "train")] == [
        list(chunk.source) for chunk in ShardReader(result.directory, "train")
    ]
    assert all(not len(chunk.target) for chunk in ShardReader(result.directory, "train"))
    assert (
        verify(result.directory) == len(list(result.directory.glob("*.tar"))) + 2
    )  # the tokenizer, hashes of the texts
    assert shard(make("shards")).found


@pytest.mark.parametrize("kind", ["words", "bpe", "vocabulary"])
def test_every_tokenizer_reads_it(make: Make, kind: str) -> None:
    config = VOCABULARY if kind == "vocabulary" else TokenizerConfig(name=kind, type=kind, vocabulary=130)  # type: ignore[arg-type]
    result = shard(make("shards", {"cut": CutConfig(valid=0.1, test=0.1, run=20)}, tokenizer=config))
    reader = ShardReader(result.directory, "train")
    splits = result.manifest.splits
    assert sum(split.records for split in splits.values()) == 900
    assert all(60 < splits[name].records < 120 for name in ("valid", "test"))
    for chunk in reader:
        assert (chunk.source[chunk.source_offsets[1:] - 1] == EOS).all()
        assert not (chunk.source == UNK).any()
    if kind != "vocabulary":
        assert len(_texts(result, "valid")) == result.manifest.texts["valid"]["en"]["lines"]


def test_the_vocabulary_is_counted_over_every_line(make: Make) -> None:
    words = rules_of(VOCABULARY)
    counts = Counter(word for line in _lines(900, 1) for word in words.split(line.lower()))
    expected = sorted(counts, key=lambda word: (-counts[word], word))
    result = shard(make("shards", tokenizer=VOCABULARY))
    tokenizer = load_pair(result.directory, result.manifest.tokenizer).source
    assert isinstance(tokenizer, WordTokenizer)
    assert tokenizer.written[6:] == expected
    assert tokenizer.rules == words
    ids = np.concatenate([chunk.source for chunk in ShardReader(result.directory, "train")])
    assert np.bincount(ids)[6:].tolist() == [counts[word] for word in expected]


@pytest.mark.long
def test_two_workers_write_the_same_bytes(make: Make) -> None:
    corpus = {"cut": CutConfig(test=0.1, run=20)}
    one = shard(make("one", corpus, tokenizer=VOCABULARY))
    two = make("two", corpus, tokenizer=VOCABULARY, cluster=ClusterConfig(backend="ray", workers=2))
    shard_over_ray(two, SMALL)
    assert directory_bytes(one.directory) == directory_bytes(two.shard_dir)


def test_killed_at_any_stage_it_goes_on_to_the_same_bytes(make: Make) -> None:
    corpus = {"cut": CutConfig(test=0.1, run=20)}
    undisturbed = directory_bytes(shard(make("undisturbed", corpus, tokenizer=VOCABULARY)).directory)
    config = make("killed", corpus, tokenizer=VOCABULARY)
    for where, call in (
        ("dragoman.pipelines.corpus.clean.task.save_block", 5),
        ("dragoman.pipelines.corpus.monolingual.count_units", 7),
        ("dragoman.model.shards.writer.canonical_json", 3),
    ):
        kill_sharding(config, where, call, SMALL)
        assert not (config.shard_dir / "manifest.json").exists()
    shard(config)
    assert directory_bytes(config.shard_dir) == undisturbed


def test_cut_splits_are_runs_of_neighbours_and_never_seen_in_training(make: Make, tmp_path: Path) -> None:
    lines = _lines(900, 1)
    lines[700:720] = lines[:20]  # repeated far away
    lines[5] = lines[6] = "Yes."
    (tmp_path / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    result = shard(make("shards", {"cut": CutConfig(valid=0.1, test=0.2, run=10)}))
    split = {name: _texts(result, name) for name in ("train", "valid", "test")}
    long = {name: {text for text in texts if text.count(" ") >= 7} for name, texts in split.items()}
    assert not long["train"] & (long["valid"] | long["test"])
    assert not long["valid"] & long["test"]
    dropped = sum(rules.get("leaked", 0) for rules in result.manifest.dropped.values())
    assert sum(map(len, split.values())) + dropped == 900
    starts = [lines.index(text) for text in split["test"] if lines.count(text) == 1]
    assert sum(b - a == 1 for a, b in itertools.pairwise(starts)) > len(starts) * 0.7
    assert split["test"] != _texts(shard(make("other", {"cut": CutConfig(test=0.2, run=10)}, seed=2)), "test")
    (tmp_path / "train.txt").write_text("one line\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"corpus.cut.run=1000: the training files are \d+ run\(s\)"):
        shard(make("few", {"cut": CutConfig(valid=0.5, test=0.4, run=1000)}))


@pytest.mark.parametrize("count", [3, 900])
def test_a_text_alone_is_enough_for_all_three_splits(
    make: Make, tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train.txt").write_text("\n".join(_lines(count, 1)), encoding="utf-8")
    caplog.set_level("INFO")
    result = shard(make("shards", {"cut": CutConfig()}))
    run = max(1, count // 20)
    assert f"corpus.cut.valid=0.05 corpus.cut.test=0.05 corpus.cut.run={run} does" in caplog.text
    held = [result.manifest.split(split).records for split in ("valid", "test")]
    assert all(0.5 * run <= records <= 2 * run for records in held)
    by_hand = shard(make("by-hand", {"cut": CutConfig(valid=0.05, test=0.05, run=run)}))
    assert [by_hand.manifest.split(split).records for split in ("valid", "test")] == held
    assert set(
        shard(make("vectors", {"cut": CutConfig()}, tokenizer=TokenizerConfig(type="words"))).manifest.splits
    ) == {"train"}
    (tmp_path / "train.txt").write_text("too short\nto be cut\n", encoding="utf-8")
    assert set(shard(make("short", {"cut": CutConfig()})).manifest.splits) == {"train"}


def test_short_lines_that_recur_in_every_split_are_no_training_texts(make: Make, tmp_path: Path) -> None:
    """They prove no leak, and no language model could be scored on a play whose people say "What?"."""
    lines = [line for text in _lines(900, 1) for line in (text, "What?")]
    (tmp_path / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    folder = shard(make("shards", {"cut": CutConfig(valid=0.1, run=10)})).directory
    common = overlap([folder], [(folder / "valid.en.txt").read_text(encoding="utf-8").splitlines()])
    assert common.of > 50 and not common.lines
    trained = next(text for text in unpack_split(folder, "train") if text[0].count(" ") > 8)
    assert overlap([folder], [trained]).lines == (1,)


def test_repeated_lines_go_only_where_asked(make: Make, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("b\na\nb\na\nc\n" * 3, encoding="utf-8")
    assert len(_texts(shard(make("all")))) == 15
    once = shard(make("once", {"clean": CleanConfig(duplicates=True)}))
    assert _texts(once) == ["b", "a", "c"]
    assert once.manifest.dropped["train"] == {"duplicate": 12}


def test_an_endless_line_streams_in_bounded_blocks(make: Make, tmp_path: Path) -> None:
    rng = random.Random(1)
    words = rng.choices(WORDS, k=60_000)
    (tmp_path / "train.txt").write_text(" ".join(words), encoding="utf-8")
    result = shard(make("shards", {"clean": CleanConfig(max_words=50, max_chars=20_000)}))
    texts = _texts(result)
    assert " ".join(texts).split() == words
    assert max(text.count(" ") for text in texts) == 49
    assert result.manifest.sources[0]["lines"] == 1
    (tmp_path / "train.txt").write_text("é猫" * 20_000, encoding="utf-8")
    # one word of 100 kB
    result = shard(make("nospace", {"clean": CleanConfig(max_chars=300, duplicates=False)}))
    assert "".join(_texts(result)) == "é猫" * 20_000


def test_long_records_make_small_chunks(make: Make) -> None:
    sizes = monolingual.shard_sizes(ShardsConfig(), TokenizerConfig(), 5_500.0)
    assert (sizes.chunk_records, sizes.shard_lines) == (64, 64 * 128)
    assert monolingual.shard_sizes(ShardsConfig(), TokenizerConfig(), 50.0) == ShardsConfig()
    assert monolingual.shard_sizes(ShardsConfig(), TokenizerConfig(type="characters"), 1e9).chunk_records == 1


def test_no_text_or_no_frequent_word_is_said(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer.min_count=100000: nothing in the text is that frequent"):
        shard(make("shards", tokenizer=TokenizerConfig(type="words", min_count=100_000, train_lines=0)))
    for data, rules in ((b"", "none, the files are empty"), (b"\n \n\t\n\xc2\xa0\n", "blank 4")):
        (tmp_path / "train.txt").write_bytes(data)
        with pytest.raises(UserError, match=f"corpus.train.file: no training text is left; dropped: {rules}"):
            shard(make("shards"))


def test_patterns_name_many_files_and_held_out_ones_are_not_trained_on(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "books"
    (folder / "deep").mkdir(parents=True)
    for number, name in enumerate(("c.txt", "a.txt", "deep/b.txt")):
        (folder / name).write_text(f"text {'tex'[number]}\n", encoding="utf-8")
    (folder / "d.txt.gz").write_bytes(gzip.compress(b"text ttt\n"))
    (folder / "empty.txt").write_bytes(b"")
    corpus = {"root": str(folder), "train": SplitFiles(file="*.txt*"), "test": SplitFiles(file="a.txt")}
    result = shard(make("shards", corpus))
    assert _texts(result) == ["text t", "text ttt"]
    assert _texts(result, "test") == ["text e"]
    corpus["train"] = SplitFiles(file=["**/b.txt", "c.txt"])
    assert _texts(shard(make("deep", corpus))) == ["text x", "text t"]
    for name, message in (("*.gzip", "no file has such a name"), ("deep", r"is a folder; name its files")):
        with pytest.raises(UserError, match=f"corpus.train.file: .*{message}"):
            shard(make("none", {**corpus, "train": SplitFiles(file=name)}))
    with pytest.raises(UserError, match=r"pair=en-de: a text corpus has one language"):
        shard(make("two", corpus, pair="en-de"))


@pytest.mark.parametrize("kind", ["monolingual", "parallel"])
def test_training_text_is_kept_where_asked(make: Make, tmp_path: Path, kind: str) -> None:
    config = make("shards", shards=ShardsConfig(chunk_records=32, keep_text=True))
    if kind == "parallel":
        files = SplitFiles(source=str(tmp_path / "train.txt"), target=str(tmp_path / "train.txt"))
        clean = CleanConfig(copies=False, duplicates=False)
        config.corpus, config.pair = (
            CorpusConfig(train=files, clean=clean, cut=CutConfig(valid=0, test=0), check="off"),
            "en-de",
        )
    result = shard(config)
    for language in result.manifest.languages:
        data = (result.directory / f"train.{language}.txt.zst").read_bytes()
        text = zstandard.ZstdDecompressor().decompressobj().decompress(data).decode()
        assert text.split("\n")[:-1] == _lines(900, 1)
        assert result.manifest.texts["train"][language]["lines"] == 900
    assert verify(result.directory) > 9
    assert shard(config).found


def test_its_run_and_its_text_can_be_looked_at(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = shard(make("shards", tokenizer=VOCABULARY))
    assert unpack([f"paths.shards={result.directory}", "unpack.records=2"]) == 0
    assert capsys.readouterr().out.splitlines() == [line.lower() for line in _lines(2, 1)]
    assert unpack([f"paths.shards={result.directory}", "unpack.side=target"]) == 2
    tracking = TrackingConfig(uri=f"sqlite:///{tmp_path}/tracking.db", offline=True, system_metrics=False)
    record_sharding(tracking, tmp_path / "runs", {"seed": 1}, "ab" * 32, result.directory)
    names = {path.name for path in (tmp_path / "runs").rglob("*.png")}
    assert "lengths-train.png" in names


def test_books_and_archives(make: Make, tmp_path: Path) -> None:
    """Members of a zip, a line in another encoding among them, and compressed books between their marks."""
    lines = [line.encode() for line in _lines(60, 3)]
    lines[44] = "café".encode("cp1252")
    with zipfile.ZipFile(tmp_path / "speeches.zip", "w") as archive:
        for number in range(2):
            archive.writestr(f"speeches/{number}.txt", b"\n".join(lines[number * 30 : number * 30 + 30]) + b"\n")
    zips = {"train": SplitFiles(file=str(tmp_path / "speeches.zip"))}
    with pytest.raises(UserError, match=r"speeches.zip: speeches/1.txt: line 15: invalid UTF-8"):
        shard(make("strict", zips))
    skipped = shard(make("skipped", {**zips, "on_error": "skip"})).manifest
    assert (skipped.dropped["train"]["invalid_utf8"], skipped.split("train").records) == (1, 59)
    assert "café" in _texts(shard(make("both", {**zips, "encoding": ["utf-8", "cp1252"]})))

    paragraphs = ["\n".join(_lines(3, seed)) for seed in range(20)]
    book = "\n\n".join(["The licence", "*** START OF IT ***", *paragraphs, "*** END OF IT ***", "The licence"])
    (tmp_path / "book.txt.gz").write_bytes(gzip.compress(book.encode()))
    between = {"records": "paragraph", "between": ["*** START OF", "*** END OF"]}
    found = _texts(shard(make("book", {"train": SplitFiles(file=str(tmp_path / "*.txt.gz")), **between})))
    assert found == [text.replace("\n", " ") for text in paragraphs]


def test_blank_lines_stay_where_they_are_asked_for(make: Make, tmp_path: Path) -> None:
    lines = [line for number, one in enumerate(_lines(300, 2)) for line in ([one, ""] if number % 3 else [one])]
    (tmp_path / "blank.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = {"train": SplitFiles(file=str(tmp_path / "blank.txt")), "blank": "keep"}
    result = shard(make("kept", corpus))
    tokenizer = load_pair(result.directory, result.manifest.tokenizer).source
    rows = [row[:-1] for chunk in ShardReader(result.directory, "train") for row, _ in chunk.rows()]
    assert tokenizer.decode(rows) == lines
    assert result.manifest.dropped.get("train", {}).get("blank", 0) == 0
    with pytest.raises(UserError, match=r"corpus\.blank=keep: a blank line ends a paragraph"):
        shard(make("paragraphs", {**corpus, "records": "paragraph"}))


def test_the_end_of_the_text_is_held_out_where_it_is_asked_for(make: Make) -> None:
    cut = CutConfig(valid=0.1, test=0.05, run=1, place="end")
    result = shard(make("end", {"cut": cut}))
    lines = _lines(900, 1)
    held = {
        split: (result.directory / f"{split}.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for split in ("valid", "test")
    }
    assert held["test"] == lines[-45:]
    assert held["valid"] == [line for line in lines[-135:-45] if line not in lines[-45:]]
