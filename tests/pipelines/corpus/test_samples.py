"""`corpus=webdataset` and back: tars that the library itself writes and reads."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import webdataset
import zstandard
from webdataset.tariterators import group_by_keys, tar_file_expander

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.shards.samples import read_samples, write_samples
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus.read.file_names import SPLITS
from dragoman.pipelines.corpus.read.samples import as_lines
from dragoman.pipelines.corpus.settings import CorpusConfig, CutConfig, SplitFiles
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.settle import settle
from dragoman.pipelines.shard import shard
from dragoman.pipelines.unpack import UnpackConfig, UnpackRoot
from dragoman.pipelines.unpack import task as unpack

PAIRS = [(f"a dog number {n} runs", f"ein Hund Nummer {n} läuft") for n in range(400)]


def tar(path: Path, samples: list[dict[str, Any]]) -> str:
    with webdataset.TarWriter(str(path)) as writer:
        for number, members in enumerate(samples):
            writer.write({"__key__": f"sample{number:04d}", **members})
    return str(path)


def by_library(path: Path) -> list[dict[str, Any]]:
    """As `WebDataset(path)`, which leaves the file open."""
    with path.open("rb") as file:
        return list(group_by_keys(tar_file_expander([{"url": str(path), "stream": file}])))


def lines(corpus: CorpusConfig, pair: str, folder: Path) -> list[Any]:
    found = as_lines(corpus, pair, folder)
    (name,) = found.train.file or ()
    text = Path(name).read_text(encoding="utf-8").splitlines()
    return text if found.format == "text" else [tuple(json.loads(line).values()) for line in text]


@pytest.mark.parametrize(
    "sample",
    [
        lambda a, b: {"en": a.encode(), "de": b.encode(), "jpg": b"\xff\xd8"},
        lambda a, b: {"src": a.encode(), "tgt": b.encode() + b"\n"},
        lambda a, b: {"json": json.dumps({"en": a, "de": b}).encode()},
        lambda a, b: {"json": json.dumps({"source": a, "target": b}).encode(), "cls": b"3"},
        lambda a, b: {"json": json.dumps({"t": {"en": a, "de": b}}).encode()},
    ],
    ids=["languages", "sides", "fields", "named sides", "deeper fields"],
)
def test_pairs_are_found_in_members_and_in_fields(tmp_path: Path, sample: Any) -> None:
    name = tar(tmp_path / "a.tar", [sample(*pair) for pair in PAIRS])
    fields = {"source": "t.{source}", "target": "t.{target}"}  # or a member, or a field of its own
    assert lines(CorpusConfig(train=SplitFiles(file=name), fields=fields), "en-de", tmp_path / "lines") == PAIRS


def test_half_an_emoji_and_deep_json_are_bad_rows_not_tracebacks(tmp_path: Path) -> None:
    half = b'{"en": "half \\ud83d of it", "de": "halb"}'
    deep = b'{"en": "a", "de": "b", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    name = tar(tmp_path / "a.tar", [{"json": half}, {"json": deep}])
    corpus = CorpusConfig(train=SplitFiles(file=name))
    with pytest.raises(UserError, match=r"sample sample0001: nested too deep; corpus\.on_error=skip"):
        lines(corpus, "en-de", tmp_path / "lines")
    corpus = CorpusConfig(train=SplitFiles(file=name), on_error="skip")
    assert lines(corpus, "en-de", tmp_path / "skipped") == [("half  of it", "halb")]


def test_texts_are_found(tmp_path: Path) -> None:
    name = tar(tmp_path / "a.tar", [{"txt": b"one line"}, {"json": b'{"text": "two"}'}])
    assert lines(CorpusConfig(format="webdataset", train=SplitFiles(file=name)), "en", tmp_path / "lines") == [
        "one line",
        "two",
    ]


@pytest.mark.parametrize(
    "names", ["{key}.en {key}.de", "{key}.en.txt {key}.de.txt", "a.b.{key}.en a.b.{key}.de", "x/{key}.src x/{key}.TGT"]
)
def test_members_are_read_however_their_keys_are_written(tmp_path: Path, names: str) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        for number, pair in enumerate(PAIRS[:20]):
            for name, text in zip(names.format(key=f"{number:03d}").split(), pair, strict=True):
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                file.addfile(member, io.BytesIO(text.encode()))
    corpus = CorpusConfig(train=SplitFiles(file=str(tmp_path / "a.tar")))
    assert lines(corpus, "en-de", tmp_path / "lines") == PAIRS[:20]


def test_an_empty_tar_counts_nothing_and_one_of_other_samples_says_what_it_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [tar(tmp_path / "a.tar", [{"en": b"a", "de": b"b"}]), tar(tmp_path / "empty.tar", [])]
    assert lines(CorpusConfig(train=SplitFiles(file=names)), "en-de", tmp_path / "lines") == [("a", "b")]
    assert "empty.tar: holds no members" in caplog.text
    other = tar(tmp_path / "other.tar", [{"en": b"a", "cs": b"b"}, {"jpg": b"c"}])
    with pytest.raises(UserError, match=r"other\.tar: sample sample0000: no \.de"):
        lines(CorpusConfig(train=SplitFiles(file=other)), "en-de", tmp_path / "other")
    with pytest.raises(
        UserError, match=r"other\.tar: no sample has \.nl and \.de; its members are called sample0000\.cs"
    ):
        lines(CorpusConfig(train=SplitFiles(file=other)), "nl-de", tmp_path / "nl")


BROKEN = [{"en": b"a", "de": b"b"}, {"en": b"a"}, {"en": b"\xff", "de": b"b"}, {"json": b"{"}, {"en": b"c", "de": b"d"}]


@pytest.mark.parametrize("split", SPLITS)
def test_the_tars_of_every_split_become_lines(tmp_path: Path, split: str) -> None:
    files = SplitFiles(file=tar(tmp_path / "a.tar", [{"en": b"a", "de": b"b"}]))
    found = as_lines(CorpusConfig(**{split: files}), "en-de", tmp_path / "lines")
    (name,) = getattr(found, split).file
    assert json.loads(Path(name).read_text(encoding="utf-8")) == {"source": "a", "target": "b"}


def test_broken_samples_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = tar(tmp_path / "a.tar", BROKEN)
    with pytest.raises(UserError, match=r"a\.tar: sample sample0001: no \.de"):
        lines(CorpusConfig(train=SplitFiles(file=name)), "en-de", tmp_path / "lines")
    skipping = CorpusConfig(train=SplitFiles(file=name), on_error="skip")
    assert lines(skipping, "en-de", tmp_path / "lines") == [("a", "b"), ("c", "d")]
    for key in ("sample0001", "sample0002", "sample0003"):
        assert key in caplog.text


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("form", COMPRESSORS)
def test_a_tar_is_read_by_its_bytes_and_refused_when_it_is_cut_off(tmp_path: Path, form: str) -> None:
    path = Path(tar(tmp_path / "a.tar", [{"en": str(n).encode(), "de": b"b"} for n in range(20)]))
    data = COMPRESSORS[form](path.read_bytes())
    path.write_bytes(data)
    assert [members["en"] for _, members in read_samples(path, {"en", "de"})] == [str(n).encode() for n in range(20)]
    for kept in (3000, 10_000) if form == "plain" else (len(data) - 5,):
        path.write_bytes(data[:kept])
        with pytest.raises(UserError, match=r"a\.tar"):
            list(read_samples(path, {"en", "de"}))


def test_written_samples_are_the_same_bytes_and_the_library_reads_them(tmp_path: Path) -> None:
    samples = [(f"{n:09d}", {"en": b"a", "de": b"b"}) for n in range(3)]
    assert write_samples(tmp_path / "a.tar", samples) == write_samples(tmp_path / "b.tar", samples) == 3
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    found = by_library(tmp_path / "a.tar")
    assert [sample["en"] for sample in found] == [b"a"] * 3


def test_a_damaged_tar_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"x" * 2000)
    corpus = CorpusConfig(format="webdataset", train=SplitFiles(file=str(tmp_path / "bad.tar")))
    paths = PathsConfig(root=str(tmp_path), shards=str(tmp_path / "home" / "shards"))
    config = Config(name="run", paths=paths, corpus=corpus)
    with pytest.raises(UserError, match=r"bad\.tar: not a whole tar"):
        shard(config)
    assert not list((tmp_path / "home").iterdir())


def test_a_corpus_of_tars_becomes_shards_and_tars_again(tmp_path: Path) -> None:
    name = tar(tmp_path / "a.tar", [{"en": a.encode(), "de": b.encode()} for a, b in PAIRS])
    cut = CutConfig(valid=0.1, test=0.1)
    config = Config(
        name="run",
        paths=PathsConfig(root=str(tmp_path), shards=str(tmp_path / "shards")),
        corpus=CorpusConfig(format="webdataset", train=SplitFiles(file=name), cut=cut, leaks="source"),
        tokenizer=TokenizerConfig(name="characters", type="characters"),
        cluster=ClusterConfig(backend="local"),
    )
    made = shard(config)
    assert made.manifest.sources[0]["name"].startswith("train-0-a.tar")
    assert shard(config).found
    words = [f"paths.shards={made.directory}", "corpus=webdataset", "corpus.fields.source='t.{source}'"]
    compose.values([*words, f"corpus.train.file={name}"], settle=partial(settle, "promote"))
    with pytest.raises(UserError, match=r"corpus\.train\.file=b\.tar: .* made of a\.tar\. Leave"):
        compose.values([*words, "corpus.train.file=b.tar"], settle=partial(settle, "promote"))
    settings = UnpackConfig(format="webdataset")
    assert unpack(UnpackRoot(paths=config.paths, unpack=settings, output=str(tmp_path / "tars"))) == 0
    found = by_library(tmp_path / "tars" / "train-000000.tar")
    pairs = {(sample["en"].decode(), sample["de"].decode()) for sample in found}
    assert len(found) == made.manifest.split("train").records and pairs <= set(PAIRS)
